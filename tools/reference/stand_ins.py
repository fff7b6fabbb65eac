"""Constructor arguments for a process without the user's classes: objects are replaced by stand-ins.

Settings are often an object of the file's own class: a dataclass, or a class used as a namespace. A candidate, which
never imports the file, gets a namespace with the same attributes and the values of properties. Not covered: methods,
and `isinstance` checks against the class.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from triton_agent.tools.errors import ProblemError

IsOwn = Callable[[Any], bool]
"""Returns True if a class or function is defined in the user's files."""
DEEPEST = 8
"""Maximum number of levels of settings within settings; deeper nesting is taken for a cycle."""


def stand_in(value: Any, is_own: IsOwn, depth: int = 0) -> Any:
    """Return the value with stand-ins for the user's objects; raise `ProblemError` for modules and functions."""
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
    """Return the public attributes, including class attributes and values of properties, without methods."""
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
    return ProblemError(f"the constructor is given {what}, which cannot be passed to another file", remedy=remedy)
