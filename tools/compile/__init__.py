"""Compiling kernels ahead of time, without a GPU.

Registers, spills and shared memory are read off the compiled binary; `targets.py` says what can be compiled for.
"""
