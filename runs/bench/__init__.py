"""Benchmarks: problems run, recorded, counted and compared. `rows.py` says what is recorded of each problem."""
