"""Triton's interpreter, corrected to match a GPU: rounding, bounds, memory, and the order in which programs run.

It replaces a GPU; `executor/interpreted.py` runs tapes on it.
"""
