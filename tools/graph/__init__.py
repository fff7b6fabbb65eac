"""The operator graph of a model's call: recording it, its fingerprint, and the least work it takes.

`recorder.py` makes a `Graph`; `operators.py` holds what is known of each operator of torch.
"""
