"""Modules in memory: written to disk as problems, and loaded again with kernels.

`problem.py` writes the problem; `runs/api.py` uses this room.
"""
