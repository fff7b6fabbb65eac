"""`optimize --parts`: chooses submodules of a model as problems of their own and assembles their kernels into the
model.

`survey.py` measures submodules, `choosing.py` picks parts, `part_problem.py` writes problems, `assembly.py` the model.
"""
