"""Planning: which kernel computes which values, over which axes, and how they lie in memory.

`partition.py` cuts the program into kernels, `attempt.py` plans one of them, `kernel_plan.py` defines a kernel's plan.
Imports `ir` only.
"""
