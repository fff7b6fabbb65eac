"""Copies classes and functions out of a user's project, with everything they need, as one text.

`original.py` does it for the reference.
"""
