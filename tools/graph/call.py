"""Helpers for recording a call: list the tensors in nested values, and call a model without changing it.

The recorder sees the writes of the call, and it restores the contents of overwritten tensors (`tensor_names.py`).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence

import numpy
import torch
from torch import nn

_DEEPEST = 3
"""Levels of nested lists that `tensors_within` searches; a list may contain itself."""


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return every tensor in nested lists, tuples, dicts and dataclasses, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for _, item in _items(value) for tensor in tensors_in(item)]


def tensors_within(value: object, path: str, depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """Return every tensor in nested lists, tuples and dicts, with the expression to access it: `tables[1]['sine']`."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if depth == _DEEPEST or not isinstance(value, list | tuple | dict):
        return []
    return [found for key, item in _items(value) for found in tensors_within(item, f"{path}[{key!r}]", depth + 1)]


def structure_of(value: object) -> str:
    """Return the nesting as text, with a star for each tensor."""
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
    """Yield a copy of `model` that shares its tensors. Afterwards restore random states and the tensors' layouts."""
    attributes = [value for module in model.modules() for value in vars(module).values()]
    owned = [*model.parameters(), *model.buffers(), *(item for item in attributes if isinstance(item, torch.Tensor))]
    devices = {tensor.device for tensor in [*inputs, *owned]}
    places = [(tensor, tensor.data) for tensor in [*inputs, *owned] if tensor.layout is torch.strided]
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    kept: list[tuple[nn.Module, dict[str, object]]] = []
    with torch.random.fork_rng(devices=sorted({device.index or 0 for device in devices if device.type == "cuda"})):
        try:
            try:
                called = copy.deepcopy(model, {id(tensor): tensor for tensor in owned})
            except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
                # The model holds an object that cannot be copied, such as a lock, a handle or a tensor with a graph.
                # Call the model itself, and restore its modules' attributes afterwards.
                called = model
                for module in model.modules():
                    held = {k: copy.copy(v) if isinstance(v, dict | list | set) else v for k, v in vars(module).items()}
                    kept.append((module, held))
            yield called
        finally:
            for module, saved in kept:
                vars(module).clear()
                vars(module).update(saved)
            for tensor, data in places:  # undo assignments to `.data` and changes of shape in place
                if _place(tensor) != _place(data):
                    tensor.data = data
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
