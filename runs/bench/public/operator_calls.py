"""Reads a function and the test that calls it, the form of TritonBench's operators, without running them.

Finds the two halves of a file, the definitions in the first half, the calls in the second, and the statement that gives
a name its value. Not covered: calls inside loops, branches and `with`, and values that depend on these.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.source import SourceFile

SEPARATOR = re.compile(r"^#{80,}[ \t]*$", re.MULTILINE)
"""The published files have lines of 146 characters; no other line of `#` is that long."""
DTYPES = re.compile(r"torch\.(bfloat16|bool|uint8|(float|int|complex)\d+|half|float|double|long|int)")
TAKEN_NAMES = ("Model", "get_inputs", "get_init_inputs")
"""Names that a problem file defines itself."""

Callables: TypeAlias = dict[str, ast.FunctionDef | ast.AsyncFunctionDef | None]
"""Names that can be called, with the definition of those that are functions."""
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert)
"""Statements that are searched for calls."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A call of the operator, and the statements that run before it."""

    call: ast.Call
    before: tuple[ast.stmt, ...]
    result_unused: bool


def unfit(source: SourceFile, what: str) -> ProblemError:
    remedy = "write a problem file for it by hand: Model, get_inputs(), get_init_inputs()"
    return ProblemError(f"no problem can be made of it: {what}", where=str(source.path), remedy=remedy)


def halves(source: SourceFile) -> tuple[str, ast.Module]:
    """Return the text of the operator, and the test, which follows the last line of #."""
    lines = list(SEPARATOR.finditer(source.text))
    if not lines:
        raise unfit(source, "no line of # parts an operator from its test")
    text = source.text[: lines[-1].start()].strip("\n") + "\n"
    try:
        ast.parse(text)
        return text, ast.parse(source.text[lines[-1].end() :])
    except SyntaxError as error:
        raise unfit(source, f"one of its halves does not stand by itself: {error.msg}") from None


def callables(source: SourceFile, operator: ast.Module) -> Callables:
    """Return the names in the first half that Python code can call, with their definitions."""
    names: Callables = {}
    for statement in operator.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not any("jit" in ast.unparse(decorator) for decorator in statement.decorator_list):
                names[statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            names[statement.name] = None
        elif isinstance(statement, ast.Assign):
            names |= {target.id: None for target in statement.targets if isinstance(target, ast.Name)}
    taken = [name for name in TAKEN_NAMES if name in names]
    if taken:
        raise unfit(source, f"it defines {taken[0]} itself")
    return names


def sites(test: ast.Module, names: Callables) -> Iterator[Site]:
    """Yield calls in the straight-line code of the test functions, in order."""
    for function in tests_in(test):
        before: list[ast.stmt] = [*_outside(test), *_defaults(function)]
        for statement in function.body:
            if isinstance(statement, SIMPLE):
                for call in _outermost_calls(statement, names):
                    unused = isinstance(statement, ast.Expr) and statement.value is call
                    yield Site(call=call, before=tuple(before), result_unused=unused)
            before.append(statement)


def tests_in(test: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in test.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]


def _outside(test: ast.Module) -> list[ast.stmt]:
    """Return assignments at the top level of the test, except those that run the tests."""
    tests = {function.name for function in tests_in(test)}
    assigned = [node for node in test.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    return [node for node in assigned if not tests & names_read(node)]


def _defaults(function: ast.FunctionDef) -> list[ast.stmt]:
    """Return the parameters of a test as assignments of their defaults."""
    taking = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    return [
        ast.Assign(targets=[ast.Name(id=argument.arg, ctx=ast.Store())], value=default)
        for argument, default in zip(taking, function.args.defaults)
    ]


def _outermost_calls(node: ast.AST, names: Callables) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call) and called(node) in names:
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost_calls(child, names)


def called(call: ast.Call) -> str:
    """Return `f` for `f(x)` and `f.apply(x)`; an empty text for anything else."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "apply":
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def names_read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_bound(node: ast.AST) -> set[str]:
    defined = {n.name for n in ast.walk(node) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    return defined | {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def names_rebound(statement: ast.stmt) -> set[str]:
    """Return the names to which the statement gives new values: `x = ...`, `x, y = ...`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [name for target in targets for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {name.id for name in names if isinstance(name, ast.Name)}


def names_touched(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, or whose objects it may change: `x[0] = 1`, `x.fill_(1)`, `write(x)`."""
    touched = names_bound(statement)
    for node in ast.walk(statement):
        is_part = isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if is_part or is_call:
            touched |= names_read(node)
    return touched


def names_imported(*trees: ast.Module) -> set[str]:
    """Return the names bound by imports, which no statement changes."""
    aliases = [a for tree in trees for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names]
    return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}


def literal(value: ast.expr, before: Sequence[ast.stmt]) -> ast.expr | None:
    """Return the value as a literal, also if it is a name that was last assigned one; None for any other value."""
    if isinstance(value, ast.Name):
        last = next((i for i, statement in reversed([*enumerate(before)]) if value.id in names_bound(statement)), None)
        assigned = _assigned(before[last], value.id) if last is not None else None
        if assigned is None or last is None:
            return None
        changeable = isinstance(assigned, (ast.List, ast.Dict, ast.Set))
        if changeable and any(value.id in names_touched(statement) for statement in before[last + 1 :]):
            return None
        return literal(assigned, ())
    if DTYPES.fullmatch(ast.unparse(value)):
        return value
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value


def _assigned(statement: ast.stmt, name: str) -> ast.expr | None:
    """Return the value that `name = ...` or `name, other = ..., ...` assigns; None for other statements."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = [(t, v) for t, v in zip(target.elts, value.elts) if isinstance(t, ast.Name) and t.id == name]
        return pairs[0][1] if pairs else None
    return value if isinstance(target, ast.Name) else None
