"""Copies modules together with the functions that they hold.

In `self.f = lambda x: mlp(x)` the closure of the function holds the module `mlp`. `copy.deepcopy` shares functions, so
the copy's `f` would still call the original `mlp`, with the original's parameters. Not covered: default arguments of
functions, and other kinds of objects that hold a function.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from typing import Any, TypeVar

from torch import nn

_Module = TypeVar("_Module", bound=nn.Module)


def copied_module(model: _Module) -> _Module:
    """Return a deep copy whose functions refer to the copy's submodules and tensors."""
    held = [value for module in model.modules() for value in vars(module).values()]
    functions = {id(function): function for value in held for function in _functions(value)}
    memo: dict[int, Any] = {}
    for key, function in functions.items():
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        again = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
        )
        again.__kwdefaults__ = function.__kwdefaults__
        again.__dict__.update(function.__dict__)
        memo[key] = again
    made = copy.deepcopy(model, memo)
    for key, function in functions.items():
        for cell, own in zip(function.__closure__ or (), memo[key].__closure__):
            for contents in _contents(cell):
                is_container = isinstance(contents, (dict, list, tuple))
                own.cell_contents = copy.deepcopy(contents, memo) if is_container else memo.get(id(contents), contents)
    return made


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yield the functions with a closure in a value, in its containers, and in the closures of those functions."""
    waiting: list[Any] = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType) and one.__closure__:
            yield one
            waiting += [contents for cell in one.__closure__ for contents in _contents(cell)]
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one


def _contents(cell: types.CellType) -> list[Any]:
    """Return what a cell holds, or nothing if its variable is not assigned yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []
