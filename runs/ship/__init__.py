"""Writes the shipped file: kernels, plans, the reference, and a guard that chooses between them.

`shipped.py` judges the file and writes it, `artefact.py` puts it together, `plan.py` writes a tape as Python.
"""
