"""Writing: a planned kernel as Triton text, and the module around the kernels as Python.

`skeleton.py` is shared by the three kinds of kernel; `forward.py` writes the host's code. Imports `ir` and `plan`.
"""
