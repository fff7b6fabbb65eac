"""Compares two benchmark records: what changed, and whether the change could be noise.

`compare.py` computes the comparison.
"""
