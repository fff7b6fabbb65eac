"""`optimize --parts`: optimizes submodules of a model as problems of their own, and assembles the model from them.

`survey.py` measures submodules, `choosing.py` picks parts, `part_problem.py` writes problems, `assembly.py` the model.
"""
