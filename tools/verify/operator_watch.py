"""Counts the operators of torch that a reference runs, with the elements they touch: the measure of its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode

TO_WHOLE = "rounding.to_whole_numbers"
"""Counts what was copied from floats to integers or flags, which rounds it; that it was copied counts besides."""
COPIES = {"aten._to_copy": 0, "aten.copy_": 1}
"""By name, which argument is copied from."""


class OperatorWatch(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts operators and the elements of their largest tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = f"{func.namespace}.{func._schema.name.split('::')[-1]}"
        row = self.operators.setdefault(name, [0, 0])
        result = func(*args, **(kwargs or {}))
        row[0] += 1
        row[1] += max(map(_elements, (*args, result)), default=0)
        if name in COPIES and _rounds(args[COPIES[name]], result):
            rounded = self.operators.setdefault(TO_WHOLE, [0, 0])
            rounded[0] += 1
            rounded[1] += result.numel()
        return result

    def take(self) -> dict[str, list[int]]:
        """What was seen since the last take."""
        seen, self.operators = self.operators, {}
        return seen


def memory_of(tensor: torch.Tensor) -> int:
    """Where its storage begins; 0 for tensors that have none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _rounds(source: torch.Tensor, result: torch.Tensor) -> bool:
    return makes_whole(source.dtype, result.dtype)


def makes_whole(source: torch.dtype, result: torch.dtype) -> bool:
    """Whether a copy computes: it rounds numbers to whole ones, cuts whole ones off, or asks whether they are zero.

    Narrower indices are a habit, so what stays four bytes wide does not count.
    """
    if result.is_floating_point or result.is_complex or source is torch.bool:
        return False
    return (
        source.is_floating_point
        or (result.itemsize < min(source.itemsize, 4))
        or (result is torch.bool and source is not torch.bool)
    )


def _elements(value: Any) -> int:
    """Of one argument; a list of tensors counts as one tensor in pieces."""
    return sum(tensor.numel() for tensor in _tensors(value))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
