"""Notes that the interpreter takes while kernels run: the numbers they compute with, and their questions to the data.

`notes.py` puts it around the interpreter's operations; `counterparts.py` and `predicates.py` are told of each of them.
"""
