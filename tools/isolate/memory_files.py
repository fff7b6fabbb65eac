"""Files in memory without a name: written once, sealed, and mapped by whoever is handed the descriptor.

A seal is kept by the kernel. From then on nobody, the writer included, changes size or contents: a reader is neither
shown other bytes at a second look nor ended by a page that has gone. Mappings are private: what a process writes into
its own, nobody else sees. Needs Linux; where such a file cannot be made, `create` raises OSError, and what would have
travelled in it has to travel in another way.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os

import torch

NOT_EXECUTABLE = 0x8
"""MFD_NOEXEC_SEAL, which Python does not name; before Linux 6.3 it is refused, and on some machines required."""


def create(name: str) -> int:
    """The descriptor of an empty file that can be sealed; the name is for people who look at a process's mappings."""
    make = getattr(os, "memfd_create", None)
    if make is None:
        raise OSError(errno.ENOSYS, "this system has no files in memory")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    with contextlib.suppress(OSError):
        return int(make(name, flags | NOT_EXECUTABLE))
    return int(make(name, flags))


def reserve(file: int, size_bytes: int) -> None:
    """Give an empty file its size for good, with all of its memory; its contents stay open to be written."""
    os.posix_fallocate(file, 0, size_bytes)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)


def freeze(file: int) -> None:
    """Seal size and contents; OSError while anybody has it mapped for writing."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)


def is_frozen(file: int, size_bytes: int) -> bool:
    """Whether the kernel holds it to this size and to the contents it has."""
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    try:
        held = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    except OSError:  # not a file in memory at all
        return False
    return held & seals == seals and os.fstat(file).st_size == size_bytes


def write(file: int, data: memoryview, offset: int) -> None:
    """All of it."""
    while data.nbytes:
        count = os.pwrite(file, data, offset)
        data, offset = data[count:], offset + count


def read(file: int) -> bytearray:
    """All of it, copied."""
    data = bytearray(os.fstat(file).st_size)
    left, offset = memoryview(data), 0
    while left.nbytes and (count := os.preadv(file, [left], offset)):
        left, offset = left[count:], offset + count
    return data


def mapped(file: int, size_bytes: int) -> torch.Tensor:
    """The file as a row of bytes. It lives as long as the tensor, with a descriptor of its own; this one may be closed.

    By the descriptor and not by a path, whose mode whoever else holds the file could change.
    """
    memory = mmap.mmap(file, size_bytes, flags=mmap.MAP_PRIVATE)
    return torch.frombuffer(memory, dtype=torch.uint8)
