"""The command line: all commands, options that several share, devices, policies, exit codes.

`main.py` names the commands.
"""
