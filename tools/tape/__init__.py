"""The tape: everything one call of a candidate does, recorded on tensors without values, as plain data.

`tracer.py` runs the candidate's Python, `tape.py` defines the recorded data, `admission.py` checks it.
"""
