"""The cases that a candidate has to pass: which inputs and parameters it is called with, and why these.

`plan.py` says what a case is. `trials.py` makes those of one variant of the problem, with `case_maker.py`; cases with
other parameters, with other magnitudes, with a state, and with numbers that a candidate's kernels name have modules of
their own.
"""
