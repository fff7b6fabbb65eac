"""Commands on stored runs: `runs ...`, `replay`, `clean`, export and import.

`records.py` loads a stored run for all of them.
"""
