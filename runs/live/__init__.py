"""Modules in memory: written to disk as a problem, and made again in memory with kernels.

`problem.py` writes the problem; `runs/api.py` uses this room.
"""
