"""New contents for inputs that are timed again and again, so that no call is given what an earlier one was given.

Each tensor of floats is cut in two at a random place, and both parts are rotated. The numbers stay the same, so the
work of a call hardly changes; their places change, and with them the answer. Integers are left alone, since they may be
indices that belong together. Use it for inputs whose order is free: a positive definite matrix would not stay one.
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
            piece = row[start : start + MOST_TURNED]
            if piece.numel() < 2:
                continue
            cut = secrets.randbelow(piece.numel() - 1)
            turned: list[torch.Tensor] = []
            for part in (piece[:cut], piece[cut:]):
                places = 1 + secrets.randbelow(part.numel() - 1) if part.numel() > 1 else 0
                turned += (part[places:], part[:places])
            piece.copy_(torch.cat(turned))


def rows_of(values: Any) -> list[torch.Tensor]:
    """Return the tensors of floats in a nest, as rows, whose elements lie side by side in memory, in any order."""
    if isinstance(values, dict):
        values = values.values()
    elif isinstance(values, torch.Tensor):
        tensor = values.data
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.layout is not torch.strided:
            return []
        expected = 1
        for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
            if size > 1 and stride != expected:
                return []
            expected *= size
        return [tensor.as_strided((tensor.numel(),), (1,))] if tensor.numel() > 1 else []
    elif not isinstance(values, (list, tuple)):
        return []
    return [row for value in values for row in rows_of(value)]
