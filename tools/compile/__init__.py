"""Compiling kernels ahead of time, without a GPU.

Registers, spills and shared memory are read from the compiled binary; `targets.py` lists the supported GPUs.
"""
