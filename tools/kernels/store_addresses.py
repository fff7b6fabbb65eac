"""Reduces a kernel to what decides where it stores, so that all its programs can run in the interpreter.

The reduced kernel stores zeros to the same elements. Loads, products and loops that only compute values are left out:
a program of a large product then takes a fraction of a millisecond instead of a second. Kept are all assignments to
names that an address, a mask or a condition around a store depends on, wherever they stand.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from triton_agent.tools.kernels.kernel import FunctionReference, JitFunction, KernelSet
from triton_agent.tools.parsing import parse

STORING = ("store", "atomic_")
"""Calls that write memory have such a word in their name."""
WHERE = {"pointer": 0, "mask": 2, "boundary_check": 3}
"""Arguments of `tl.store` that tell where it stores, with their positions."""


def storing_zeros(function: JitFunction, kernels: KernelSet) -> JitFunction | None:
    """Return the kernel with zeros in place of the values it stores.

    None if it stores otherwise than by `tl.store`, or if what it loads decides where.
    """
    tree = parse(function.source)
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _writes(node)]
    references = {identity for _, value in function.globals for identity in _referenced(value, kernels)}
    if any(word in kernels.functions[identity].source for identity in references for word in STORING):
        return None
    if not stores or not all(_is_plain_store(node) for node in stores):
        return None
    definition = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    needed = {name for store in stores for part in _where(store) for name in _names(part)}
    while (more := _needed(definition.body, needed)) != needed:
        needed = more
    reduced = type(definition)(**{**dict(ast.iter_fields(definition)), "body": _reduced(definition.body, needed)})
    source = ast.unparse(ast.fix_missing_locations(reduced)) + "\n"
    return None if ".load(" in source else dataclasses.replace(function, source=source)


def _referenced(value: object, kernels: KernelSet) -> Iterator[str]:
    if isinstance(value, FunctionReference) and value.identity in kernels.functions:
        yield value.identity
        for _, inner in kernels.functions[value.identity].globals:
            yield from _referenced(inner, kernels)


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return any(word in name for word in STORING)


def _is_plain_store(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "store"
        and len(call.args) > 1
        and ast.unparse(call.func.value) in ("tl", "triton.language")
    )


def _where(store: ast.Call) -> list[ast.expr]:
    """Return the arguments of a store that tell where it stores."""
    by_name = [it.value for it in store.keywords if it.arg in WHERE]
    return [store.args[at] for at in WHERE.values() if at < len(store.args)] + by_name


def _names(node: ast.AST) -> set[str]:
    return {it.id for it in ast.walk(node) if isinstance(it, ast.Name)}


def _is_kept(statement: ast.stmt, needed: set[str]) -> bool:
    """Return True if a statement has an effect on where the kernel stores."""
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _writes(call)
        case ast.Assign(targets=targets):
            return any(_names(target) & needed for target in targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return bool(_names(target) & needed)
        case ast.Return() | ast.Break() | ast.Continue():
            return True
        case ast.For(target=target) if _names(target) & needed:
            return True
        case ast.For() | ast.While() | ast.If() | ast.With():
            return any(_is_kept(inner, needed) for inner in _inside(statement))
    return False


def _inside(statement: ast.stmt) -> list[ast.stmt]:
    return [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]


def _needed(statements: list[ast.stmt], needed: set[str]) -> set[str]:
    """Return these names and those that the kept statements read, other than stored values."""
    found = set(needed)
    for statement in (it for it in statements if _is_kept(it, needed)):
        match statement:
            case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                found |= _names(value)
            case ast.For(iter=decides) | ast.If(test=decides) | ast.While(test=decides):
                found |= _names(decides) | _needed(_inside(statement), needed)
            case ast.With():
                found |= _needed(_inside(statement), needed)
    return found


def _reduced(statements: list[ast.stmt], needed: set[str]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for statement in (it for it in statements if _is_kept(it, needed)):
        match statement:
            case ast.Expr(value=ast.Call() as call):
                where = [it for it in call.keywords if it.arg in WHERE]
                args = [call.args[0], ast.Constant(value=0), *call.args[2:4]]
                kept.append(ast.Expr(value=ast.Call(func=call.func, args=args, keywords=where)))
            case ast.For() | ast.While() | ast.If():
                parts = {"body": _reduced(statement.body, needed)}
                if statement.orelse:
                    parts["orelse"] = _reduced(statement.orelse, needed)
                kept.append(type(statement)(**{**dict(ast.iter_fields(statement)), **parts}))
            case ast.With():
                kept.append(ast.With(items=statement.items, body=_reduced(statement.body, needed)))
            case _:
                kept.append(statement)
    return kept or [ast.Pass()]
