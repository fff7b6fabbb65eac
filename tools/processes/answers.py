"""Sends tensors from an executor to the checker: small ones as bytes, large ones in memory that the checker lends.

    executor   sends the reply, and the lengths of the rows       ──>  checker
    executor   <──  lends memory of that size per group, or none       checker
    executor   writes the rows and reports it, or asks for another kind of memory ──> checker reads them

The checker allocates the memory, fixes its size before it lends it, and accepts none that another process made. An
answer on a GPU stays there: the executor copies it into memory of the card (`card_files.py`), and no kernel of the
candidate runs until the next request. Otherwise the answer goes into in-memory files. The checker does not trust the
executor to seal them: it refuses a file whose contents could still change, and reads nothing before that check, so no
page can change or vanish later. An executor sends bytes if no memory is lent, or if its answer is far larger than the
correct one; that answer then uses the executor's memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.processes import card_files, memory_files
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.payloads import LARGE_BYTES
from triton_agent.tools.processes.protocol import Deliver, Delivered
from triton_agent.tools.processes.wire import BLOB_LIMIT_BYTES, BLOBS_AT_MOST, FDS_AT_MOST, Channel, ChannelGarbled

Groups = Sequence[Sequence[torch.Tensor]]
"""Rows of bytes. The rows of a group share one file, and later one piece of memory."""

WAITING, ON_GPU = "waiting", "on_gpu"
"""Keys added to a reply: the lengths of its rows, which wait for memory, and whether they are on a GPU."""
ALIGNMENT = 64
"""Alignment of each row in a file: enough for any dtype, and that of torch's own memory."""
LENT_BYTES = 16 << 20
"""Size up to which files are lent to any executor, however small the expected answer."""
STAGE_BYTES = 16 << 20
"""Size of the pieces in which an answer is copied from a GPU."""
CARD_BYTES = 32 << 20
"""An answer of at least this size stays on the GPU."""
MOMENT_S = 0.05
"""Least time for an executor to answer, even if its call used up the time limit."""
ROOM = 2
"""Factor on the expected size: an answer with a wrong dtype or shape may be this much larger."""


# -- in the executor -----------------------------------------------------------------------------------------------


def hand_over(channel: Channel, reply: object, groups: Groups) -> None:
    """Send the reply and its rows, in the way that suits their size."""
    rows, plain = [row for group in groups for row in group], to_plain(reply)
    if sum(row.numel() for row in rows) < LARGE_BYTES:
        channel.send(plain, [_bytes_of(row) for row in rows])
        return
    on_gpu = all(row.device.type == "cuda" for row in rows)
    channel.send({**plain, WAITING: [[row.numel() for row in group] for group in groups], ON_GPU: on_gpu})
    filled = [group for group in groups if _size([row.numel() for row in group])]
    while True:
        request, _, files = channel.receive_with_fds()
        deliver: Deliver = from_plain(Deliver, request)
        if not files:
            channel.send(to_plain(Delivered(written=False)), [_bytes_of(row) for row in rows])
            return
        try:
            for file, group in zip(files, filled, strict=True):
                (_write_on_card if deliver.on_card else _write)(file, group)
            written = True
        except (OSError, RuntimeError):  # insufficient memory, or a limit of the sandbox
            written = False
        finally:
            _close(files)
        channel.send(to_plain(Delivered(written=written)))
        if written:
            return


def _bytes_of(row: torch.Tensor) -> memoryview:
    values: Any = row.cpu().numpy()
    return memoryview(values)


def _write_on_card(file: int, group: Sequence[torch.Tensor]) -> None:
    lengths = [row.numel() for row in group]
    lent = card_files.borrowed(file, _size(lengths))
    for offset, row in zip(_offsets(lengths), group):
        lent[offset : offset + row.numel()].copy_(row)
    torch.cuda.synchronize()


def _write(file: int, group: Sequence[torch.Tensor]) -> None:
    """Write rows with system calls, from a GPU in pieces, and seal the file.

    Touching new pages is slower than copying: on an H200's host 64 MiB take 19 ms this way, and 40 ms through a
    mapping of the file.
    """
    for offset, row in zip(_offsets([row.numel() for row in group]), group):
        if row.device.type == "cpu":
            memory_files.write(file, _bytes_of(row), offset)
            continue
        for start in range(0, row.numel(), STAGE_BYTES):
            piece = row[start : start + STAGE_BYTES]
            memory_files.write(file, _bytes_of(_stage()[: piece.numel()].copy_(piece)), offset + start)
    memory_files.freeze(file)


@functools.cache
def _stage() -> torch.Tensor:
    """Return a host buffer that is reused for all transfers."""
    return torch.empty(STAGE_BYTES, dtype=torch.uint8)


# -- in the checker ------------------------------------------------------------------------------------------------


def collect(
    channel: Channel, plain: dict[str, Any], blobs: list[bytearray], *, expected_bytes: int, timeout_s: float
) -> list[torch.Tensor]:
    """Return the rows of a reply; raise ChannelGarbled for rows that do not fit, or that could still change."""
    if WAITING not in plain:
        return [_row(blob) for blob in blobs]
    on_gpu = plain.pop(ON_GPU, False) is True and torch.cuda.is_available()
    groups = _checked(plain.pop(WAITING))
    sizes = [_size(group) for group in groups if _size(group)]
    ways: tuple[bool, ...] = ()
    if sum(sizes) <= max(LENT_BYTES, ROOM * expected_bytes):
        ways = (True, False) if on_gpu and sum(sizes) >= CARD_BYTES else (False,)
    deadline = time.monotonic() + timeout_s
    for on_card in ways:
        try:
            files, lent = _lend(sizes, on_card=on_card)
        except OSError:  # no such memory on this machine, or not enough
            continue
        try:
            channel.send(to_plain(Deliver(on_card=on_card)), fds=tuple(files))
            done, _ = channel.receive(max(MOMENT_S, deadline - time.monotonic()))
            delivered: Delivered = from_plain(Delivered, done)
            if delivered.written:
                return _rows(groups, lent or _mapped(files, sizes))
        finally:
            _close(files)
    channel.send(to_plain(Deliver()))
    done, blobs = channel.receive(max(MOMENT_S, deadline - time.monotonic()))
    if from_plain(Delivered, done).written:
        raise ChannelGarbled("an answer in memory that was never lent")
    return [_row(blob) for blob in blobs]


def _lend(sizes: list[int], *, on_card: bool) -> tuple[list[int], list[torch.Tensor]]:
    """Allocate memory; return its descriptors, and the memory itself if it is on the card."""
    files: list[int] = []
    lent: list[torch.Tensor] = []
    try:
        for size in sizes:
            if on_card:
                file, memory = _card_memory(size)
                files.append(file)
                lent.append(memory)
            else:
                files.append(memory_files.create("answer"))
                memory_files.reserve(files[-1], size)
    except OSError:
        _close(files)
        raise
    return files, lent


def _card_memory(size_bytes: int) -> tuple[int, torch.Tensor]:
    """Return memory of the card, freeing torch's cached memory if necessary."""
    try:
        return card_files.create(size_bytes)
    except OSError:
        with contextlib.suppress(RuntimeError):  # refused while another thread records a graph
            torch.cuda.empty_cache()
        return card_files.create(size_bytes)


def _mapped(files: list[int], sizes: list[int]) -> list[torch.Tensor]:
    """Return private mappings of the files, which must be sealed."""
    if not all(memory_files.is_frozen(file, size) for file, size in zip(files, sizes)):
        raise ChannelGarbled("an answer in a file that is not sealed")
    return [memory_files.mapped(file, size) for file, size in zip(files, sizes)]


def _rows(groups: list[list[int]], memories: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the rows of each group as views of its memory, which lives as long as they do."""
    rows: list[torch.Tensor] = []
    left = iter(memories)
    for group in groups:
        whole = next(left) if _size(group) else torch.empty(0, dtype=torch.uint8)
        rows += [whole[offset : offset + length] for offset, length in zip(_offsets(group), group)]
    return rows


def _row(blob: bytearray) -> torch.Tensor:
    return torch.frombuffer(blob, dtype=torch.uint8) if blob else torch.empty(0, dtype=torch.uint8)


def _checked(waiting: Any) -> list[list[int]]:
    """Return the lengths that an executor claims; raise ChannelGarbled if they are impossible."""
    if not isinstance(waiting, list) or len(waiting) > FDS_AT_MOST or any(type(group) is not list for group in waiting):
        raise ChannelGarbled("not a list of lengths")
    lengths = list(itertools.chain(*waiting))
    if len(lengths) > BLOBS_AT_MOST or any(type(length) is not int or length < 0 for length in lengths):
        raise ChannelGarbled("not lengths")
    if sum(lengths) > BLOB_LIMIT_BYTES:
        raise ChannelGarbled("an answer larger than any that is sent")
    return waiting


# -- on both sides -------------------------------------------------------------------------------------------------


def _offsets(lengths: Sequence[int]) -> list[int]:
    """Return the offset of each row in its file."""
    return [0, *itertools.accumulate(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)][: len(lengths)]


def _size(lengths: Sequence[int]) -> int:
    return sum(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)


def _close(files: list[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)
