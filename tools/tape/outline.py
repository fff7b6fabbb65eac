"""The arguments of a call without the values of their tensors: the form of call that a tape belongs to.

The trusted side makes an `outline` of real arguments; `fill` puts tensors into their places again.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.problem import named_tuples
from triton_agent.tools.processes.tensors import NAMES
from triton_agent.tools.tape.tape import Named


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorAt:
    """The place of a tensor among the arguments."""

    index: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorOutline:
    """A tensor without its values."""

    storage: int
    """Index of its storage among those of the outline."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Arguments with `TensorAt` in place of tensors."""

    values: Any
    tensors: tuple[TensorOutline, ...]
    storages_bytes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Replaces an argument that cannot be expressed as plain data."""

    kind: str
    """Name of its class."""


def outline(values: Any) -> Outline:
    tensors: list[torch.Tensor] = []

    def place(tensor: torch.Tensor) -> TensorAt:
        tensors.append(tensor)
        return TensorAt(index=len(tensors) - 1)

    nest = mapped(values, place)
    storages = list({tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}.values())
    numbers = {storage._cdata: number for number, storage in enumerate(storages)}
    outlines = (
        TensorOutline(
            storage=numbers[tensor.untyped_storage()._cdata],
            dtype=NAMES[tensor.dtype],
            shape=tuple(map(int, tensor.shape)),
            strides=tuple(map(int, tensor.stride())),
            offset=int(tensor.storage_offset()),
        )
        for tensor in tensors
    )
    sizes_bytes = tuple(int(storage.nbytes()) for storage in storages)
    return Outline(values=nest, tensors=tuple(outlines), storages_bytes=sizes_bytes)


def apart(given: Outline) -> Outline:
    """Return the outline of the same tensors, each in memory of its own."""
    tensors = tuple(dataclasses.replace(tensor, storage=number) for number, tensor in enumerate(given.tensors))
    return Outline(
        values=given.values,
        tensors=tensors,
        storages_bytes=tuple(given.storages_bytes[tensor.storage] for tensor in given.tensors),
    )


def fill(values: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(values, TensorAt):
        return tensors[values.index]
    return _over(values, lambda item: fill(item, tensors))


def passed(values: Sequence[Any], by_keyword: Sequence[str]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Split the arguments of a call into positional ones and the last ones, which are passed under these names."""
    first = len(values) - len(by_keyword)
    return values[:first], dict(zip(by_keyword, values[first:]))


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors among the arguments, in the order of an outline."""
    found: list[torch.Tensor] = []
    mapped(values, lambda tensor: found.append(tensor))
    return found


def mapped(values: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(values, torch.Tensor):
        return change(values)
    return _over(values, lambda item: mapped(item, change))


def _over(values: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to the items of a container; return any other value as it is."""
    if isinstance(values, tuple) and hasattr(values, "_fields"):
        return type(values)(*(change(item) for item in values))
    if isinstance(values, (list, tuple)):
        return type(values)(change(item) for item in values)
    if isinstance(values, dict):
        return type(values)((key, change(item)) for key, item in values.items())
    if type(values).__name__ == "SimpleNamespace":
        return type(values)(**{key: change(item) for key, item in vars(values).items()})
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        return dataclasses.replace(
            values,
            **{field.name: change(getattr(values, field.name)) for field in dataclasses.fields(values) if field.init},
        )
    return values


def to_json(found: Outline) -> dict[str, Any]:
    return {
        "values": _nest_to_json(found.values),
        "tensors": [dataclasses.asdict(tensor) for tensor in found.tensors],
        "storages_bytes": list(found.storages_bytes),
    }


def from_json(data: Mapping[str, Any]) -> Outline:
    """Return the outline, with `Named` for torch's constants and `Opaque` for other objects."""
    tensors = [
        TensorOutline(**{**tensor, "shape": tuple(tensor["shape"]), "strides": tuple(tensor["strides"])})
        for tensor in data["tensors"]
    ]
    values = _nest_from_json(data["values"])
    return Outline(values=values, tensors=tuple(tensors), storages_bytes=tuple(data["storages_bytes"]))


def _nest_to_json(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is TensorAt:
        return {"tensor": value.index}
    if kind in (list, tuple):
        return {kind.__name__: [_nest_to_json(item) for item in value]}
    if named_tuples.is_named(value):
        return {"named": [kind.__name__, list(value._fields), [_nest_to_json(item) for item in value]]}
    if kind is dict:
        return {"dict": [[_nest_to_json(key), _nest_to_json(item)] for key, item in value.items()]}
    if kind is types.SimpleNamespace:
        return {"namespace": [[key, _nest_to_json(item)] for key, item in vars(value).items()]}
    if kind is float:
        return {"float": repr(value)}
    if value is None or kind in (bool, int, str):
        return {"value": value}
    if kind in (torch.dtype, torch.layout, torch.memory_format):
        return {"torch": [kind.__name__, str(value).removeprefix("torch.")]}
    return {"opaque": kind.__name__}


def _nest_from_json(data: Mapping[str, Any]) -> Any:
    ((kind, value),) = data.items()
    if kind == "tensor":
        return TensorAt(index=value)
    if kind in ("list", "tuple"):
        items = [_nest_from_json(item) for item in value]
        return items if kind == "list" else tuple(items)
    if kind == "named":
        name, fields, items = value
        return named_tuples.rebuilt(name, tuple(fields), tuple(map(_nest_from_json, items)))
    if kind == "dict":
        return {_nest_from_json(key): _nest_from_json(item) for key, item in value}
    if kind == "namespace":
        return types.SimpleNamespace(**{key: _nest_from_json(item) for key, item in value})
    if kind == "torch":
        return Named(kind=value[0], name=value[1])
    if kind == "opaque":
        return Opaque(kind=value)
    return float(value) if kind == "float" else value
