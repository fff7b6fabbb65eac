"""Evidence bundles: what a run found, in one file that anyone can check and judge again.

`writing.py` makes one, `check.py` reads one that came from anywhere.
"""
