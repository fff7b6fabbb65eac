"""What modules hold as plain attributes: numbers and tensors that a graph has baked in, and an author wants to name."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldTensor:
    """A tensor that is an attribute of a module, and neither parameter nor buffer."""

    path: str
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
    return tuple(found)
