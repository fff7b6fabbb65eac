"""New contents for inputs that are timed again and again: a memory of earlier answers is never asked the same twice.

Each tensor of floats is cut in two somewhere, and both parts are turned by some number of places. The numbers stay the
same ones, so that what a call has to do hardly changes; where they lie does, in every row, and with it the answer.
Whole numbers are left alone, since they may be indices that belong together. Meant for inputs whose order is free: a
matrix that has to be positive definite is none any more afterwards.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

MOST_TURNED = 1 << 25
"""Elements at once: a copy of so many is held meanwhile. Of a larger tensor each piece is turned."""


def renew(values: Any) -> None:
    """Change the values in place; version counters of tensors stay as they are."""
    for row in rows_of(values):
        for start in range(0, row.numel(), MOST_TURNED):
            _turn(row[start : start + MOST_TURNED])


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
    """Return True if the elements lie side by side, in any order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _turn(row: torch.Tensor) -> None:
    if row.numel() < 2:
        return
    cut = secrets.randbelow(row.numel() - 1)
    row.copy_(torch.cat([*_turned(row[:cut]), *_turned(row[cut:])]))


def _turned(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two pieces that change places."""
    places = 1 + secrets.randbelow(part.numel() - 1) if part.numel() > 1 else 0
    return part[places:], part[:places]
