"""This machine: hardware, the state of its GPUs, and the leases by which processes take turns on a GPU.

Only `lease.py` changes anything.
"""
