"""Evidence bundles: the results of a run in one file that anyone can check and evaluate again.

`writing.py` makes one, `check.py` reads one from anywhere, `archive.py` is the file format.
"""
