"""The standard of correctness: the cases a candidate must pass, the float64 truth, and the limits of errors.

`plan.py` lists the cases; `cases.py`, `number_cases.py` and `state_cases.py` make them; `yardstick.py` sets the limits.
"""
