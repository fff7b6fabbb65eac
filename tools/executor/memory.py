"""Fresh memory for tapes, filled with values that cannot pass for an answer, and with guards at both ends.

The fill exposes a kernel that leaves part of its output unwritten; the guards expose one that writes outside its
buffers. Neither is used during timing.
"""

from __future__ import annotations

import dataclasses

import torch

POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float64: (torch.int64, 0x7FF8DEADDEADDEAD),
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.int64: (torch.int64, 0x0DEADBEEF0DEAD01),
    torch.int32: (torch.int32, 0x0DEADBEE),
    torch.int16: (torch.int16, 0x0DEA),
}
"""Fill values by dtype: NaNs with a payload that no arithmetic produces, and integers unlikely in tests. Each is given
with an integer dtype of the same size."""
POISON_BYTES = (0x65, 0x9A)
"""Fill values for types of one byte. Any byte may be correct, but an answer cannot equal both."""
GUARD_BYTES = 4096
"""Size of the guard on either side of fresh memory while answers are checked; a multiple of every alignment."""
GUARD = 0xA5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """How fresh memory is allocated."""

    device: str
    salt: int | None = None
    """Selects the fill value for types of one byte; None leaves memory unfilled."""
    guarded: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class Block:
    """Memory of one buffer."""

    storage: torch.UntypedStorage
    start_bytes: int = 0
    """Start of the buffer in the storage, after the guard."""
    size_bytes: int = 0

    def tensor(self, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> torch.Tensor:
        """Return a tensor as a view of the buffer."""
        made = torch.empty(0, dtype=dtype, device=self.storage.device)
        return made.set_(self.storage, offset + self.start_bytes // dtype.itemsize, shape, strides)

    def guards_hold(self) -> torch.Tensor:
        """Return, as a tensor, whether the guards are intact; does not wait for the GPU."""
        if not self.start_bytes:
            return torch.ones((), dtype=torch.bool, device=self.storage.device)
        row = torch.empty(0, dtype=torch.uint8, device=self.storage.device).set_(self.storage)
        before, after = row[: self.start_bytes], row[self.start_bytes + self.size_bytes :]
        return (before == GUARD).all() & (after == GUARD).all()


def make_block(size_bytes: int, dtype: torch.dtype, fresh: Fresh) -> Block:
    """Allocate memory for a buffer whose values mostly have this dtype."""
    padded = -(-max(size_bytes, 1) // 16) * 16
    guard = GUARD_BYTES if fresh.guarded else 0
    row = torch.empty(padded + 2 * guard, dtype=torch.uint8, device=fresh.device)
    if guard:
        row[:guard].fill_(GUARD)
        row[guard + size_bytes :].fill_(GUARD)
    if fresh.salt is not None:
        whole = size_bytes - size_bytes % dtype.itemsize
        poison(row[guard : guard + whole].view(dtype), fresh.salt)
    return Block(storage=row.untyped_storage(), start_bytes=guard, size_bytes=size_bytes)


def poison(tensor: torch.Tensor, salt: int) -> None:
    """Fill with values that cannot pass for an answer; types of one byte get a value that depends on `salt`."""
    if tensor.numel() == 0:
        return
    pattern = POISON.get(tensor.dtype)
    if pattern is not None:
        tensor.view(pattern[0]).fill_(pattern[1])
    elif tensor.is_complex():
        poison(torch.view_as_real(tensor), salt)
    else:
        tensor.view(torch.uint8).fill_(POISON_BYTES[salt % 2] & (1 if tensor.dtype is torch.bool else 0xFF))


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Return which elements still hold the fill value of fresh memory; none if it is not `told_from_answers`."""
    if tensor.is_complex():
        return poisoned(torch.view_as_real(tensor)).all(-1)
    pattern = POISON.get(tensor.dtype)
    if pattern is None or tensor.numel() == 0:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    as_type, value = pattern
    return tensor.view(as_type) == value


def told_from_answers(dtype: torch.dtype) -> bool:
    """Return True if no answer of this dtype can equal the fill value of fresh memory."""
    return dtype in POISON or dtype.is_complex
