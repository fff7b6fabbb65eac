"""A nest of arguments without the values of its tensors: what a call looks like, and what a tape belongs to.

`outline` is made by the trusted side from real arguments; `fill` puts tensors back into their places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import NAMES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorAt:
    """The place of a tensor in a nest."""

    index: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorOutline:
    """A tensor without its values."""

    storage: int
    """Which of the outline's storages it lies in."""
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


def outline(values: Any) -> Outline:
    """The arguments without the values of their tensors."""
    tensors: list[torch.Tensor] = []

    def place(tensor: torch.Tensor) -> TensorAt:
        tensors.append(tensor)
        return TensorAt(index=len(tensors) - 1)

    nest = mapped(values, place)
    storages = storages_of(tensors)
    numbers = {storage._cdata: number for number, storage in enumerate(storages)}
    return Outline(
        values=nest,
        tensors=tuple(
            TensorOutline(
                storage=numbers[tensor.untyped_storage()._cdata],
                dtype=NAMES[tensor.dtype],
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                offset=int(tensor.storage_offset()),
            )
            for tensor in tensors
        ),
        storages_bytes=tuple(storage.nbytes() for storage in storages),
    )


def storages_of(tensors: Sequence[torch.Tensor]) -> list[torch.UntypedStorage]:
    """The memory they lie in, each piece once, in order."""
    return list({tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}.values())


def fill(values: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The nest with tensors in their places."""
    if isinstance(values, TensorAt):
        return tensors[values.index]
    return _over(values, lambda item: fill(item, tensors))


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors of a nest, in the order of an outline."""
    found: list[torch.Tensor] = []
    mapped(values, lambda tensor: found.append(tensor))
    return found


def mapped(values: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The nest with its tensors changed."""
    if isinstance(values, torch.Tensor):
        return change(values)
    return _over(values, lambda item: mapped(item, change))


def _over(values: Any, change: Callable[[Any], Any]) -> Any:
    """A container with its items changed; anything else as it is."""
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
