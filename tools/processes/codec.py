"""Converts messages to JSON and back: frozen dataclasses, decoded by the types of their fields.

A message may come from a process that runs hostile code. Decoding therefore builds only the expected types: an unknown
or missing field, or one of another type, raises `ChannelGarbled`, and the receiver decides what that means. A field
typed `Any` is open data and passes through as it is; its user checks it.

Not covered: the length of a message (`wire.py` bounds it), and fields that may hold one of several classes.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.wire import ChannelGarbled, error_from_json, error_to_json

KIND = "is"
"""Key of the name of a message's class."""


class _Form(NamedTuple):
    """How values of one type are encoded and decoded; decoding raises an error for any other value."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def to_plain(message: object) -> dict[str, Any]:
    """Return a message as JSON data with the name of its class."""
    return {KIND: type(message).__name__, **encode(message)}


def from_plain(kind: Any, plain: Mapping[str, Any]) -> Any:
    """Return the message, of this class or of one in this union; raise ChannelGarbled for any other."""
    kinds = {one.__name__: one for one in typing.get_args(kind) or (kind,)}
    name = plain.get(KIND)
    if not isinstance(name, str) or name not in kinds:
        raise ChannelGarbled(f"{str(name)[:80]!r} where {' or '.join(kinds)} is expected")
    return decode(kinds[name], {key: value for key, value in plain.items() if key != KIND})


def encode(value: object) -> Any:
    """Return a dataclass as JSON data."""
    kind: Any = type(value)
    return _form(kind).write(value)


def decode(kind: Any, plain: Any) -> Any:
    """Return the value of this type; raise ChannelGarbled if `encode` cannot have produced the data."""
    try:
        return _form(kind).read(plain)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ChannelGarbled(f"no {kind.__name__}: {str(error)[:300]}") from error


@functools.cache
def _form(kind: Any) -> _Form:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _FORMS:
        return _FORMS[kind]
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin in (dict, Mapping):
        return _mapping(*arguments)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _Form(lambda value: value.value, lambda plain: kind(_exactly(type(next(iter(kind)).value), plain)))
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    raise TypeError(f"{kind} cannot be part of a message")


def _record(kind: Any) -> _Form:
    hints = typing.get_type_hints(kind)
    forms = [(field.name, *_form(hints[field.name])) for field in dataclasses.fields(kind)]
    names = {name for name, _, _ in forms}

    def write(value: Any) -> dict[str, Any]:
        return {name: write_field(getattr(value, name)) for name, write_field, _ in forms}

    def read(plain: Any) -> Any:
        if _exactly(dict, plain).keys() != names:
            raise ValueError(f"{kind.__name__} without or with other fields: {sorted(plain.keys() ^ names)}")
        return kind(**{name: read_field(plain[name]) for name, _, read_field in forms})

    return _Form(write, read)


def _tuple(arguments: tuple[Any, ...]) -> _Form:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        write_item, read_item = _form(arguments[0])
        if arguments[0] in (int, str, float):
            return _plain_tuple(arguments[0], write_item, read_item)
        return _Form(
            lambda value: [write_item(item) for item in value],
            lambda plain: tuple(read_item(item) for item in _exactly(list, plain)),
        )
    forms = tuple(map(_form, arguments))
    return _Form(
        lambda value: [form.write(item) for form, item in zip(forms, value, strict=True)],
        lambda plain: tuple(form.read(item) for form, item in zip(forms, _exactly(list, plain), strict=True)),
    )


def _plain_tuple(kind: type, write_item: Callable[[Any], Any], read_item: Callable[[Any], Any]) -> _Form:
    """Return the form of a tuple of many numbers or strings, whose types are checked in one pass."""

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [write_item(item) for item in value] if kind is float else list(value)

    def read(plain: Any) -> tuple[Any, ...]:
        if set(map(type, _exactly(list, plain))) <= {kind}:
            return tuple(plain)
        return tuple(map(read_item, plain))

    return _Form(write, read)


def _mapping(key: type, item: Any) -> _Form:
    """Return the form of a dictionary whose keys are strings, or integers, which JSON stores as strings."""
    write_item, read_item = _form(item)
    return _Form(
        lambda value: {str(name): write_item(part) for name, part in value.items()},
        lambda plain: {key(name): read_item(part) for name, part in _exactly(dict, plain).items()},
    )


def _union(arguments: tuple[Any, ...]) -> _Form:
    """Return the form of an optional value, or of a number that is an int or a float."""
    others = tuple(kind for kind in arguments if kind is not types.NoneType)
    if set(others) == {int, float}:
        return _Form(_write_float, lambda plain: plain if type(plain) is int else _read_float(plain))
    if len(others) != 1:
        raise TypeError(f"which of {others} a message holds could not be told")
    write, read = _form(others[0])
    return _Form(
        lambda value: None if value is None else write(value),
        lambda plain: None if plain is None else read(plain),
    )


def _exactly(kind: type, plain: Any) -> Any:
    if type(plain) is not kind:
        raise TypeError(f"{str(plain)[:80]!r} where a {kind.__name__} is expected")
    return plain


def _as_it_is(value: Any) -> Any:
    return value


def _write_float(value: float) -> float | str:
    """Return a number, or a string for infinities and NaN, which JSON lacks."""
    return value if math.isfinite(value) else str(float(value))


def _read_float(plain: Any) -> float:
    if type(plain) is str and plain not in ("inf", "-inf", "nan"):
        raise ValueError(f"{plain[:80]!r} where a number is expected")
    return float(plain if type(plain) in (int, str) else _exactly(float, plain))


_FORMS: dict[Any, _Form] = {
    Any: _Form(_as_it_is, _as_it_is),
    float: _Form(_write_float, _read_float),
    ProblemSpec: _Form(lambda spec: spec.to_json(with_text=True), ProblemSpec.from_json),
    TritonAgentError: _Form(error_to_json, error_from_json),
    **{kind: _Form(_as_it_is, functools.partial(_exactly, kind)) for kind in (bool, int, str)},
}
