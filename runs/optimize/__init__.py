"""`triton-agent optimize`: from a model's file to a drop-in file, with its screen; and `promote` and forks of a run.

`run.py` does it, `command.py` is the command line around it.
"""
