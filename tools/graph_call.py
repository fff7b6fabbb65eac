"""The call around a recording: what goes in and out of a model, and leaving no trace of having called it.

Tensors that the call overwrites are put back by whoever records it (`graph_memory`), since only it sees the writes.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import nn


def tensors_in(value: object) -> list[torch.Tensor]:
    """Every tensor in nested lists, tuples, dicts and dataclasses, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for _, item in _items(value) for tensor in tensors_in(item)]


_DEEPEST = 3
"""Lists within lists that are looked into: what holds itself has no end."""


def tensors_within(value: object, path: str, depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """The same for lists, tuples and dicts, with what to write to reach each: `tables[1]['sine']`."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if depth == _DEEPEST or not isinstance(value, list | tuple | dict):
        return []
    return [found for key, item in _items(value) for found in tensors_within(item, f"{path}[{key!r}]", depth + 1)]


def structure_of(value: object) -> str:
    """The nesting as text, with a star for each tensor."""
    if isinstance(value, torch.Tensor):
        return "*"
    items = _items(value)
    if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
        return "{" + ", ".join(f"{key!r}: {structure_of(item)}" for key, item in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(structure_of(item) for _, item in items) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(structure_of(item) for _, item in items) + (",)" if len(items) == 1 else ")")
    return repr(value).replace("*", "×") if isinstance(value, bool | int | float | str | None) else type(value).__name__


def _items(value: object) -> list[tuple[object, object]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return []


@contextlib.contextmanager
def undisturbed(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[nn.Module]:
    """A twin of `model` to call: it shares the tensors and nothing else. Random states are put back afterwards."""
    owned = _tensors_of(model)
    devices = {tensor.device for tensor in [*inputs, *owned]}
    cuda = sorted({device.index or 0 for device in devices if device.type == "cuda"})
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=cuda), _kept_in_place([*inputs, *owned]), _twin(model, owned) as twin:
            yield twin
    finally:
        random.setstate(python_state)
        numpy.random.set_state(numpy_state)


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """Parameters, buffers, and tensors that are plain attributes."""
    attributes = [value for module in model.modules() for value in vars(module).values()]
    return [*model.parameters(), *model.buffers(), *(item for item in attributes if isinstance(item, torch.Tensor))]


@contextlib.contextmanager
def _kept_in_place(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Undo assignments to `.data` and changes of shape in place; contents are not looked after here."""
    kept = [(tensor, tensor.data) for tensor in tensors if tensor.layout is torch.strided]
    try:
        yield
    finally:
        for tensor, data in kept:
            if _place(tensor) != _place(data):
                tensor.data = data


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


@contextlib.contextmanager
def _twin(model: nn.Module, shared: Sequence[torch.Tensor]) -> Iterator[nn.Module]:
    try:
        twin = copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
    except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
        # Holds something that cannot be copied (a lock, a handle, a graph's inner tensor): call it, undo what it sets.
        with _attributes_kept(model):
            yield model
        return
    yield twin


@contextlib.contextmanager
def _attributes_kept(model: nn.Module) -> Iterator[None]:
    kept = [(module, {name: _shallow(value) for name, value in vars(module).items()}) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes in kept:
            vars(module).clear()
            vars(module).update(attributes)


def _shallow(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, dict | list | set) else value
