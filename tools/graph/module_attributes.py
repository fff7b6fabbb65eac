"""Numbers and tensors that modules hold as plain attributes, and whole numbers among the arguments of a call.

A graph has their values; authors need their names.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

OF_THE_FILE = ":"
"""Prefix of the path of a tensor at the top level of a file."""


ARGUMENT = "="
"""Prefix of the place of a number among the arguments of a call: `=3` is the fourth."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldTensor:
    """A tensor that is a plain attribute of a module, or a variable at the top level of its file."""

    path: str
    """Path of the attribute; for a variable, a colon and its name."""
    shape: tuple[int, ...]
    dtype: str


MOST_IN_A_TUPLE = 4
"""Longest tuple whose numbers are taken for sizes, such as those of an image or a window."""


def numbers_of(model: nn.Module) -> dict[str, float]:
    """Return the numbers among the attributes of a module and its submodules, also in short tuples, by path.

    The path of a number in a tuple ends with its index: `resolution.0`.
    """
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            own = f"{path}.{name}" if path else name
            if type(value) in (tuple, list) and len(value) <= MOST_IN_A_TUPLE:
                found.update({f"{own}.{i}": item for i, item in enumerate(value) if _is_number(item)})
            elif _is_number(value):
                found[own] = value
    return found


def numbers_given(inputs: Sequence[Any]) -> dict[str, int]:
    """Return the whole numbers among the arguments of a call, such as a position, by place."""
    return {f"{ARGUMENT}{place}": value for place, value in enumerate(inputs) if type(value) is int}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def tensors_of(model: nn.Module) -> tuple[HeldTensor, ...]:
    """Return the tensors among the plain attributes of a module and its submodules, in the order they were set."""
    from torch import Tensor

    tensors = [
        (f"{path}.{name}" if path else name, value)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
    tensors += [(f"{OF_THE_FILE}{name}", space[name]) for space, name in beside_classes(model)]
    return tuple(
        HeldTensor(path=path, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))
        for path, tensor in tensors
    )


def beside_classes(model: nn.Module) -> list[tuple[dict[str, Any], str]]:
    """Return the top-level tensors of files that a `forward` of the model reads, as pairs of namespace and name."""
    from torch import Tensor

    found: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
    for module in model.modules():
        forward = getattr(type(module), "forward", None)  # the forward of a scripted module is not a function
        space = getattr(forward, "__globals__", {})
        for name in forward.__code__.co_names if space and forward is not None else ():
            if isinstance(space.get(name), Tensor):
                found[id(space), name] = space, name
    return list(found.values())
