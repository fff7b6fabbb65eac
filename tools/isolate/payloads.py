"""What the checker sends to workers, inputs and parameters mostly: packed once, unpacked by every worker it goes to.

Small values travel as bytes. Large ones lie in a sealed file in memory that is handed on as a descriptor, and a
worker's tensors are views of its own private mapping: nothing is copied until somebody writes, and what a candidate
writes to its inputs nobody else sees. Either way they are what `torch.save` makes, so strides and sharing survive.

Unpacking runs what was packed: only the trusted side packs. What comes from a worker has another form (`answers.py`).
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import IO, Any, cast

import torch
from torch.utils.serialization import config as serialization_config

from triton_agent.tools.isolate import memory_files

LARGE_BYTES = 256 << 10
"""From here on a file in memory is the faster way."""


class Payload:
    """Packed values. The file, where there is one, is closed with the last reference."""

    __slots__ = ("__weakref__", "_closing", "_made_ns", "data", "file")

    def __init__(self, data: bytes | bytearray = b"", file: int | None = None) -> None:
        self.data = data
        self.file = file
        """Descriptor of the file that holds them instead."""
        self._closing = None if file is None else weakref.finalize(self, os.close, file)
        self._made_ns = 0 if file is None else os.fstat(file).st_ctime_ns

    @property
    def size_bytes(self) -> int:
        return len(self.data) if self.file is None else os.fstat(self.file).st_size

    def identity(self) -> tuple[int, int, int]:
        """Device, number and size of the file, by which others know whose pages they see."""
        assert self.file is not None
        state = os.fstat(self.file)
        return state.st_dev, state.st_ino, state.st_size

    def unpack(self, device: str | None = None) -> Any:
        """The values, in memory of the caller's own; their tensors on `device`, or else where they were packed."""
        path = f"/proc/self/fd/{self.file}"
        if self.file is not None and os.access(path, os.R_OK):
            return torch.load(path, mmap=True, map_location=device, weights_only=False)
        data = self.data if self.file is None else memory_files.read(self.file)
        return torch.load(io.BytesIO(data), map_location=device, weights_only=False)

    def withdraw_if_touched(self) -> None:
        """Give the file up for bytes once somebody has marked it: seals do not cover mode, times and attributes."""
        file = self.file
        if file is not None and os.fstat(file).st_ctime_ns != self._made_ns:
            self.data = memory_files.read(file)
            self.file = None  # and closed later: others may be sending it right now

    def close(self) -> None:
        """Let go of the file; what was unpacked stays."""
        if self._closing is not None:
            self._closing()


class _Haste:
    """How this process packs. Torch keeps such settings for each thread by itself."""

    checksums = True
    pinned = False

    @classmethod
    def settle(cls) -> None:
        """In this thread."""
        saving: Any = serialization_config.save
        saving.use_pinned_memory_for_d2h = cls.pinned
        torch.serialization.set_crc32_options(cls.checksums)


def pack_quickly() -> None:
    """For a process that packs much: without checksums, which are a third of the time and nobody looks at, and from a
    GPU by memory that stays pinned (256 MiB in 90 ms, 260 where it is touched first), a few times the largest tensor.
    """
    _Haste.checksums, _Haste.pinned = False, True


def pack(value: Any) -> Payload:
    """Values of ours for processes of ours."""
    _Haste.settle()
    try:
        spool = _Spool()
        torch.save(value, cast(IO[bytes], spool))
        return spool.payload()
    except (OSError, RuntimeError):  # no such files here, or no room for one; torch passes on what a writer raises
        _Haste.pinned = False  # there may be no such memory, or no more
        _Haste.settle()
        buffer = io.BytesIO()
        torch.save(value, buffer)
        return Payload(buffer.getvalue())


class _Spool(io.RawIOBase):
    """What `torch.save` writes to: a buffer, and a file in memory once it has grown large."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._large: Payload | None = None
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if self._large is None and self._written + view.nbytes < LARGE_BYTES:
            self._buffer += view
        else:
            self._append(view)
        self._written += view.nbytes
        return view.nbytes

    def _append(self, view: memoryview) -> None:
        if self._large is None:
            self._large = Payload(file=memory_files.create("payload"))
            self._append_at(memoryview(self._buffer), 0)
        self._append_at(view, self._written)

    def _append_at(self, view: memoryview, offset: int) -> None:
        assert self._large is not None and self._large.file is not None
        memory_files.write(self._large.file, view, offset)

    def payload(self) -> Payload:
        if self._large is None:
            return Payload(bytes(self._buffer))
        assert self._large.file is not None
        memory_files.freeze(self._large.file)
        return Payload(file=os.dup(self._large.file))  # made anew, so that it knows the state it was left in


def announced(payloads: Iterable[Payload]) -> tuple[dict[str, Any], list[bytes | bytearray | memoryview], list[int]]:
    """Payloads as parts of a message: which of them are files, the bytes of the others, and the files."""
    inline: list[bytes | bytearray | memoryview] = []
    files: list[int] = []
    as_files = []
    for payload in payloads:
        payload.withdraw_if_touched()
        file = payload.file
        as_files.append(file is not None)
        if file is None:
            inline.append(payload.data)
        else:
            files.append(file)
    return {"as_files": as_files}, inline, files


def received(message: Mapping[str, Any], blobs: Iterable[bytes | bytearray], files: Iterable[int]) -> list[Payload]:
    """The same payloads on the other side, which now owns the descriptors."""
    inline, mapped = iter(blobs), iter(files)
    return [Payload(file=next(mapped)) if is_file else Payload(next(inline)) for is_file in message["as_files"]]
