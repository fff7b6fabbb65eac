"""Comparing answers with the truth, and deciding whose work they are.

`checks.py` has a function for each question; `authorship.py` reads off the tape who did the work.
"""
