"""The driver's side of a verdict: the evaluator, its worker processes, and several sets of inputs.

Start reading at `evaluator.py`.
"""
