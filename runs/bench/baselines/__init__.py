"""References alone, in processes of their own: the memory that one needs (`memory.py`), and how fast they run
(`measuring.py`). `references.py` has both ready for a benchmark while its earlier problems are judged. Imported by
`runs/bench` only.
"""
