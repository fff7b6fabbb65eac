"""New contents for inputs that are timed again and again: a memory of earlier answers is never asked the same twice.

Two stretches of each tensor of floats change places, somewhere else each time. The numbers stay the same ones, so that
what a call has to do hardly changes; where they lie does, and with it the answer. Whole numbers are left alone, since
they may be indices that belong together. Meant for inputs whose order is free: a matrix that has to be positive
definite is none any more afterwards.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

MOST_MOVED = 1 << 24
"""Elements of a stretch: more would take long, and too much memory to hold meanwhile."""


def renew(values: Any) -> None:
    """In place, in memory alone: no tensor's version counter tells."""
    for row in rows_of(values):
        _exchange(row)


def rows_of(values: Any) -> list[torch.Tensor]:
    """The tensors of floats in a nest whose memory can be taken in a row."""
    if isinstance(values, torch.Tensor):
        return _row_of(values.data)
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (list, tuple)):
        return []
    return [row for value in values for row in rows_of(value)]


def _row_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    numbers = tensor.is_floating_point() or tensor.is_complex()
    if not numbers or tensor.layout is not torch.strided or tensor.numel() < 2 or not _is_dense(tensor):
        return []
    return [tensor.as_strided((tensor.numel(),), (1,))]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie side by side in some order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _exchange(row: torch.Tensor) -> None:
    count = row.numel()
    moved = min(1 + secrets.randbelow(count // 2), MOST_MOVED)
    low = secrets.randbelow(count - 2 * moved + 1)
    high = low + moved + secrets.randbelow(count - low - 2 * moved + 1)
    one, other = row[low : low + moved], row[high : high + moved]
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)
