"""Moves small answers from the GPU to the CPU, where they are judged.

On the GPU each of the dozen operators of a comparison waits for the other processes that share it. With many candidates
at work that takes milliseconds, where a CPU takes a tenth of one.
"""

from __future__ import annotations

import torch

SMALL = 1 << 16
"""Elements."""


def near(tensor: torch.Tensor, device: str | torch.device | None = None) -> torch.Tensor:
    """Return the tensor on the CPU if it is small, else on `device`, or where it is."""
    if tensor.numel() <= SMALL:
        return tensor.cpu()
    return tensor if device is None else tensor.to(device)
