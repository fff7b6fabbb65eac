"""`triton-agent doctor`: what this machine can do, and what to install for more.

Each module but `command.py` and `checkup.py` looks at one part of the machine.
"""
