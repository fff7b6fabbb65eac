"""Parse Python text in a process with several threads."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """Parse a module. Python 3.11 raises `SystemError` now and then if two threads build syntax trees at once."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
