"""A policy put to the test: asked, its answers judged, and figures with intervals.

`trial.py` asks and judges.
"""
