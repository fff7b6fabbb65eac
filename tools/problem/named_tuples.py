"""Stand-ins for named tuples of the user's file, for processes that do not import that file.

A module may take or return a `NamedTuple` of its own. The reference and the candidates get a stand-in with the same
name, fields and values, which is pickled as that description. Not covered: methods and properties of the user's class.
"""

from __future__ import annotations

import collections
import functools
from typing import Any


def is_named(value: Any) -> bool:
    """Return True if the value is an instance of a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


@functools.cache
def class_of(name: str, fields: tuple[str, ...]) -> Any:
    """Return the stand-in for a user's class with this name and these fields."""
    plain: Any = collections.namedtuple(name, fields)  # type: ignore[misc]
    return type(name, (plain,), {"__slots__": (), "__reduce__": lambda self: (rebuilt, (name, fields, tuple(self)))})


def rebuilt(name: str, fields: tuple[str, ...], items: tuple[Any, ...]) -> Any:
    """Return a named tuple from its description."""
    return class_of(name, fields)(*items)


def without_classes(value: Any) -> Any:
    """Return the value with every named tuple in it replaced by its stand-in, which any process can unpickle."""
    if is_named(value):
        return rebuilt(type(value).__name__, value._fields, tuple(map(without_classes, value)))
    if type(value) in (list, tuple):
        return type(value)(map(without_classes, value))
    if type(value) is dict:
        return {key: without_classes(item) for key, item in value.items()}
    return value
