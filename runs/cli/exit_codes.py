"""Exit codes of all commands."""

GOOD = 0
NOT_PASSED = 1
"""A kernel did not pass, a problem is flagged, or nothing better was found."""
USAGE = 2
NOT_MEASURED = 3
BUG = 70
INTERRUPTED = 130
