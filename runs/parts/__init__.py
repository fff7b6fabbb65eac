"""Whole models by parts: which submodules are worth a problem of their own, and how their kernels go back in place."""
