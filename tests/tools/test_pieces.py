"""Long tensors are looked at in pieces: which ones nobody knows beforehand, and what a change in them comes to."""

from __future__ import annotations

import pytest
import torch

from triton_agent.tools.isolate import pieces
from triton_agent.tools.isolate.tensors import describe, row
from triton_agent.tools.verify.checks import Seen

LONG = pieces.WHOLE_UP_TO + 7 * pieces.PIECE_BYTES + 12


def seen(tensor: torch.Tensor, size_bytes: int) -> Seen:
    """As a worker and its checker go about it."""
    numbers = pieces.draw(size_bytes)
    found = pieces.of(row(tensor), numbers)
    assert found.numel() == pieces.size_bytes(size_bytes, numbers)
    return Seen(described=[describe(tensor)], numbers=[numbers], rows=[found])


def test_short_rows_are_looked_at_as_a_whole_and_an_eighth_of_long_ones() -> None:
    assert pieces.draw(pieces.WHOLE_UP_TO) is None
    first, second = pieces.draw(LONG), pieces.draw(LONG)
    assert first is not None and second is not None and first != second
    last = LONG // pieces.PIECE_BYTES - 1
    assert 9 <= len(first) == len(set(first)) <= 11 and first == sorted(first) and first[0] == 0 and first[-1] == last


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.bool])
@pytest.mark.parametrize("length", [0, 5, LONG])
def test_what_is_left_alone_is_still_what_it_was(dtype: torch.dtype, length: int) -> None:
    tensor = torch.randint(0, 2, (length // dtype.itemsize,)).to(dtype)
    size_bytes = tensor.nbytes
    assert seen(tensor.clone(), size_bytes).is_still(0, tensor)


def test_a_change_of_everything_or_at_an_end_is_always_seen_and_one_of_a_part_soon() -> None:
    tensor = torch.arange(LONG, dtype=torch.int64).to(torch.uint8)
    everywhere, start, end, part = (tensor.clone() for _ in range(4))
    everywhere += 1
    start[0] += 1
    end[-3:] += 1
    part[: LONG // 4] += 1
    assert not seen(everywhere, LONG).is_still(0, tensor)
    assert not seen(start, LONG).is_still(0, tensor)
    assert not seen(end, LONG).is_still(0, tensor)
    assert not all(seen(part, LONG).is_still(0, tensor) for _ in range(20))


def test_another_shape_another_dtype_and_what_cannot_be_read_are_not_what_it_was() -> None:
    tensor = torch.zeros(4, 4)
    assert not seen(tensor.reshape(2, 8), 64).is_still(0, tensor)
    assert not seen(tensor.int(), 64).is_still(0, tensor)
    assert not Seen(described=[describe(tensor)], numbers=[None], rows=[]).is_still(0, tensor)
    with pytest.raises(IndexError):
        pieces.of(torch.zeros(pieces.PIECE_BYTES, dtype=torch.uint8), [3])


def test_rows_are_compared_in_the_order_of_a_dense_tensor() -> None:
    transposed = torch.randn(300, 4096).t()
    assert seen(transposed.contiguous(), transposed.nbytes).is_still(0, transposed)
