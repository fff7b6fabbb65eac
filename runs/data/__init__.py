"""`triton-agent data make`: writes a dataset of problems and, if asked, of conversations about them.

Begin with `command.py`. `policy/train/data` composes the problems and conversations.
"""
