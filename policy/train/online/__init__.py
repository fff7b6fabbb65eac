"""Trains a policy on answers that it gives meanwhile: rolls out, judges, updates, and again.

`session.py` runs a training; `trainer.py` is the trainer that lives through it; `rollouts.py` keeps episodes in the
store; `curriculum.py` chooses problems. Needs the extra `train`.
"""
