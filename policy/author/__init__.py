"""The built-in author: a compiler from a model's operator graph to a file with Triton kernels.

`ir` reads the graph, `rules` lower its operators, `plan` cuts the program into kernels, `emit` writes them; `writer.py`
runs these stages in order. `drafting.py` has the object that the stages after lowering share.
"""
