"""Isolation layers around a process that runs untrusted code.

`sandbox.py` enters them all; each other module is one layer, or finds out which layers this machine has.
"""
