"""What the interpreter notes while kernels run: the numbers they compute with, and what they ask of the data.

`notes.py` puts it around the interpreter's operations; `counterparts.py` and `predicates.py` are told of each of them.
"""
