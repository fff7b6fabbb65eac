"""The standard of correctness: the cases a candidate must pass, the float64 truth, and the limits of errors.

`plan.py` lists the cases, `cases.py` makes them, `yardstick.py` sets the limits.
"""
