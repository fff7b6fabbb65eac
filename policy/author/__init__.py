"""The built-in author: a compiler from a model's operator graph to a file with Triton kernels.

`ir` reads the graph, `rules` lower its operators, `plan` decides, `emit` writes; `writer.py` goes the whole way.
`drafting.py` has the one object that planning and writing are given.
"""
