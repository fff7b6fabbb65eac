"""The operator graph of a model's call: recording, fingerprint, and floor.

`recorder.py` makes an `OperatorGraph`; `operators.py` holds the tables about torch's operators.
"""
