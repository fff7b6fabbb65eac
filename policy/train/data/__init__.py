"""Problems without end: random operator graphs as problem files, their split, and conversations about them.

Nothing here starts a process or reads a user's file but as text; `runs/data` writes the folder. Begin with `compose.py`.
"""
