"""Kernels as checked text: captured from a candidate, and compared with a list of allowed names of Triton's language.

A kernel that passes `language.py` can be compiled or interpreted through `modules.py`.
"""
