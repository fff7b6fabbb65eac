"""Benchmarks: runs many problems, records a row for each, and computes and compares the figures.

`runner.py` runs a benchmark; `rows.py` defines what is recorded of each problem.
"""
