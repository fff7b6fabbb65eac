"""Everything that is done to a kernel: load its problem, read its text, record it, run it, judge it and time it.

Modules at the root hold the types that every room uses: results, errors, estimates, versions.
"""
