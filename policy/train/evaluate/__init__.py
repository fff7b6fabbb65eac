"""Evaluates a policy: asks it, judges its answers, and computes figures with intervals.

`trial.py` asks and judges, `figures.py` computes.
"""
