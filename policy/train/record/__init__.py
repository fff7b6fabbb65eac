"""Reads stored attempts as training samples and computes each turn's reward.

`trajectories.py` reads, `rewards.py` has the pure functions from a verdict to a number.
"""
