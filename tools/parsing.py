"""Parse Python text in a process with several threads, and read dotted names."""

from __future__ import annotations

import ast
import dataclasses
import functools
import threading

_ONE_AT_A_TIME = threading.Lock()
TEXTS_KEPT, LONGEST_KEPT = 64, 20_000
"""How many texts `syntax_of` keeps, and the longest one that it keeps: a tree takes a hundred bytes a character."""


@dataclasses.dataclass(frozen=True, slots=True)
class Syntax:
    """A text's syntax tree, which several readers share, so none of them may change it."""

    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """All nodes in the order of `ast.walk`, which takes ten times as long as going through them."""


def parse(source: str) -> ast.Module:
    """Parse a module under a lock: Python 3.11 may raise `SystemError` if two threads build syntax trees at once."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def syntax_of(source: str) -> Syntax:
    """Return the syntax of a function that is read several times, such as a kernel."""
    return _kept(source) if len(source) <= LONGEST_KEPT else _read(source)


def _read(source: str) -> Syntax:
    tree = parse(source)
    return Syntax(tree, tuple(ast.walk(tree)))


_kept = functools.lru_cache(maxsize=TEXTS_KEPT)(_read)


def name_parts(node: ast.AST) -> list[str]:
    """Return `a.b.c` as its parts; an empty list if the expression does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def dotted(node: ast.AST) -> str:
    """Return a dotted name as it is written, or "" for any other expression."""
    return node.id if isinstance(node, ast.Name) else ".".join(name_parts(node))
