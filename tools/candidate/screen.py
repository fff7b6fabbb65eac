# ruff: noqa: SIM905 (word lists are easier to read and to compare than quoted items)
"""The screen: refuse a candidate by reading its text, before a process is started for it.

The screen saves time and gives the clearest message. No verdict depends on it: with the screen off, the tracer and the
checks of the answer refuse the same candidates. It only looks for names that honest kernel files do not need.
"""

from __future__ import annotations

import ast
import dataclasses

from triton_agent.tools.parsing import name_parts, parse
from triton_agent.tools.results import Finding

ALLOWED_MODULES = frozenset(
    "torch triton math typing typing_extensions functools dataclasses enum itertools collections operator __future__ "
    "abc numbers contextlib warnings copy string types logging".split()
)
"""Modules that a kernel file may import."""

FORBIDDEN_PREFIXES = (
    *("torch._C", "torch._dynamo", "torch._inductor", "torch._subclasses", "torch._ops", "torch._utils"),
    *("torch.utils.cpp_extension", "torch.utils._python_dispatch", "torch.multiprocessing", "torch.distributed"),
    *("torch.hub", "torch.package", "torch.serialization", "torch.load", "torch.save", "torch.os", "torch.sys"),
    *("torch.ctypes", "torch.importlib", "torch.builtins", "torch.inspect", "torch.threading", "torch.jit"),
    *("torch.from_file", "torch.classes", "torch.ops.load_library", "torch.utils.data"),
    *("triton.runtime.interpreter", "triton.backends", "triton._C", "triton.compiler"),
)
"""Parts of torch and triton that reach files, other processes, or the code that records the candidate."""

ALLOWED_ALL_THE_SAME = frozenset(
    f"torch.jit.{name}"
    for name in "ignore unused export is_scripting is_tracing script script_if_tracing trace freeze".split()
)
"""Decorators for torch's compilers, functions that return whether one is active, and compilers that the tracer replaces
by functions that return the model as is."""

FORBIDDEN_CALLS = frozenset("eval exec compile open __import__ input breakpoint globals locals memoryview".split())

FORBIDDEN_ATTRIBUTES = frozenset(
    "__globals__ __code__ __closure__ __builtins__ __subclasses__ __bases__ __mro__ __loader__ __spec__ f_back "
    "f_globals f_locals tb_frame gi_frame cr_frame __reduce__ __reduce_ex__ __torch_function__ __torch_dispatch__ "
    "__array_interface__ __cuda_array_interface__ __dlpack__".split()
)
"""Attributes that give access to objects outside the file's own names."""

SOURCE_LIMIT_BYTES = 512 * 1024
"""About a hundred times the size of a hand-written kernel file. Longer texts are not parsed."""

CLASSES_NAMED = 5
"""Names listed when ModelNew is missing; the class that was meant is seldom further down."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a text is refused."""

    finding: Finding
    line: int
    message: str


def screen(source: str, *, strict: bool = True) -> Objection | None:
    """Return the first objection. Without `strict`, refuse only texts that cannot run: invalid Python, no ModelNew."""
    if len(source.encode("utf-8", "surrogatepass")) > SOURCE_LIMIT_BYTES:
        return _objection(Finding.NO_MODEL, 0, f"the file is larger than {SOURCE_LIMIT_BYTES // 1024} KB")
    if not source.strip():
        return _objection(Finding.NO_MODEL, 0, "the file is empty")
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        text = (getattr(error, "text", "") or "").strip()
        return _objection(
            Finding.SYNTAX, line, f"{getattr(error, 'msg', error)}" + (f": `{text[:120]}`" if text else "")
        )
    if not any(
        (isinstance(node, ast.ClassDef) and node.name == "ModelNew")
        or (isinstance(node, ast.Name) and node.id == "ModelNew" and isinstance(node.ctx, ast.Store))
        for node in ast.walk(tree)
    ):
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        found = f"; it has {', '.join(classes[:CLASSES_NAMED])}" if classes else ""
        return _objection(Finding.NO_MODEL, 0, f"the file defines no class ModelNew at its top level{found}")
    if not strict:
        return None
    tree = without_idle_code(tree, ALLOWED_MODULES)
    aliases = _aliases(tree)
    own = set(aliases)  # plus the names that the file binds: a parameter called `input` is not the builtin
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
    for node in ast.walk(tree):
        message = _complaint(node, aliases, own)
        if message:
            return _objection(Finding.FORBIDDEN_ACCESS, getattr(node, "lineno", 0), message)
    return None


def _objection(finding: Finding, line: int, message: str) -> Objection:
    return Objection(finding=finding, line=line, message=f"line {line}: {message}" if line else message)


def _aliases(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                names[item.asname or item.name.split(".")[0]] = item.name if item.asname else item.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    return names


def _complaint(node: ast.AST, aliases: dict[str, str], own: set[str]) -> str:
    if isinstance(node, ast.Import):
        return next((_module_complaint(item.name) for item in node.names if _module_complaint(item.name)), "")
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return "a kernel file is one file, so it cannot import relatively"
        paths = [f"{node.module}.{item.name}" for item in node.names]
        return next((_module_complaint(path) for path in paths if _module_complaint(path)), "")
    if isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS and isinstance(node.ctx, ast.Load):
        return f"`{node.id}` cannot be used in a kernel file" if node.id not in own else ""
    if isinstance(node, ast.Attribute):
        if node.attr in FORBIDDEN_ATTRIBUTES:
            return f"`.{node.attr}` cannot be used in a kernel file"
        parts = name_parts(node)
        root = aliases.get(parts[0], "") if parts else ""
        return _module_complaint(".".join([root, *parts[1:]]) if root.split(".")[0] in ("torch", "triton") else "")
    return ""


def _module_complaint(path: str) -> str:
    if not path:
        return ""
    if path.split(".")[0] not in ALLOWED_MODULES:
        return f"a kernel file may import torch, triton and math, not `{path.split('.')[0]}`"
    if path in ALLOWED_ALL_THE_SAME or path == "torch.jit":
        return ""
    if any(path == prefix or path.startswith(prefix + ".") for prefix in FORBIDDEN_PREFIXES):
        return f"`{path}` cannot be used in a kernel file"
    return ""


def without_idle_code(tree: ast.Module, needed: frozenset[str]) -> ast.Module:
    """Remove the self-test and unused imports from the tree; return it with its line numbers.

    Language models and people leave both in their files, and both import modules that a kernel file does not need.
    Imports of `needed` modules stay, since classes may be looked up in them. The walk is not recursive, because a
    hostile file may be nested more deeply than Python's stack allows.
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
    """Return True for `if __name__ == "__main__":` without `else`; a candidate's module has another name."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.test, ast.Compare):
        return False
    left, (operator, *_), (right, *more) = node.test.left, node.test.ops, node.test.comparators
    named = isinstance(left, ast.Name) and left.id == "__name__" and isinstance(operator, ast.Eq)
    return named and not more and isinstance(right, ast.Constant) and right.value == "__main__"


def _pruned(node: ast.stmt, used: set[str], needed: frozenset[str]) -> ast.stmt:
    """Return the import without unused names, or `pass` if no name is left, since a body may not be empty."""
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
