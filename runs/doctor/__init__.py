"""`triton-agent doctor`: reports what this machine can do, and what to install for more.

`command.py` prints, `examination.py` collects the checks, `checkup.py` holds their types.
"""
