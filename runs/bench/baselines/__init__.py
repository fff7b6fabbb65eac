"""Measures references alone, in separate processes: the memory of a call (`memory.py`) and its time (`clock.py`).

`references.py` does both for a benchmark while earlier problems are judged. Imported by `runs/bench` only.
"""
