"""The audit: is a problem worth judging by? The evaluator's own cases have to refuse wrong answers made for it.

`audit.py` runs it, `report.py` holds the result.
"""
