"""Kernels as checked text: captured from a candidate, compared with a list of what Triton's language has.

A kernel that passes `language.py` can be compiled or interpreted by `modules.py`.
"""
