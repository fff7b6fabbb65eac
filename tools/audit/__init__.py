"""Is a problem worth judging by? Wrong answers are made for it, and the evaluator's own cases have to refuse them.

`audit.py` runs it, `report.py` holds the result.
"""
