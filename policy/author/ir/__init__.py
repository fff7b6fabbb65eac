"""From a graph of torch's operators to a `Program`: a handful of operations, with sizes as expressions.

`translation.py` applies the rules; `program.py` defines the result.
"""
