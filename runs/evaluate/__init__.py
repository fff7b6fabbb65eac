"""`triton-agent evaluate` and `check-problem`: verdicts on given kernels, and an audit of a problem.

`command.py` and `check_problem.py` hold one command each.
"""
