"""Commands on what the store holds: `runs ...`, `replay`, `clean`, export and import.

`records.py` reads a stored run for all of them.
"""
