"""A shipped file's text without the compilers that the original was written for, which no judged file may reach.

What they return computes the same, and where kernels run it is not asked. Only the text that is judged is written so:
in the file that is handed over the original stays as its owner wrote it.
"""

from __future__ import annotations

import ast

COMPILERS = frozenset({"torch.compile", "torch.jit.script", "torch.jit.script_if_tracing", "torch.jit.ignore"})


def uncompiled(text: str) -> str:
    """The same text where there is nothing of the kind."""
    if not any(name in text for name in COMPILERS):
        return text
    return ast.unparse(_Uncompiled().visit(ast.parse(text))) + "\n"


class _Uncompiled(ast.NodeTransformer):
    """Decorators go, calls become their first argument."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = [item for item in node.decorator_list if not _is_compiler(item)]
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list = [item for item in node.decorator_list if not _is_compiler(item)]
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return node.args[0] if _is_compiler(node) and node.args else node


def _is_compiler(node: ast.expr) -> bool:
    """`torch.compile`, `torch.compile(...)`, `functools.partial(torch.compile, ...)`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "partial":
        return bool(node.args) and _is_compiler(node.args[0])
    return ast.unparse(node.func if isinstance(node, ast.Call) else node) in COMPILERS
