"""Trains a policy on rollouts that it generates meanwhile: roll out, judge, update, repeat.

`session.py` runs a training; `trainer.py` has the trainer that persists through it; `rollouts.py` stores episodes;
`curriculum.py` chooses problems. Needs the extra `train`.
"""
