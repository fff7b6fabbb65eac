"""Finds and changes the module-level names in a piece of Python text.

It follows Python's scopes, so a parameter or local variable of the same name is not changed. The text is edited in
place, with comments and layout kept; a statement whose positions cannot be trusted (f-strings before Python 3.12) is
written again. Not covered: names in strings, `exec`, and a class body that reads a global under a name it binds itself.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass(slots=True)
class _Scope:
    bound: set[str]
    declared_global: set[str]
    is_class: bool


class GlobalNames(ast.NodeVisitor):
    """Collects every mention of a module-level name below a node, with the node that mentions it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST]] = []
        self._scopes: list[_Scope] = []

    def visit_Name(self, node: ast.Name) -> None:
        if self._is_global(node.id):
            self.found.append((node.id, node))

    def visit_Global(self, node: ast.Global) -> None:
        self.found += [(name, node) for name in node.names]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._definition(node)
        for item in (*node.decorator_list, *_defaults(node.args), *_annotations(node)):
            self.visit(item)
        self._inside(_function_scope(node), node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for item in _defaults(node.args):
            self.visit(item)
        self._inside(_function_scope(node), [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node)
        for item in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(item)
        bound, declared = _bound_in(node.body)
        self._inside(_Scope(bound, declared, True), node.body)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, COMPREHENSIONS):
            targets = {
                name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)
            }
            self._scopes.append(_Scope(targets, set(), False))
            super().generic_visit(node)
            self._scopes.pop()
        else:
            super().generic_visit(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if self._is_global(node.name):
            self.found.append((node.name, node))

    def _inside(self, scope: _Scope, body: list[ast.stmt] | list[ast.expr]) -> None:
        self._scopes.append(scope)
        for item in body:
            self.visit(item)
        self._scopes.pop()

    def _is_global(self, name: str) -> bool:
        for depth, scope in enumerate(reversed(self._scopes)):
            if name in scope.declared_global:
                return True
            if name in scope.bound and (depth == 0 or not scope.is_class):
                return False
        return True


def _function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> _Scope:
    a = node.args
    names = {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg is not None}
    bound, declared = _bound_in([node.body] if isinstance(node, ast.Lambda) else node.body)
    return _Scope(names | bound - declared, declared, False)


def _bound_in(body: list[ast.stmt] | list[ast.expr]) -> tuple[set[str], set[str]]:
    """Return the names that a body binds, without those of nested functions and classes; and names declared global."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in _same_scope(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(node, ast.Global):
            declared.update(node.names)
    return bound - declared, declared


def _same_scope(body: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, COMPREHENSIONS)]


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(item for item in arguments.kw_defaults if item is not None)]


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    a = node.args
    every = (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
    found = [arg.annotation for arg in every if arg is not None and arg.annotation is not None]
    return [*found, node.returns] if node.returns is not None else found


def mentioned(node: ast.AST) -> set[str]:
    """Return the module-level names that a statement reads or binds."""
    names = GlobalNames()
    names.visit(node)
    return {name for name, _ in names.found}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the text of top-level statements with these module-level names changed."""
    if not names:
        return text
    tree = ast.parse(text)
    found = GlobalNames()
    found.visit(tree)
    wanted = [(name, node) for name, node in found.found if name in names]
    edits = [_position(text, name, node) for name, node in wanted]
    if any(edit is None for edit in edits):
        return _rewritten(tree, wanted, names)
    lines = [line.encode() for line in text.split("\n")]
    for (name, _), place in sorted(zip(wanted, edits), key=lambda item: item[1] or (0, 0), reverse=True):
        assert place is not None
        row, column = place
        line = lines[row]
        lines[row] = line[:column] + names[name].encode() + line[column + len(name.encode()) :]
    return b"\n".join(lines).decode()


def _position(text: str, name: str, node: ast.AST) -> tuple[int, int] | None:
    """Return row and byte column of the name; None if the parser's position is wrong."""
    row = getattr(node, "lineno", 1) - 1
    line = text.split("\n")[row].encode()
    column = getattr(node, "col_offset", 0)
    if isinstance(node, ast.Name):
        return (row, column) if line[column:].startswith(name.encode()) else None
    match = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b").search(line, column)
    return (row, match.start()) if match else None


def _rewritten(tree: ast.Module, wanted: list[tuple[str, ast.AST]], names: Mapping[str, str]) -> str:
    for name, node in wanted:
        if isinstance(node, ast.Name):
            node.id = names[name]
        elif isinstance(node, ast.Global):
            node.names = [names.get(item, item) for item in node.names]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.name = names[name]
    return ast.unparse(tree)
