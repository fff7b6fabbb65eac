"""Running the reference: at the sizes as given and at others, with its inputs, its limits and its facts.

`reference.py` is a loaded problem; `variants.py` finds the other sizes.
"""
