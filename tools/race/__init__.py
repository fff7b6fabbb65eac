"""Speed: the clock, the order of turns, baselines, intervals, and what disturbs a measurement.

Nothing here judges correctness.
"""
