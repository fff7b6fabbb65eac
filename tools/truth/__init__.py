"""The standard of correctness: the float64 truth of a case, and how far an answer may be off.

`expectation.py` runs the reference; `yardstick.py` sets the limits from its error and from random rounding.
"""
