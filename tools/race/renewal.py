"""Changes inputs in place between timed calls, so that no call gets the same inputs as an earlier one.

Each floating-point tensor is split at a random place, and both parts are rotated. The values stay the same, so the work
of a call hardly changes; but their positions change, and with them the answer. Integers are not changed, since they may
be indices that belong together. Use this only for inputs whose order does not matter: a positive definite matrix would
no longer be one.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

MOST_TURNED = 1 << 25
"""Number of elements rotated at once, because a copy of them is needed. Larger tensors are rotated in pieces."""


def renew(values: Any) -> None:
    """Rotate the values in place, without changing the version counters of the tensors."""
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
    """Return the dense floating-point tensors in a nested value, each as a flat view of its memory."""
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
