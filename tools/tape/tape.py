"""The tape: everything one call of a candidate does, as plain data.

A tape is a list of steps over numbered buffers. It holds no Python of the candidate, no real address and no value of an
input, so it is a pure function of its inputs and its state. It belongs to one form of call: other shapes, strides,
dtypes or plain arguments need another tape. `encode` and `decode` convert tapes to JSON and back. `decode` checks all
types, since a tape comes from the process in which the candidate ran. `admission.py` decides whether a tape may be run.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import math
import typing
from collections.abc import Callable, Iterator
from typing import Any

from triton_agent.tools.kernels.kernel import value_from_json
from triton_agent.tools.processes.tensors import DTYPES, Malformed

BUFFER_BYTES_AT_MOST = 1 << 40
"""Largest accepted buffer, larger than the memory of any GPU."""


class Place(enum.StrEnum):
    """The origin of a buffer."""

    INPUT = "input"
    """Memory of a tensor among the arguments of the call."""
    ARGUMENT = "argument"
    """Memory of a tensor among the arguments of the constructor."""
    STATE = "state"
    """Memory of parameters and buffers that the reference has under the same names."""
    FRESH = "fresh"
    """Memory made by a step."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A piece of memory."""

    place: Place
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor: part of a buffer, interpreted with a shape and a dtype."""

    buffer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    """Offset of the first element, in elements."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def begin_bytes(self) -> int:
        return self.offset * DTYPES[self.dtype].itemsize

    @property
    def end_bytes(self) -> int:
        """Offset of the end of its last byte; an empty view ends where it begins."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides)) if self.elements else -1
        return (self.offset + last + 1) * DTYPES[self.dtype].itemsize


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a byte in a buffer, as returned by `data_ptr`."""

    buffer: int
    offset: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A host-side tensor descriptor among the arguments of a launch."""

    view: View
    block_shape: tuple[int, ...]
    padding: str
    round_f32_to_tf32: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A constant of torch, such as a dtype or a memory format, by its name."""

    kind: str
    """`dtype`, `layout`, `memory_format`, or `device` for the only device."""
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constexpr:
    """A compile-time value of a launch, encoded by `value_to_json` of `kernels/kernel.py`."""

    value: Any


Argument = None | bool | int | float | str | View | Address | Descriptor | Named | Constexpr | tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Unwritten memory."""

    buffer: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Memory filled with values that the candidate's Python computed."""

    buffer: int
    data: bytes
    relocations: tuple[tuple[int, Address], ...] = ()
    """Positions, in bytes, where an address of eight bytes has to be filled in."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operate:
    """One call of a torch operator."""

    operator: str
    """Name with overload: `aten.add.Tensor`."""
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    results: tuple[View | None, ...]
    """Its results; None for results that are not tensors."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A launch in one configuration."""

    kernel: str
    """Identity of the kernel among the tape's functions."""
    grid: tuple[int, int, int]
    arguments: tuple[tuple[str, Argument], ...]
    """Arguments by parameter, in the order of the signature."""
    options: tuple[tuple[str, Argument], ...]
    """Compiler options, such as `num_warps`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch of a Triton kernel; an autotuned launch has several choices."""

    choices: tuple[Choice, ...]
    line: int
    """Line of the candidate's file; 0 if unknown."""


Step = Allocate | Constant | Operate | Launch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """One call of a module."""

    buffers: tuple[Buffer, ...]
    inputs: tuple[View, ...]
    """Tensors among the arguments of the call, in order."""
    arguments: tuple[View, ...]
    """Tensors among the arguments of the constructor, in order."""
    state: tuple[tuple[str, View], ...]
    """Parameters and buffers by name, as far as the reference has them too."""
    prologue: tuple[Step, ...]
    """Steps that prepare memory from parameters and constants; they run again when the parameters change."""
    steps: tuple[Step, ...]
    tree: Any
    """The nesting of the outputs, as returned by `tensors.flatten`."""
    outputs: tuple[View, ...]
    rebound: tuple[tuple[str, View], ...] = ()
    """Buffers of the module that the call bound to another tensor."""

    def launches(self) -> Iterator[Launch]:
        """Return the launches of one call, without the prologue."""
        return (step for step in self.steps if isinstance(step, Launch))

    def kernels(self) -> Iterator[str]:
        for step in (*self.prologue, *self.steps):
            if isinstance(step, Launch):
                yield from (choice.kernel for choice in step.choices)


def views_in(argument: Any) -> Iterator[View]:
    if isinstance(argument, View):
        yield argument
    elif isinstance(argument, Descriptor):
        yield argument.view
    elif isinstance(argument, tuple):
        for item in argument:
            yield from views_in(item)


def buffers_in(argument: Any) -> Iterator[int]:
    if isinstance(argument, Address):
        yield argument.buffer
    elif isinstance(argument, tuple):
        for item in argument:
            yield from buffers_in(item)
    else:
        yield from (view.buffer for view in views_in(argument))


# -- to JSON and back ----------------------------------------------------------------------------------------------

_RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Buffer, View, Address, Descriptor, Named, Constexpr, Allocate, Constant, Operate, Choice, Launch, Tape)
}
_ITEMS_AT_MOST = 2_000_000
"""Maximum number of values in one tape, far more than a call of a model needs."""


def encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return {"is": "bytes", "data": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, float):
        return {"is": "float", "data": value.hex() if value == value else "nan"}
    if value is None or isinstance(value, (bool, int, str, dict, list)):
        return {"is": "plain", "data": value} if isinstance(value, (dict, list)) else value
    raise TypeError(f"a {type(value).__name__} has no place on a tape")


def decode(data: Any) -> Any:
    """Return the encoded value; raise `Malformed` for JSON that `encode` does not write."""
    left = [_ITEMS_AT_MOST]
    try:
        return _decode(data, left)
    except (ArithmeticError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"not a tape: {error}") from error


def _decode(data: Any, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise Malformed("the tape is too long")
    if isinstance(data, list):
        return tuple(_decode(item, left) for item in data)
    if not isinstance(data, dict):
        return data
    kind = data["is"]
    if kind == "float":
        return float.fromhex(data["data"]) if data["data"] != "nan" else float("nan")
    if kind == "bytes":
        return base64.b64decode(data["data"], validate=True)
    if kind == "plain":
        return data["data"]
    fields = {name: _decode(item, left) for name, item in data.items() if name != "is"}
    return _checked(_RECORDS[kind](**fields))


def _checked(record: Any) -> Any:
    """Return the record; raise `Malformed` if a field does not have the type of its annotation."""
    for name, fits in _checks(type(record).__name__).items():
        if not fits(getattr(record, name)):
            raise Malformed(f"{type(record).__name__}.{name} cannot be {str(getattr(record, name))[:80]}")
    if isinstance(record, Launch) and not record.choices:
        raise Malformed("a launch without a choice")
    if isinstance(record, Constexpr):
        value_from_json(record.value)  # raises for anything but a kernel value
    return dataclasses.replace(record, place=Place(record.place)) if isinstance(record, Buffer) else record


@functools.cache
def _checks(record: str) -> dict[str, Callable[[Any], bool]]:
    return {name: _check_of(hint) for name, hint in typing.get_type_hints(_RECORDS[record]).items()}


def _check_of(hint: Any) -> Callable[[Any], bool]:
    """Return a function that checks whether a value has an annotated type."""
    kinds = typing.get_args(hint)
    if hint is Any:
        return lambda value: True
    if hint == Argument:
        return _is_argument
    if hint is int:
        return lambda value: type(value) is int and 0 <= value < 1 << 62
    if hint is str:
        return lambda value: type(value) is str and len(value) < 4096
    if hint is Place:
        return lambda value: value in list(Place)
    if typing.get_origin(hint) is not tuple:
        return lambda value: isinstance(value, kinds or hint)
    checks = tuple(_check_of(item) for item in kinds if item is not Ellipsis)
    if Ellipsis not in kinds:
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(checks)
            and all(fits(item) for fits, item in zip(checks, value))
        )
    most = 64 if kinds[0] is int else _ITEMS_AT_MOST
    return lambda value: isinstance(value, tuple) and len(value) <= most and all(map(checks[0], value))


def _is_argument(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_argument, value))
    plain = type(value) in (bool, float, str, type(None)) or (type(value) is int and abs(value) < 1 << 64)
    return plain or isinstance(value, (View, Address, Descriptor, Named, Constexpr))


def arguments_of(step: Step) -> Iterator[View]:
    """Yield the tensors passed to a step; for an autotuned launch, those of every configuration."""
    if isinstance(step, Operate):
        for value in (*step.args, *(value for _, value in step.kwargs)):
            yield from views_in(value)
    elif isinstance(step, Launch):
        for choice in step.choices:
            for _, value in choice.arguments:
                yield from views_in(value)


def views_of(step: Step) -> Iterator[View]:
    """Yield the tensors passed to a step or returned by it."""
    yield from arguments_of(step)
    if isinstance(step, Operate):
        yield from (view for view in step.results if view is not None)


def mentioned(step: Step) -> Iterator[int]:
    """Yield the buffers that a step uses or makes."""
    if isinstance(step, (Allocate, Constant)):
        yield step.buffer
    yield from (view.buffer for view in views_of(step))
    yield from addressed(step)


def addressed(step: Step) -> Iterator[int]:
    """Yield the buffers that a step passes on by address, which may be used for an unknown time."""
    if isinstance(step, Constant):
        yield from (address.buffer for _, address in step.relocations)
    elif isinstance(step, Launch):
        for choice in step.choices:
            for _, value in choice.arguments:
                for item in value if isinstance(value, tuple) else (value,):
                    if isinstance(item, (Address, tuple)):
                        yield from buffers_in(item)
