"""What modules hold as plain attributes: numbers and tensors that a graph has baked in, and an author wants to name."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

OF_THE_FILE = ":"
"""Begins the path of a tensor that no module holds."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldTensor:
    """A tensor that is an attribute of a module, neither parameter nor buffer; or one at the top level of its file."""

    path: str
    """Of one at the top level: its name, behind a colon."""
    shape: tuple[int, ...]
    dtype: str


def numbers_of(model: nn.Module) -> dict[str, float]:
    """Whole and other numbers among the attributes of a module and the modules in it, by their path."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if type(value) in (int, float) and not name.startswith("_") and math.isfinite(value):
                found[f"{path}.{name}" if path else name] = value
    return found


def tensors_of(model: nn.Module) -> tuple[HeldTensor, ...]:
    """Tensors among the plain attributes of a module and the modules in it, in the order they were set."""
    from torch import Tensor

    found = []
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                full = f"{path}.{name}" if path else name
                dtype = str(value.dtype).removeprefix("torch.")
                found.append(HeldTensor(path=full, shape=tuple(value.shape), dtype=dtype))
    for space, name in beside_classes(model):
        value = space[name]
        dtype = str(value.dtype).removeprefix("torch.")
        found.append(HeldTensor(path=f"{OF_THE_FILE}{name}", shape=tuple(value.shape), dtype=dtype))
    return tuple(found)


def beside_classes(model: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Tensors at the top level of files whose classes' `forward` reads them by name: where each is, and its name."""
    from torch import Tensor

    found: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
    for module in model.modules():
        forward = getattr(type(module), "forward", None)  # a scripted module's is no function
        space = getattr(forward, "__globals__", {})
        for name in forward.__code__.co_names if space and forward is not None else ():
            if isinstance(space.get(name), Tensor):
                found[id(space), name] = space, name
    return list(found.values())
