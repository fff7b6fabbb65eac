"""Triton's interpreter, made exact: rounding, bounds, memory, and the order in which programs run.

It stands in for a GPU; `executor/interpreted.py` runs tapes on it.
"""
