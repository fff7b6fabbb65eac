"""The author's intermediate representation: a `Program` of a few operations, with sizes known at several calls.

`program.py` defines it, `alignment.py` reads the operator graphs. Imports nothing of the other rooms.
"""
