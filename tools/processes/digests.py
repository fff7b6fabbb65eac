"""Numbers that tell whether a tensor's contents changed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

CHUNK = 1 << 22
"""Words of eight bytes that are weighed at once."""


class Digests:
    """Weighs the memory of tensors by odd numbers that no kernel knows, drawn once."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._weights = torch.empty(0, dtype=torch.int64, device=device)

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return a number for each tensor; nothing waits for the GPU here."""
        totals = torch.zeros(len(tensors), dtype=torch.int64, device=self._device)
        for number, tensor in enumerate(tensors):
            storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            whole = storage.numel() - storage.numel() % 8
            words, rest = storage[:whole].view(torch.int64), storage[whole:]
            weights = self._weights_for(max(words.numel(), 8))
            for start in range(0, words.numel(), CHUNK):
                chunk = words[start : start + CHUNK]
                totals[number] += (chunk * weights[: chunk.numel()]).sum() * (2 * start + 1)
            if rest.numel():
                totals[number] += (rest.to(torch.int64) * weights[: rest.numel()]).sum()
        return totals

    def _weights_for(self, words: int) -> torch.Tensor:
        wanted = min(words, CHUNK)
        if self._weights.numel() < wanted:
            generator = torch.Generator(self._device).manual_seed(secrets.randbits(63))
            drawn = torch.empty(wanted, dtype=torch.int64, device=self._device)
            self._weights = drawn.random_(-(1 << 62), 1 << 62, generator=generator) | 1
        return self._weights
