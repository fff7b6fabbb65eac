"""Digests that show if a tensor's contents changed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

CHUNK_ON_CPU, CHUNK_ON_GPU = 1 << 16, 1 << 22
"""Number of four-byte words that are processed at a time: few enough for a processor's cache, many enough that a GPU
does not wait for launches."""


class Digests:
    """Computes weighted sums over the memory of tensors, with random weights that no kernel can know.

    Words have four bytes and weights eight, so that a change of a word's highest bit changes the sum by a number that
    depends on 33 bits of its weight. In sums of eight-byte words, an even number of such changes would cancel.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._chunk = CHUNK_ON_CPU if device == "cpu" else CHUNK_ON_GPU
        self._generator = torch.Generator(device).manual_seed(secrets.randbits(63))
        self._weights, self._factors = (torch.empty(0, dtype=torch.int64, device=device) for _ in range(2))

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the digest of each tensor's storage, without waiting for the GPU."""
        whole = [torch.empty(0, dtype=torch.uint8, device=it.device).set_(it.untyped_storage()) for it in tensors]
        return self.of_rows(whole)

    def of_rows(self, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the digest of each row of bytes alone, without the rest of its storage."""
        numbers = [self._weighted_sum(row.to(self._device)) for row in rows]
        return torch.stack(numbers) if numbers else torch.zeros(0, dtype=torch.int64, device=self._device)

    def _weighted_sum(self, row: torch.Tensor) -> torch.Tensor:
        """Return the sum of the words of each chunk by their weights, added up by factors of the chunks."""
        whole = row.numel() - row.numel() % 4
        words, rest = row[:whole], row[whole:]
        if words.storage_offset() % 4:
            words = words.clone()
        if not len(rest) and 0 < whole <= 4 * self._chunk:  # most rows: a single chunk, which needs no factor
            self._weights = self._extended(self._weights, whole // 4)
            return words.view(torch.int32).to(torch.int64).mul_(self._weights[: whole // 4]).sum()
        chunks = [*torch.split(words.view(torch.int32), self._chunk), rest.to(torch.int32)]
        chunks = [chunk for chunk in chunks if len(chunk)]
        self._weights = self._extended(self._weights, max(map(len, chunks), default=0))
        self._factors = self._extended(self._factors, len(chunks))
        # In one buffer: with a new tensor for each product, a worker with 300 MB of inputs exceeded its limit at times.
        buffer = torch.empty_like(self._weights)
        sums = torch.empty(len(chunks), dtype=torch.int64, device=self._device)
        for number, chunk in enumerate(chunks):
            sums[number] = buffer[: len(chunk)].copy_(chunk).mul_(self._weights[: len(chunk)]).sum()
        return sums.mul_(self._factors[: len(chunks)]).sum()

    def _extended(self, drawn: torch.Tensor, count: int) -> torch.Tensor:
        """Return at least `count` random odd numbers that begin with those drawn before."""
        if len(drawn) >= count:
            return drawn
        more = torch.empty(count - len(drawn), dtype=torch.int64, device=self._device)
        return torch.cat([drawn, more.random_(-(1 << 62), 1 << 62, generator=self._generator) | 1])
