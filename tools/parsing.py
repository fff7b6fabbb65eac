"""Parse Python text in a process with several threads, and read dotted names."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """Parse a module under a lock: Python 3.11 may raise `SystemError` if two threads build syntax trees at once."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def name_parts(node: ast.AST) -> list[str]:
    """Return `a.b.c` as its parts; an empty list if the expression does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
