"""Moves small answers from the GPU to the CPU, where they are judged.

There, each of the dozen operators that this takes waits for the other processes that share the GPU; with many
candidates at work that is milliseconds for what a CPU does in a tenth of one.
"""

from __future__ import annotations

import torch

SMALL = 1 << 16
"""Elements."""


LARGE = 1 << 27
"""Elements from which an answer stays on the host, and comes to the GPU in pieces (see `full_size.py`)."""


def near(tensor: torch.Tensor, device: str | torch.device | None = None) -> torch.Tensor:
    """Return the tensor on the CPU if it is small, else on `device`, or where it is."""
    if tensor.numel() <= SMALL:
        return tensor.cpu()
    return tensor if device is None or tensor.numel() > LARGE else tensor.to(device)
