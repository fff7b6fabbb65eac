"""Finds the branches that the kernels of a call take, as far as the arguments of their launches decide them.

A kernel may do something else at some sizes (`if EVEN:`, `if n > 4096:`), or carry something from one round of a loop
to the next. So may the candidate's Python, which then launches another kernel or calls other torch operators.
Conditions on loaded values are not known.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from triton_agent.tools.kernels.kernel import FunctionReference, JitFunction, KernelSet, value_from_json
from triton_agent.tools.kernels.values import bare, calculated
from triton_agent.tools.parsing import dotted, syntax_of
from triton_agent.tools.tape.tape import Constexpr, Launch, Operate, Tape

DEPTH = 4
"""Calls of functions by functions that are followed."""
UNKNOWN: Final = object()
COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, others: one in others,
    ast.NotIn: lambda one, others: one not in others,
}
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "cdiv": lambda one, other: -(-one // other),
    "constexpr": lambda value: value,
    "min": min,
    "max": max,
}
"""Functions of the language that are computed, by their last name."""


def branches_of(tape: Tape, kernels: KernelSet) -> frozenset[tuple[str, ...]]:
    """Return a call's torch operators and kernels, known outcomes of conditions, and known loops of several rounds."""
    found: set[tuple[str, ...]] = set()
    for step in (*tape.prologue, *tape.steps):
        if isinstance(step, Operate):
            found.add((step.operator,))
        for choice in step.choices if isinstance(step, Launch) else ():
            given = {
                name: value_from_json(value.value) if isinstance(value, Constexpr) else value
                for name, value in choice.arguments
            }
            found.update(_in_function(kernels.functions[choice.kernel], given, kernels, DEPTH))
    return frozenset(found)


def _in_function(
    function: JitFunction, given: Mapping[str, Any], kernels: KernelSet, depth: int
) -> Iterator[tuple[str, ...]]:
    yield function.name, function.source
    syntax = syntax_of(function.source)
    defaults = {it.name: it.default for it in function.parameters if it.has_default}
    known = {name: bare(value) for name, value in {**dict(function.globals), **defaults, **given}.items()}
    stored = Counter(node.id for node in syntax.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    for name in stored:
        known.pop(name, None)
    for node in _reached(syntax.tree, known):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if stored[name] == 1:
                known[name] = _value_of(value, known)
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                outcome = _value_of(test, known)
                if outcome is not UNKNOWN:
                    yield function.name, f"{ast.unparse(test)} at {test.lineno}:{test.col_offset}", str(bool(outcome))
            case ast.For(iter=ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range"), args=bounds)):
                numbers = [_value_of(bound, known) for bound in bounds]
                if all(isinstance(it, int) for it in numbers) and 0 not in numbers[2:] and len(range(*numbers)) > 1:
                    yield function.name, f"loop at {node.lineno}:{node.col_offset}", "several rounds"
            case ast.Call(func=func):
                called = _value_of(func, known)
                if depth and isinstance(called, FunctionReference) and called.identity in kernels.functions:
                    inner = kernels.functions[called.identity]
                    names = [parameter.name for parameter in inner.parameters]
                    passed = [*zip(names, node.args), *((it.arg, it.value) for it in node.keywords if it.arg)]
                    values = {name: _value_of(value, known) for name, value in passed}
                    yield from _in_function(inner, values, kernels, depth - 1)


def _reached(node: ast.AST, known: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the nodes below in their order, without branches that are known not to be taken."""
    yield node
    if isinstance(node, (ast.If, ast.IfExp)):
        yield from _reached(node.test, known)
        outcome = _value_of(node.test, known)
        for taken, body in ((True, node.body), (False, node.orelse)):
            if outcome is UNKNOWN or bool(outcome) == taken:
                for child in body if isinstance(body, list) else [body]:
                    yield from _reached(child, known)
        return
    for part in ast.iter_child_nodes(node):
        yield from _reached(part, known)


def _value_of(node: ast.AST, known: Mapping[str, Any]) -> Any:
    """Return what an expression is, or `UNKNOWN`."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return known.get(dotted(node), UNKNOWN)
        case ast.BoolOp(op=joined, values=values):
            outcomes = [_value_of(value, known) for value in values]
            decides = isinstance(joined, ast.Or)  # one such value decides
            if any(it is not UNKNOWN and bool(it) is decides for it in outcomes):
                return decides
            return UNKNOWN if any(it is UNKNOWN for it in outcomes) else not decides
        case ast.IfExp(test=test, body=body, orelse=orelse):
            outcome = _value_of(test, known)
            return UNKNOWN if outcome is UNKNOWN else _value_of(body if outcome else orelse, known)
    parts = [_value_of(part, known) for part in _operands(node)]
    if not parts or any(part is UNKNOWN for part in parts):
        return UNKNOWN
    with contextlib.suppress(TypeError, ValueError, ArithmeticError):
        match node:
            case ast.UnaryOp(op=ast.Not()):
                return not parts[0]
            case ast.UnaryOp(op=ast.USub()):
                return -parts[0]
            case ast.BinOp(op=op) if all(isinstance(part, (int, float)) for part in parts):
                result = calculated(op, *parts)
                return UNKNOWN if result is None else result
            case ast.Compare(ops=ops):
                return all(COMPARISONS[type(op)](*pair) for op, pair in zip(ops, pairwise(parts)))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in FUNCTIONS:
                return FUNCTIONS[name](*parts)
            case ast.Tuple() | ast.List():
                return tuple(parts)
    return UNKNOWN


def _operands(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Call(args=args, keywords=[]):
            return args
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
    return []
