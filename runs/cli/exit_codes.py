"""Exit codes, the same for every command."""

GOOD = 0
NOT_PASSED = 1
"""A kernel did not pass; a problem is not worth judging by; nothing better was found."""
USAGE = 2
NOT_MEASURED = 3
BUG = 70
INTERRUPTED = 130
