"""The tape: everything one call of a candidate does, recorded on tensors without values, as plain data.

`tracer.py` runs the candidate's Python, `tape.py` defines what comes out, `admission.py` checks it.
"""
