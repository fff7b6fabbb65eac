"""Layouts of tensors, and the arguments of operators, as plain data.

Contents of tensors are not kept. A torch dtype or memory format is stored by its name (`float32`, `channels_last`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMeta:
    """Shape, dtype and layout of a tensor, without its device."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    offset: int = 0
    """Elements from the start of the storage to the first element. Needed to decide if two slices overlap."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie row by row without gaps. Dimensions of size 1 may have any stride."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return self.numel == 0
            expected *= size
        return True

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return text if self.is_contiguous else f"{text} strides [{', '.join(map(str, self.strides))}]"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TensorMeta:
        return cls(**{**data, "shape": tuple(data["shape"]), "strides": tuple(data["strides"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An argument that is a value of the graph."""

    name: str


Argument: TypeAlias = bool | int | float | complex | str | Reference | tuple["Argument", ...] | None


def references_in(argument: Argument) -> Iterator[str]:
    if isinstance(argument, Reference):
        yield argument.name
    elif isinstance(argument, tuple):
        for item in argument:
            yield from references_in(item)


def renamed(argument: Argument, names: Mapping[str, str]) -> Argument:
    """Return the argument with each value in `names` renamed; other values keep their names."""
    if isinstance(argument, Reference):
        return Reference(name=names.get(argument.name, argument.name))
    return tuple(renamed(item, names) for item in argument) if isinstance(argument, tuple) else argument


def argument_text(argument: Argument) -> str:
    if isinstance(argument, Reference):
        return argument.name
    return f"[{', '.join(map(argument_text, argument))}]" if isinstance(argument, tuple) else repr(argument)


def to_json(value: Any) -> Any:
    """Return plain data: dataclasses become objects; references, complex numbers and non-finite floats, objects with
    one key."""
    if isinstance(value, Reference):
        return {"value": value.name}
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def argument_from_json(data: Any) -> Argument:
    if isinstance(data, list):
        return tuple(argument_from_json(item) for item in data)
    if not isinstance(data, dict):
        plain: Argument = data
        return plain
    if "value" in data:
        return Reference(name=data["value"])
    return complex(*data["complex"]) if "complex" in data else float(data["float"])


def order_in_memory(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions of several elements, the one whose elements lie furthest apart first."""
    return tuple(sorted((i for i, size in enumerate(shape) if size > 1), key=lambda i: -strides[i]))
