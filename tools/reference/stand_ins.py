"""A constructor's arguments for a process that does not have the user's classes: objects by what they hold.

Settings are often an object of the file's own: a dataclass, or a class used as a list of names. A candidate, which
never sees the file, gets one with the same attributes and the values of properties. Not covered: their methods, and
whether something is an instance of their class.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from triton_agent.tools.errors import ProblemError

IsOwn = Callable[[Any], bool]
"""True if a class or a function is the user's."""
DEEPEST = 8
"""Settings within settings; what goes deeper is a circle."""


def stand_in(value: Any, is_own: IsOwn, depth: int = 0) -> Any:
    """The value as it can be handed on; raises `ProblemError` where a part of it cannot be."""
    if isinstance(value, (list, tuple)) and not is_own(type(value)):
        return type(value)(stand_in(item, is_own, depth) for item in value)
    if isinstance(value, tuple):
        return types.SimpleNamespace(**_held(value, is_own, depth))
    if isinstance(value, Mapping) and not is_own(type(value)):
        return {key: stand_in(item, is_own, depth) for key, item in value.items()}
    if isinstance(value, torch.nn.Module) and is_own(type(value)):
        raise _unfit(f"a {type(value).__name__}", "let it make its own modules, and give it the numbers they take")
    if isinstance(value, (types.FunctionType, types.MethodType)) and is_own(value):
        raise _unfit(f"the function {value.__name__}", "give it the name of what to do, and let it look that up")
    if isinstance(value, enum.Enum) and is_own(type(value)):
        return types.SimpleNamespace(name=value.name, value=value.value)
    if is_own(value if isinstance(value, type) else type(value)):
        return types.SimpleNamespace(**_held(value, is_own, depth))
    return value


def _held(value: Any, is_own: IsOwn, depth: int) -> dict[str, Any]:
    """Public attributes, those of the class and what its properties say included; no methods."""
    if depth == DEEPEST:
        raise _unfit(f"a {type(value).__name__} that holds itself", "give it plain numbers and names")
    found = {}
    for name in dir(value):
        item = None if name.startswith("_") else getattr(value, name, None)
        method = isinstance(item, (types.FunctionType, types.MethodType, types.BuiltinFunctionType))
        if not name.startswith("_") and not (method and name not in getattr(value, "__dict__", {})):
            found[name] = stand_in(item, is_own, depth + 1)
    return found


def _unfit(what: str, remedy: str) -> ProblemError:
    return ProblemError(f"the constructor is given {what}, which no other file can be handed", remedy=remedy)
