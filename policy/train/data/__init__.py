"""Random operator graphs as problem files, their split, and conversations about them.

Nothing here starts a process, and users' files are only parsed. `runs/data` writes the folder. Begin with `compose.py`.
"""
