"""Writing: a planned kernel as Triton text, and the module around the kernels as Python.

`skeleton.py` is shared by all kinds of kernels, which have a `skeleton_*.py` each; `forward.py` writes the host's code.
Imports `ir`, `plan` and `tile`.
"""
