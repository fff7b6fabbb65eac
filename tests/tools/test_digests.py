"""Digests differ for different rows of bytes, and do not depend on the strides or place of the rows."""

from __future__ import annotations

import pytest
import torch

from triton_agent.tools.processes.digests import CHUNK_ON_CPU, Digests


@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000, 4 * CHUNK_ON_CPU + 13])
def test_equal_rows_have_one_number_and_any_changed_byte_another(size: int) -> None:
    digests = Digests("cpu")
    row = torch.randint(256, (size,), dtype=torch.uint8)
    moved = torch.cat([row, row])[size:]
    number = digests.of_rows([row, moved])
    assert number[0] == number[1]
    for at in {0, size // 2, size - 1} if size else ():
        other = row.clone()
        other[at] ^= 1
        assert digests.of_rows([other])[0] != number[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64])
def test_changes_of_highest_bits_do_not_cancel(dtype: torch.dtype) -> None:
    """Negated elements differ from the old ones in their highest bit only; two such changes cancel in a plain sum."""
    digests, highest = Digests("cpu"), 1 << 7
    row = torch.randn(1000).mul(9).to(dtype).view(torch.uint8)
    signs = row.view(-1, dtype.itemsize)[:, -1]
    for chosen in (slice(None), slice(1, None, 2), slice(0, 2), slice(0, None, 4)):
        other = row.clone()
        other.view(-1, dtype.itemsize)[chosen, -1] = signs[chosen] ^ highest
        assert digests.of_rows([other])[0] != digests.of_rows([row])[0]


def test_longer_rows_leave_the_digests_of_others_as_they_are() -> None:
    digests, row = Digests("cpu"), torch.randint(256, (1000,), dtype=torch.uint8)
    before = digests.of_rows([row])
    digests.of_rows([torch.zeros(40 * CHUNK_ON_CPU, dtype=torch.uint8)])
    assert torch.equal(digests.of_rows([row]), before)


def test_swapped_chunks_are_told_apart() -> None:
    row = torch.randint(256, (8 * CHUNK_ON_CPU,), dtype=torch.uint8)
    swapped = torch.cat([row[4 * CHUNK_ON_CPU :], row[: 4 * CHUNK_ON_CPU]])
    one, other = Digests("cpu").of_rows([row, swapped])
    assert one != other


def test_memory_around_a_tensor_counts_for_the_tensor_and_not_for_the_row() -> None:
    digests, memory = Digests("cpu"), torch.zeros(64)
    tensor, row = memory[8:16], memory.view(torch.uint8)[32:64]
    before = digests.of([tensor]), digests.of_rows([row])
    memory[0] = 1.0
    assert not torch.equal(digests.of([tensor]), before[0]) and torch.equal(digests.of_rows([row]), before[1])
