"""From stored attempts to training samples, and what each turn was worth.

`rewards.py` holds the pure functions from a verdict to a number.
"""
