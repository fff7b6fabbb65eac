"""The form of an answer as a regular expression, for engines that can hold a model to one.

Small models forget the form; with it every answer holds a file to judge, and the log-probabilities that are recorded
are those among the tokens the form allows. Not covered: whether the file is Python, let alone right.
"""

from __future__ import annotations

PLAN = r"[^`\n ][^`]{0,4000}"
CODE = r"[^`]*\nclass ModelNew\(nn\.Module\):\n[^`]*\n"
ANSWER_PATTERN = rf"{PLAN}\n```python\nimport torch\n{CODE}```\n?"
"""A plan, then one file: see `policy/answer.py`."""
