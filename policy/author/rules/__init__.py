"""Rules that lower torch operators to operations of a `Program`: one module for each group of operators.

`building.py` has the interface for rules, `registry.py` lists the groups, `translation.py` applies the rules to a
graph. Imports `ir` only.
"""
