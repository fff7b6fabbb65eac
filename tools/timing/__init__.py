"""Speed, measured so that it can be believed.

    intervals.py       intervals of medians and ratios, and when a candidate counts as faster
    samples.py         readings of the clock, as values
    pairing.py         the order in which two subjects take turns
    clock.py           reads the time of one call on a GPU, with a cold L2 cache (needs CUDA)
    renewal.py         new contents for inputs between timed calls
    rates.py           the best that a GPU reaches: copy bandwidth, matrix rates, launch latency (needs CUDA)
    disturbances.py    whether the GPU was fit to be measured on
    baseline_names.py  names of what a candidate can be timed against
    lease.py           one user of a GPU at a time, across processes and people
    clock_room.py      how the candidates of one process share that lease
    giving_way.py      a child process that uses the GPU only while nobody wants it alone

Only `clock`, `rates` and `renewal` import torch. Nothing here judges correctness or runs a candidate.
"""
