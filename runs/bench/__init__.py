"""Benchmarks: problems run, recorded, counted and compared.

`runner.py` runs one; `rows.py` says what is recorded of each problem.
"""
