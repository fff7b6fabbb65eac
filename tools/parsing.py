"""Parsing of Python text in a process with several threads."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """Parse a module. Python 3.11 fails by chance where two threads make syntax trees at once (`SystemError`)."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
