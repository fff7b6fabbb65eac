"""Deciding: which kernel computes what, along which axes, in tiles of which size.

`partition.py` cuts the program into kernels, `attempt.py` plans one of them, `kernel_plan.py` is the result.
Imports `ir` only.
"""
