"""Two benchmark records side by side: what changed, and whether it could be noise.

`compare.py` works it out.
"""
