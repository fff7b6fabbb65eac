"""The reference as a running module: at the given sizes and at others, with its inputs, its limits and its facts.

`reference.py` holds a loaded problem; `variants.py` finds the other sizes.
"""
