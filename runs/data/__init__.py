"""`triton-agent data make`: writes a dataset of problems and, if asked, of conversations about them.

Begin with `command.py`. What the problems and conversations are is in `policy/train/data`.
"""
