"""`triton-agent optimize`, `promote` and forks of a run, with the screens that show a run.

`run.py` carries out a run, `command.py` is the command line around it.
"""
