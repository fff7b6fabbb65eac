"""Send tensors from an executor to the checker: small ones as bytes, large ones in files in memory.

    executor   reply, and the lengths of the rows        ──>  checker
    executor   <──  a file of that size per group, or none    checker
    executor   writes and seals the files; "sealed"      ──>  checker maps them, if the kernel confirms the seals

The checker makes the files, fixes their size before it lends them, and accepts no file that another process made. It
does not believe "sealed": it refuses a file whose contents could still change, and reads no byte before that check. So
no page can change or vanish later. An executor sends bytes instead where there are no such files, where it cannot seal
them, or where its answer is far larger than the right one; that answer then uses the executor's memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import torch

from triton_agent.tools.processes import memory_files
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.payloads import LARGE_BYTES
from triton_agent.tools.processes.protocol import Deliver, Delivered
from triton_agent.tools.processes.wire import BLOB_LIMIT_BYTES, BLOBS_AT_MOST, FDS_AT_MOST, Channel, ChannelGarbled

Groups = Sequence[Sequence[torch.Tensor]]
"""Rows of bytes. The rows of a group travel in one file, and stay in memory together."""

WAITING = "waiting"
"""Key beside the fields of a reply: the lengths of its rows, which wait for files."""
ALIGNMENT = 64
"""Alignment of each row in a file: enough for any dtype, and that of torch's own memory."""
LENT_BYTES = 16 << 20
"""Size of files that any executor is lent, however small the expected answer."""
STAGE_BYTES = 16 << 20
"""Size of the pieces in which an answer leaves a GPU."""
ROOM = 2
"""Factor on the expected size: an answer of a wrong dtype or shape may be this much larger."""


# -- in the executor -----------------------------------------------------------------------------------------------


def hand_over(channel: Channel, reply: object, groups: Groups) -> None:
    """Send the reply, and the rows in the way that suits their size."""
    rows, plain = [row for group in groups for row in group], to_plain(reply)
    if sum(row.numel() for row in rows) < LARGE_BYTES:
        channel.send(plain, [_bytes_of(row) for row in rows])
        return
    channel.send({**plain, WAITING: [[row.numel() for row in group] for group in groups]})
    _, _, files = channel.receive_with_fds()
    filled = [group for group in groups if _size([row.numel() for row in group])]
    sealed = len(files) == len(filled)
    try:
        if sealed:
            for file, group in zip(files, filled):
                _write(file, group)
                memory_files.freeze(file)
    except (OSError, RuntimeError):  # no memory, or a limit of the sandbox
        sealed = False
    finally:
        _close(files)
    channel.send(to_plain(Delivered(sealed=sealed)), [] if sealed else [_bytes_of(row) for row in rows])


def _bytes_of(row: torch.Tensor) -> memoryview:
    values: Any = row.cpu().numpy()
    return memoryview(values)


def _write(file: int, group: Sequence[torch.Tensor]) -> None:
    """Write rows by system calls, from a GPU in pieces.

    Pages that a process touches for the first time cost more than their bytes: on an H200's host, 64 MiB take 19 ms
    this way, and 40 ms through a mapping of the file.
    """
    for offset, row in zip(_offsets([row.numel() for row in group]), group):
        if row.device.type == "cpu":
            memory_files.write(file, _bytes_of(row), offset)
            continue
        for start in range(0, row.numel(), STAGE_BYTES):
            piece = row[start : start + STAGE_BYTES]
            memory_files.write(file, _bytes_of(_stage()[: piece.numel()].copy_(piece)), offset + start)


@functools.cache
def _stage() -> torch.Tensor:
    """Return memory on the host that is kept for all transfers."""
    return torch.empty(STAGE_BYTES, dtype=torch.uint8)


# -- in the checker ------------------------------------------------------------------------------------------------


def collect(
    channel: Channel, plain: dict[str, Any], blobs: list[bytearray], *, expected_bytes: int, timeout_s: float
) -> list[torch.Tensor]:
    """Return the rows that belong to a reply; raise ChannelGarbled for rows that could still change, or do not fit."""
    if WAITING not in plain:
        return [_row(blob) for blob in blobs]
    groups = _checked(plain.pop(WAITING))
    sizes = [_size(group) for group in groups if _size(group)]
    files: list[int] = []
    try:
        if sum(sizes) <= max(LENT_BYTES, ROOM * expected_bytes):
            try:
                for size in sizes:
                    files.append(memory_files.create("answer"))
                    memory_files.reserve(files[-1], size)
            except OSError:  # no such files here, or no room: lend none
                _close(files)
                files.clear()
        channel.send(to_plain(Deliver()), fds=tuple(files))
        done, blobs = channel.receive(timeout_s)
        delivered: Delivered = from_plain(Delivered, done)
        return _read(files, groups) if delivered.sealed else [_row(blob) for blob in blobs]
    finally:
        _close(files)


def _row(blob: bytearray) -> torch.Tensor:
    return torch.frombuffer(blob, dtype=torch.uint8) if blob else torch.empty(0, dtype=torch.uint8)


def _checked(waiting: Any) -> list[list[int]]:
    """Return the lengths that an executor claims, if they are possible."""
    if not isinstance(waiting, list) or len(waiting) > FDS_AT_MOST or any(type(group) is not list for group in waiting):
        raise ChannelGarbled("no list of lengths")
    lengths = list(itertools.chain(*waiting))
    if len(lengths) > BLOBS_AT_MOST or any(type(length) is not int or length < 0 for length in lengths):
        raise ChannelGarbled("not lengths")
    if sum(lengths) > BLOB_LIMIT_BYTES:
        raise ChannelGarbled("an answer larger than any that is sent")
    return waiting


def _read(files: list[int], groups: list[list[int]]) -> list[torch.Tensor]:
    """Return views of private mappings; the files live as long as the views."""
    rows: list[torch.Tensor] = []
    left = iter(files)
    for group in groups:
        whole = torch.empty(0, dtype=torch.uint8)
        if size := _size(group):
            file = next(left, None)
            if file is None:
                raise ChannelGarbled("an answer in a file that was never lent")
            if not memory_files.is_frozen(file, size):
                raise ChannelGarbled("an answer in a file that is not sealed")
            whole = memory_files.mapped(file, size)
        rows += [whole[offset : offset + length] for offset, length in zip(_offsets(group), group)]
    return rows


# -- on both sides -------------------------------------------------------------------------------------------------


def _offsets(lengths: Sequence[int]) -> list[int]:
    """Return where each row begins in its file."""
    return [0, *itertools.accumulate(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)][: len(lengths)]


def _size(lengths: Sequence[int]) -> int:
    return sum(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)


def _close(files: list[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)
