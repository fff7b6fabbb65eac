"""The driver's side of a verdict: the evaluator, its worker processes, and several sets of inputs.

`evaluator.py` is where to start.
"""
