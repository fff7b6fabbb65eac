"""Records as JSON text and back, without loss: the store's internal format.

Unlike JSON for others (`tools/results.to_json`), it may hold values that only Python reads: NaN and infinities, and
lone surrogates, which models produce and stricter readers refuse. Dictionaries keep their order. Values of untyped
fields have to be plain data: a tuple there comes back as a list.

Reading follows the annotations of the dataclasses. A missing field gets its default, as in records that are older than
the field; an unknown field is ignored.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar, cast

Value = TypeVar("Value")
Reader = Callable[[Any], Any]


def to_text(value: object) -> str:
    """Encode as ASCII JSON; equal values give equal text."""
    return _ENCODER.encode(value)


def from_text(kind: type[Value], text: str | bytes) -> Value:
    """Decode what `to_text` wrote."""
    return from_plain(kind, json.loads(text))


def from_plain(kind: type[Value], data: Any) -> Value:
    """Build a value of type `kind` from parsed JSON; parts that are records already are kept."""
    return cast(Value, _reader(cast(Any, kind))(data))


def _plain(value: object) -> object:
    """Encode what `json` does not know (enums of text are text to it)."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in field_names(type(value))}
    raise TypeError(f"{type(value).__name__} is not plain data: {value!r:.100}")


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=True, allow_nan=True)


@functools.cache
def field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads values of that annotation."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _optional(_reader(next(item for item in arguments if item is not types.NoneType)))
    if origin is tuple:
        return _tuple_of(_reader(arguments[0]))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if kind is datetime.datetime:
        return datetime.datetime.fromisoformat
    return _as_it_is


def _as_it_is(data: Any) -> Any:
    return data


def _optional(read: Reader) -> Reader:
    return lambda data: None if data is None else read(data)


def _tuple_of(read: Reader) -> Reader:
    return tuple if read is _as_it_is else lambda data: tuple(map(read, data))


def _dataclass(kind: type) -> Reader:
    hints = typing.get_type_hints(kind)
    names = frozenset(field_names(kind))
    readers = [(name, own) for name in field_names(kind) if (own := _reader(hints[name])) is not _as_it_is]

    def read(data: Any) -> Any:
        if isinstance(data, kind):
            return data
        given = dict(data) if names.issuperset(data) else {name: data[name] for name in data if name in names}
        for name, own in readers:
            if name in given:
                given[name] = own(given[name])
        return kind(**given)

    return read
