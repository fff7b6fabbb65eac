"""Tensors whose address host code asked for: a kernel may be given it as a number, alone or in a table of pointers.

On a GPU such a pointer reaches its tensor like any other. Here a launch that reaches outside of its own arguments may
still reach these. They are kept for as long as the process lives, so that no address comes to mean other memory.
"""

from __future__ import annotations

from typing import Any

import torch

_asked: dict[tuple[int, int], torch.Tensor] = {}


def note(tensor: Any) -> None:
    """Somebody asks for this tensor's address."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and tensor.device.type == "cpu":
        with torch._C.DisableTorchFunction():
            view = torch.Tensor.detach(tensor)
            start, end = reach_of(view)
        if end > start:
            _asked[start, end] = view


def reach_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first element and of what follows the last; between them lie the holes of strides."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return start, start + (last + 1) * tensor.element_size()


def known() -> list[tuple[int, int]]:
    """Starts and ends in memory."""
    return list(_asked)
