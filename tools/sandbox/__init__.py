"""Isolation layers around a process that runs code nobody trusts.

`sandbox.py` enters them all; each other module is one layer or says which layers this machine has.
"""
