"""The command line: the entry point, options that several commands share, devices, policies, exit codes.

`main.py` lists the commands; each command has a room of its own.
"""
