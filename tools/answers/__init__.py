"""Judging answers: comparing them with the truth, and deciding who did the work.

`checks.py` has a function for each check of an answer; `authorship.py` reads from the tape who did the work.
"""
