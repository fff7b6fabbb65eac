"""How operators of torch become operations of a `Program`: one module for each group of operators.

`building.py` is what rules are written with, `registry.py` lists the groups, `translation.py` applies them to a graph.
Imports `ir` only.
"""
