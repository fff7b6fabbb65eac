"""Timing: the clock, the order of timed calls, baselines, confidence intervals, and disturbances of a measurement.

Nothing here judges correctness.
"""
