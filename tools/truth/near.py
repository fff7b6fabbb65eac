"""Moves small answers from the GPU to the CPU, where they are judged.

On the GPU each of the dozen operators of a comparison waits for the other processes that share it. With many candidates
at work that takes milliseconds, where a CPU takes a tenth of one.
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
