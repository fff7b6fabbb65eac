"""Recognise kernel files that differ only in names, comments and layout, so that none is evaluated twice.

Names that a file binds are replaced by their order of appearance. Names from elsewhere (attributes, imports,
`ModelNew`) stay, and so do all numbers. Not covered: the same computation written in another way.
"""

from __future__ import annotations

import ast
import functools
import hashlib

KEPT = frozenset({"ModelNew", "forward", "self", "__init__", "super"})


@functools.lru_cache(maxsize=4096)
def structure_of(source: str) -> str:
    """Return a digest of the file's structure; of the text itself if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    _drop_docstrings(tree)
    _Renamer(_bound_names(tree)).visit(tree)
    return hashlib.sha256(ast.dump(tree).encode("utf-8", "surrogatepass")).hexdigest()


def _drop_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:] or [ast.Pass()]


def _bound_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that the file defines or assigns, without imports and methods."""
    methods = {
        item.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return frozenset(bound - methods - KEPT)


class _Renamer(ast.NodeTransformer):
    """Replaces names by numbers, in order of appearance."""

    def __init__(self, bound: frozenset[str]) -> None:
        self._bound = bound
        self._numbers: dict[str, str] = {}

    def _new(self, name: str) -> str:
        if name not in self._bound:
            return name
        return self._numbers.setdefault(name, f"n{len(self._numbers)}")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._new(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._new(node.arg)
        self.generic_visit(node)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = self._new(node.arg) if node.arg else node.arg
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._new(node.name)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._new(node.name)
        self.generic_visit(node)
        return node
