"""Recognises kernel files that differ only in names, comments and layout, so that none is evaluated twice.

Names that a file binds are replaced by numbers in order of appearance. Names from elsewhere (attributes, imports,
`ModelNew`) and all numbers stay. Not covered: the same computation written differently.
"""

from __future__ import annotations

import ast
import functools
import hashlib

KEPT = frozenset({"ModelNew", "forward", "self", "__init__", "super"})

_NAMED: tuple[tuple[tuple[type[ast.AST], ...], str], ...] = (
    ((ast.Name,), "id"),
    ((ast.arg, ast.keyword), "arg"),
    ((ast.FunctionDef, ast.ClassDef), "name"),
)
"""Nodes that hold a name bound in the file, and the field that holds it."""


def candidate_id(source: str) -> str:
    """Return a candidate's identity: the hash of its text."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=4096)
def structure_of(source: str) -> str:
    """Return a digest of the file's structure, or of its text if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return candidate_id(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]
    # Imports and methods keep their names.
    methods = {
        item.name
        for it in ast.walk(tree)
        if isinstance(it, ast.ClassDef)
        for item in it.body
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    bound: set[str] = set()
    for it in ast.walk(tree):
        if isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(it.name)
        elif isinstance(it, ast.arg):
            bound.add(it.arg)
        elif isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store):
            bound.add(it.id)
    _Renamer(frozenset(bound - methods - KEPT)).visit(tree)
    return hashlib.sha256(ast.dump(tree).encode("utf-8", "surrogatepass")).hexdigest()


class _Renamer(ast.NodeTransformer):
    """Replaces names by numbers in order of appearance."""

    def __init__(self, bound: frozenset[str]) -> None:
        self._bound = bound
        self._numbers: dict[str, str] = {}

    def visit(self, node: ast.AST) -> ast.AST:
        for kinds, field in _NAMED:
            name = getattr(node, field) if isinstance(node, kinds) else None
            if name in self._bound:
                setattr(node, field, self._numbers.setdefault(name, f"n{len(self._numbers)}"))
        self.generic_visit(node)
        return node
