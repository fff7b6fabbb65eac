"""What is right: the cases a candidate must pass, the float64 truth, and how far an answer may be off.

`plan.py` lists the cases, `cases.py` makes them, `yardstick.py` sets the limits.
"""
