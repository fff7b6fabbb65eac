"""Parts of a kernel file that never run where it is judged: its self-test, and imports that nothing uses.

Language models and people leave both behind, and both name modules that no kernel file needs. They are taken out before
a file is read by the screen and before it is compiled, so that it is held to what it does. Lines stay where they are.
"""

from __future__ import annotations

import ast


def without_idle_code(tree: ast.Module, needed: frozenset[str]) -> ast.Module:
    """The same tree, changed; imports of `needed` modules stay in any case, since classes may be looked up in them.

    Without recursion: a hostile file is nested deeper than that goes.
    """
    tree.body = [node for node in tree.body if not _is_self_test(node)]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                statements[:] = [_pruned(statement, used, needed) for statement in statements]
    return tree


def _is_self_test(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":` without an `else`; a candidate's module has another name."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.test, ast.Compare):
        return False
    left, (operator, *_), (right, *more) = node.test.left, node.test.ops, node.test.comparators
    named = isinstance(left, ast.Name) and left.id == "__name__" and isinstance(operator, ast.Eq)
    return named and not more and isinstance(right, ast.Constant) and right.value == "__main__"


def _pruned(node: ast.stmt, used: set[str], needed: frozenset[str]) -> ast.stmt:
    """An import of what is used; `pass` in its place where nothing is, for a body may not be empty."""
    if isinstance(node, ast.Import):
        names = [item for item in node.names if _root(item.name) in needed or _bound(item) in used]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _root(node.module) not in needed:
        names = [item for item in node.names if item.name == "*" or _bound(item) in used]
    else:
        return node
    node.names = names
    return node if names else ast.copy_location(ast.Pass(), node)


def _root(module: str) -> str:
    return module.split(".")[0]


def _bound(item: ast.alias) -> str:
    return item.asname or _root(item.name)
