"""What can be done to a kernel: load its problem, read its text, record, run, judge and time it.

Modules at the root hold what every room uses: results, errors, estimates, versions.
"""
