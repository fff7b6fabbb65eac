"""Trains a policy on its own rollouts: roll out, judge, update, repeat.

`session.py` runs a training; `trainer.py` has the trainer that persists through it; `rollouts.py` stores episodes;
`curriculum.py` chooses problems. Needs the extra `train`.
"""
