"""Tensors on their way from a worker back to the checker: small ones as bytes, large ones in files in memory.

    worker   reply, and how many bytes wait         ──>  checker
    worker   <──  files of just that size, or none       checker
    worker   writes and seals them; "sealed"        ──>  checker maps them, if the kernel says so, too

The files are the checker's: it makes them, fixes their size before it lends them, and accepts nothing that a worker
made. What the worker says of them is not believed: a file that could still be written to is refused. No byte is read
before that, and no page can go missing afterwards. A worker that cannot seal sends bytes instead, as one does where
there are no such files; and so it has to where its answer is far larger than the right one, which then costs the
worker's memory and not the checker's.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate import memory_files
from triton_agent.tools.isolate.payloads import LARGE_BYTES
from triton_agent.tools.isolate.wire import BLOB_LIMIT_BYTES, BLOBS_AT_MOST, FDS_AT_MOST, Channel, ChannelGarbled

Groups = Sequence[Sequence[torch.Tensor]]
"""Rows of bytes; those of a group travel in one file, and stay in memory together."""

ALIGNMENT = 64
"""Of each row in a file: enough for any dtype, and what torch's own memory has."""
LENT_BYTES = 16 << 20
"""What is lent to any worker, however little is expected of it."""
STAGE_BYTES = 16 << 20
"""Of a large answer on its way from a GPU, at once."""
ROOM = 2
"""Times what is expected: a wrong dtype or a wrong shape may be this much larger."""


# -- in the worker -------------------------------------------------------------------------------------------------


def hand_over(channel: Channel, reply: dict[str, Any], groups: Groups) -> None:
    """Send the reply, and the rows in the way that suits their size."""
    rows = [row for group in groups for row in group]
    if sum(row.numel() for row in rows) < LARGE_BYTES:
        channel.send(reply, [_bytes_of(row) for row in rows])
        return
    channel.send({**reply, "waiting": [[row.numel() for row in group] for group in groups]})
    _, _, files = channel.receive_with_fds()
    try:
        sealed = _fill(files, [group for group in groups if _size([row.numel() for row in group])])
    finally:
        _close(files)
    channel.send({"sealed": sealed}, [] if sealed else [_bytes_of(row) for row in rows])


def _bytes_of(row: torch.Tensor) -> memoryview:
    values: Any = row.cpu().numpy()
    return memoryview(values)


def _fill(files: list[int], groups: Groups) -> bool:
    """Whether the rows are in the files, and these sealed."""
    if len(files) != len(groups):
        return False
    try:
        for file, group in zip(files, groups):
            _write(file, group)
            memory_files.freeze(file)
    except (OSError, RuntimeError):  # closed or sealed by the candidate, beyond a limit of its, or mapped elsewhere
        return False
    return True


def _write(file: int, group: Sequence[torch.Tensor]) -> None:
    """By system calls, from a GPU piece by piece: pages that are touched for the first time cost more than their bytes.

    64 MiB take 19 ms so on an H200's host, and 40 ms into a mapping of the file.
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
    """Memory on the host that stays."""
    return torch.empty(STAGE_BYTES, dtype=torch.uint8)


# -- in the checker ------------------------------------------------------------------------------------------------


def collect(
    channel: Channel, reply: dict[str, Any], blobs: list[bytearray], *, expected_bytes: int, timeout_s: float
) -> list[torch.Tensor]:
    """The rows that belong to a worker's reply; ChannelGarbled for any that could still change, or do not fit."""
    if "waiting" not in reply:
        return [_row(blob) for blob in blobs]
    groups = _checked(reply["waiting"])
    with _lent(groups, expected_bytes) as files:
        channel.send({"op": "deliver"}, fds=tuple(files))
        done, blobs = channel.receive(timeout_s)
        if not done.get("sealed"):
            return [_row(blob) for blob in blobs]
        rows = _read(files, groups)
    return rows


def _row(blob: bytearray) -> torch.Tensor:
    return torch.frombuffer(blob, dtype=torch.uint8) if blob else torch.empty(0, dtype=torch.uint8)


def _checked(waiting: Any) -> list[list[int]]:
    """The lengths that a worker claims, as far as they can be meant."""
    if not isinstance(waiting, list) or len(waiting) > FDS_AT_MOST or any(type(group) is not list for group in waiting):
        raise ChannelGarbled("no list of lengths")
    lengths = list(itertools.chain(*waiting))
    if len(lengths) > BLOBS_AT_MOST or any(type(length) is not int or length < 0 for length in lengths):
        raise ChannelGarbled("not lengths")
    if sum(lengths) > BLOB_LIMIT_BYTES:
        raise ChannelGarbled("an answer larger than any that is sent")
    return waiting


@contextlib.contextmanager
def _lent(groups: list[list[int]], expected_bytes: int) -> Iterator[list[int]]:
    """A file for each group that has any bytes; none at all for more bytes than could be right."""
    sizes = [_size(group) for group in groups if _size(group)]
    files: list[int] = []
    try:
        if sum(sizes) <= max(LENT_BYTES, ROOM * expected_bytes):
            with contextlib.suppress(OSError):  # no such files here, or no room
                _make(files, sizes)
        yield files if len(files) == len(sizes) else []
    finally:
        _close(files)


def _make(files: list[int], sizes: list[int]) -> None:
    for size in sizes:
        file = memory_files.create("answer")
        try:
            memory_files.reserve(file, size)
        except OSError:
            os.close(file)
            raise
        files.append(file)


def _read(files: list[int], groups: list[list[int]]) -> list[torch.Tensor]:
    """Views of private mappings; the files live as long as these."""
    rows: list[torch.Tensor] = []
    left = iter(files)
    for group in groups:
        size = _size(group)
        whole = _mapped_if_frozen(next(left, None), size) if size else torch.empty(0, dtype=torch.uint8)
        rows += [whole[offset : offset + length] for offset, length in zip(_offsets(group), group)]
    return rows


def _mapped_if_frozen(file: int | None, size_bytes: int) -> torch.Tensor:
    if file is None:
        raise ChannelGarbled("an answer in a file that was never lent")
    if not memory_files.is_frozen(file, size_bytes):
        raise ChannelGarbled("an answer in a file that is not sealed")
    return memory_files.mapped(file, size_bytes)


# -- on both sides -------------------------------------------------------------------------------------------------


def _offsets(lengths: Sequence[int]) -> list[int]:
    """Where each row begins in its file."""
    padded = [-(-length // ALIGNMENT) * ALIGNMENT for length in lengths]
    return [0, *itertools.accumulate(padded)][: len(lengths)]


def _size(lengths: Sequence[int]) -> int:
    return sum(-(-length // ALIGNMENT) * ALIGNMENT for length in lengths)


def _close(files: list[int]) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # in a worker, the candidate may have been quicker
            os.close(file)
