"""`triton-agent evaluate` and `check-problem`: a verdict for given kernels, and an audit of a problem.

Each command has a module.
"""
