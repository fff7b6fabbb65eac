"""Measures novelty: how many earlier candidates have the same structure, names and numbers ignored.

Candidates of equal structure differ only in names, constants and comments: one idea with other tile sizes. Not covered:
different structures that compute alike.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable

from triton_agent.tools.candidate.screen import SOURCE_LIMIT_BYTES


def structure(source: str) -> str:
    """Return a short hash of the file's structure; empty if it is not Python."""
    if len(source) > SOURCE_LIMIT_BYTES:
        return ""
    try:
        tree = _Anonymous().visit(ast.parse(source))
        text = ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Anonymous(ast.NodeTransformer):
    """Removes names and constants; attributes (`tl.dot`, `x.sum`) stay, since they carry the idea."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(id="_", ctx=node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(arg="_")

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return ast.keyword(arg=node.arg and "_", value=self.visit(node.value))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(value=type(node.value).__name__)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):  # a docstring, or text in the place of a comment
            return None
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.FunctionDef)
        visited.name, visited.returns = "_", None
        return visited

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.ClassDef)
        visited.name = "_"
        return visited


def earlier_alike(sources: Iterable[str | None]) -> list[int | None]:
    """Count for each source, in order, the earlier ones of equal structure; None without one."""
    seen: Counter[str] = Counter()
    counts: list[int | None] = []
    for source in sources:
        mark = structure(source) if source else ""
        counts.append(seen[mark] if mark else None)
        seen[mark] += 1
    return counts
