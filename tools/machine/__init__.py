"""This machine: hardware, the state of its GPUs, and the lease that lets one user at a time have a GPU.

Only `lease.py` changes anything.
"""
