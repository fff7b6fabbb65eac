"""`triton-agent report`: a run as one self-contained HTML page.

`page.py` lays it out from `view.py`; `markup.py` escapes, `charts.py` draws. The pages of `runs/bench` use the same
parts.
"""
