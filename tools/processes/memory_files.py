"""In-memory files without a name: written once, sealed, and mapped by each process that gets the descriptor.

The kernel enforces a seal: afterwards no process, the writer included, can change size or contents. A reader therefore
reads the same bytes every time, and no page of its mapping vanishes. Mappings are private: no process sees what another
one writes into its mapping. Needs Linux; `create` raises OSError if such files are not supported.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import fcntl
import mmap
import os

import torch

PIECE_BYTES = 32 << 20
THREADS = 4
NOT_EXECUTABLE = 0x8
"""MFD_NOEXEC_SEAL, which Python does not define. Linux before 6.3 refuses it, and some machines require it."""


def create(name: str) -> int:
    """Return the descriptor of an empty file that can be sealed; its name appears in lists of mappings."""
    make = getattr(os, "memfd_create", None)
    if make is None:
        raise OSError(errno.ENOSYS, "this system does not support in-memory files")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    with contextlib.suppress(OSError):
        return int(make(name, flags | NOT_EXECUTABLE))
    return int(make(name, flags))


def reserve(file: int, size_bytes: int) -> None:
    """Allocate all memory of an empty file and seal its size; its contents can still be written."""
    os.posix_fallocate(file, 0, size_bytes)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)


def freeze(file: int) -> None:
    """Seal size and contents; raise OSError while a process has the file mapped for writing."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def is_frozen(file: int, size_bytes: int) -> bool:
    """Return True if the file has this size, and size and contents are sealed."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    try:
        held = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError:  # not an in-memory file
        return False
    return held & seals == seals and os.fstat(file).st_size == size_bytes


def write(file: int, data: memoryview, offset: int) -> None:
    """Write at an offset. A large write mostly spends its time on new pages, so several threads write in parallel."""
    if data.nbytes <= PIECE_BYTES:
        _write_piece(file, data, offset)
        return
    starts = range(0, data.nbytes, PIECE_BYTES)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(lambda at: _write_piece(file, data[at : at + PIECE_BYTES], offset + at), starts):
            pass


def _write_piece(file: int, data: memoryview, offset: int) -> None:
    while data.nbytes:
        count = os.pwrite(file, data, offset)
        data, offset = data[count:], offset + count


def read(file: int) -> bytearray:
    data = bytearray(os.fstat(file).st_size)
    left, offset = memoryview(data), 0
    while left.nbytes and (count := os.preadv(file, [left], offset)):
        left, offset = left[count:], offset + count
    return data


def mapped(file: int, size_bytes: int) -> torch.Tensor:
    """Map the file as a row of bytes. The mapping has its own descriptor; the caller may close this one.

    The file is mapped by descriptor, not by path: another process that holds the file could change the path's mode.
    """
    memory = mmap.mmap(file, size_bytes, flags=mmap.MAP_PRIVATE)
    return torch.frombuffer(memory, dtype=torch.uint8)
