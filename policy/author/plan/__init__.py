"""Planning: which kernel computes which values, over which axes, in tiles of which size.

`partition.py` cuts the program into kernels, `attempt.py` plans one of them, `kernel_plan.py` defines a kernel's plan.
Imports `ir` only.
"""
