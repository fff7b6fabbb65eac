"""What a person starts: the command line and its screens, a room for each command.

The only folder that wires the others together; `api.py` is the same in Python.
"""
