"""What is handed to a user: one file with the kernels, the reference behind them, and a guard that chooses.

`shipped.py` judges and writes it, `artefact.py` puts it together, `plan.py` writes a tape as Python.
"""
