"""Deciding: which kernel computes what, along which axes, in tiles of which size.

`partition.py` cuts the program into kernels, `kernel_plan.py` plans one of them.
"""
