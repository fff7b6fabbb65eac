"""Digests that show if a tensor's contents changed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

CHUNK = 1 << 22
"""Number of eight-byte words that are processed at a time."""


class Digests:
    """Computes weighted sums over the memory of tensors, with random odd weights that no kernel can know."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._weights = torch.empty(0, dtype=torch.int64, device=device)

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the digest of each tensor's storage, without waiting for the GPU."""
        whole = [torch.empty(0, dtype=torch.uint8, device=it.device).set_(it.untyped_storage()) for it in tensors]
        return self.of_rows(whole)

    def of_rows(self, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the digest of each row of bytes alone, without the rest of its storage."""
        numbers = [self._weighted_sum(row.to(self._device)) for row in rows]
        return torch.stack(numbers) if numbers else torch.zeros(0, dtype=torch.int64, device=self._device)

    def _weighted_sum(self, row: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.int64, device=self._device)
        whole = row.numel() - row.numel() % 8
        words, rest = row[:whole], row[whole:]
        if words.storage_offset() % 8:
            words = words.clone()
        words = words.view(torch.int64)
        weights = self._weights_for(max(words.numel(), 8))
        for start in range(0, words.numel(), CHUNK):
            chunk = words[start : start + CHUNK]
            total += (chunk * weights[: chunk.numel()]).sum() * (2 * start + 1)
        if rest.numel():
            total += (rest.to(torch.int64) * weights[: rest.numel()]).sum()
        return total

    def _weights_for(self, words: int) -> torch.Tensor:
        wanted = min(words, CHUNK)
        if self._weights.numel() < wanted:
            generator = torch.Generator(self._device).manual_seed(secrets.randbits(63))
            drawn = torch.empty(wanted, dtype=torch.int64, device=self._device)
            self._weights = drawn.random_(-(1 << 62), 1 << 62, generator=generator) | 1
        return self._weights
