"""How operators of torch become operations of a `Program`: one module for each group of operators.

`building.py` is what rules are written with.
"""
