"""Digests differ for different rows of bytes, and do not depend on the strides or place of the rows."""

from __future__ import annotations

import pytest
import torch

from triton_agent.tools.processes.digests import CHUNK, Digests


@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000, 8 * CHUNK + 13])
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


def test_swapped_chunks_are_told_apart() -> None:
    row = torch.randint(256, (16 * CHUNK,), dtype=torch.uint8)
    swapped = torch.cat([row[8 * CHUNK :], row[: 8 * CHUNK]])
    one, other = Digests("cpu").of_rows([row, swapped])
    assert one != other


def test_memory_around_a_tensor_counts_for_the_tensor_and_not_for_the_row() -> None:
    digests, memory = Digests("cpu"), torch.zeros(64)
    tensor, row = memory[8:16], memory.view(torch.uint8)[32:64]
    before = digests.of([tensor]), digests.of_rows([row])
    memory[0] = 1.0
    assert not torch.equal(digests.of([tensor]), before[0]) and torch.equal(digests.of_rows([row]), before[1])
