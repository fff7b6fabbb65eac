"""Speed, measured so that it can be believed.

    intervals.py    what samples say: intervals of medians and ratios, and when a candidate counts as faster
    samples.py      what the clock read, as values
    pairing.py      the order in which two subjects take turns
    subject.py      what is timed: one call for each set of inputs
    clock.py        reads the time of one call on a GPU (needs CUDA)
    flusher.py      empties the L2 cache between calls (needs CUDA)
    rates.py        what a GPU reaches at best: copy bandwidth, matrix rates, launch latency (needs CUDA)
    vigil.py        whether the GPU was fit to be measured on meanwhile
    opponents.py    names of what a candidate can be timed against
    lease.py        one user of a GPU at a time, across processes and people

Only `clock`, `flusher` and `rates` import torch. Nothing here judges correctness or runs a candidate in isolation.
"""
