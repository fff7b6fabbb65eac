"""Text that shipped files contain: launches, the guard, CUDA graphs, and the class that is judged.

`artefact.py` copies it; first read `machinery.py`, the guard.
"""
