"""Pieces of a long row of bytes, chosen by chance: enough to see that it is as it was, at an eighth of the way.

The numbers are drawn in the checker after the call that they are about, so that nobody can know them during it. A
change of all of a row is always seen, and so is one at its ends, where kernels that reach too far write. One of a
fiftieth of it, in a row of 64 MiB, goes unseen in one of some 15 looks; a call's inputs are looked at in every case and
each answer once more after the others, one of all the cases as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import torch

PIECE_BYTES = 1 << 16
WHOLE_UP_TO = 4 << 20
"""Bytes of a row that is looked at as a whole."""
SHARE = 8
_CHANCE = random.SystemRandom()

Numbers = list[int] | None
"""Of the pieces that are asked for, in order; None for the whole row."""


def draw(size_bytes: int) -> Numbers:
    """The first and the last piece of such a row, and one in eight of all; what is behind them always comes along."""
    if size_bytes <= WHOLE_UP_TO:
        return None
    count = size_bytes // PIECE_BYTES
    return sorted({0, count - 1, *_CHANCE.sample(range(count), -(-count // SHARE))})


def size_bytes(whole_bytes: int, numbers: Numbers) -> int:
    """Of those pieces together."""
    return whole_bytes if numbers is None else len(numbers) * PIECE_BYTES + whole_bytes % PIECE_BYTES


def of(row: torch.Tensor, numbers: Numbers) -> torch.Tensor:
    """Those pieces of a row of bytes, one behind another, where it lies; IndexError for a row that is too short."""
    if numbers is None:
        return row
    count = row.numel() // PIECE_BYTES
    if numbers and numbers[-1] >= count:
        raise IndexError(f"{row.numel()} bytes have no piece {numbers[-1]}")
    pieces = row[: count * PIECE_BYTES].view(count, PIECE_BYTES)
    chosen = pieces.index_select(0, torch.tensor(numbers, dtype=torch.long, device=row.device))
    return torch.cat([chosen.reshape(-1), row[count * PIECE_BYTES :]])


def are_long(sizes_bytes: Iterable[int]) -> bool:
    """Whether there is any of which not the whole is asked for."""
    return any(size > WHOLE_UP_TO for size in sizes_bytes)
