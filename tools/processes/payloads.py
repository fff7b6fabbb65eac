"""Values that the checker sends, mostly inputs and parameters: packed once, unpacked by each process that gets them.

Small values are sent as bytes. Large ones are in a sealed in-memory file, which is passed on as a descriptor. The
receiver's tensors are views of a private mapping: nothing is copied until a kernel writes, and no other process sees
its writes. Both forms are written by `torch.save`, so strides and sharing survive.

Unpacking can run code, so only the trusted side packs. Answers of executors use another form (`answers.py`).
"""

from __future__ import annotations

import contextlib
import io
import os
import weakref
from collections.abc import Callable, Iterable
from typing import IO, Any, cast

import torch
from torch.utils.serialization import config as serialization_config

from triton_agent.tools.processes import memory_files
from triton_agent.tools.processes.codec import from_plain, to_plain
from triton_agent.tools.processes.staged_copies import STAGED_BYTES, StandIns, to_gpu, write_from_gpu
from triton_agent.tools.processes.wire import Channel

LARGE_BYTES = 256 << 10
"""From this size on, an in-memory file is faster."""


class Payload:
    """Packed values. The file, if there is one, is closed together with the last reference."""

    __slots__ = ("__weakref__", "_closing", "_made_ns", "data", "file")

    def __init__(self, data: bytes | bytearray = b"", file: int | None = None) -> None:
        self.data = data
        self.file = file
        """Descriptor of the file that holds the values; None if `data` does."""
        self._closing = None if file is None else weakref.finalize(self, os.close, file)
        self._made_ns = 0 if file is None else os.fstat(file).st_ctime_ns

    @property
    def size_bytes(self) -> int:
        return len(self.data) if self.file is None else os.fstat(self.file).st_size

    def identity(self) -> tuple[int, int, int]:
        """Return device, inode and size of the file, by which the watchdog recognises its pages."""
        assert self.file is not None
        state = os.fstat(self.file)
        return state.st_dev, state.st_ino, state.st_size

    def unpack(self, device: str | None = None) -> Any:
        """Return the values in new memory, on `device` or else on the device where they were packed."""
        path = f"/proc/self/fd/{self.file}"
        if self.file is not None and os.access(path, os.R_OK):
            where = to_gpu if device == "cuda" else device
            return torch.load(path, mmap=True, map_location=where, weights_only=False)
        data = self.data if self.file is None else memory_files.read(self.file)
        return torch.load(io.BytesIO(data), map_location=device, weights_only=False)

    def withdraw_if_touched(self) -> None:
        """Replace the file by bytes if a process changed its mode, times or attributes, which seals do not prevent."""
        file = self.file
        if file is not None and os.fstat(file).st_ctime_ns != self._made_ns:
            self.data = memory_files.read(file)
            self.file = None  # the descriptor is closed later, since another thread may be sending it now

    def close(self) -> None:
        """Close the file; unpacked values stay valid."""
        if self._closing is not None:
            self._closing()


class _FastPacking:
    """Settings for faster packing. torch keeps them per thread, so they are applied before each packing."""

    checksums = True
    pinned = False

    @classmethod
    def settle(cls) -> None:
        saving: Any = serialization_config.save
        saving.use_pinned_memory_for_d2h = cls.pinned
        torch.serialization.set_crc32_options(cls.checksums)


def pack_quickly() -> None:
    """Speed up packing in a process that packs often.

    Checksums take a third of the time and are never read, so they are left out. Tensors of a GPU are copied through
    pinned memory that is kept, a few times the largest tensor; the largest ones in pieces (`staged_copies.py`).
    """
    _FastPacking.checksums, _FastPacking.pinned = False, True


Aside = Callable[[], contextlib.AbstractContextManager[None]]
"""Gives the GPU to other processes during a block."""


def pack(value: Any, aside: Aside = contextlib.nullcontext) -> Payload:
    """Pack trusted values. `aside` is entered to write gigabytes, which takes longer than copying them from a GPU."""
    _FastPacking.settle()
    try:
        stand_ins = StandIns()
        light = value if _FastPacking.checksums else stand_ins.put_into(value)  # a checksum would read all memory
        spool = _Spool(aside, stand_ins)
        with stand_ins.located():
            torch.save(light, cast(IO[bytes], spool))
        return spool.payload()
    except (OSError, RuntimeError):  # no in-memory files, or not enough memory; torch re-raises errors of the writer
        _FastPacking.pinned = False  # pinned memory may be unavailable or exhausted
        _FastPacking.settle()
        buffer = io.BytesIO()
        torch.save(value, buffer)
        return Payload(buffer.getvalue())


class _Spool(io.RawIOBase):
    """A file for `torch.save` to write to: a buffer first, an in-memory file once it is large."""

    def __init__(self, aside: Aside, stand_ins: StandIns) -> None:
        self._aside = aside
        self._stand_ins = stand_ins
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
        source = self._stand_ins.source(view) if view.nbytes >= STAGED_BYTES else None
        with self._aside() if view.nbytes >= STAGED_BYTES else contextlib.nullcontext():
            if source is None:
                memory_files.write(self._large.file, view, offset)
            else:  # allocating takes most of the time
                os.posix_fallocate(self._large.file, offset, view.nbytes)
        if source is not None:
            write_from_gpu(self._large.file, offset, source)

    def payload(self) -> Payload:
        if self._large is None:
            return Payload(bytes(self._buffer))
        assert self._large.file is not None
        memory_files.freeze(self._large.file)
        return Payload(file=os.dup(self._large.file))  # a new object, which records the file's state after sealing


AS_FILES = "as_files"
"""Key added to a request: which of its payloads are sent as files."""


def send_request(channel: Channel, request: object, payloads: Iterable[Payload] = ()) -> None:
    """Send a request with its payloads, some as bytes and some as files."""
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
    channel.send({**to_plain(request), AS_FILES: as_files}, inline, tuple(files))


def receive_request(channel: Channel, kind: Any) -> tuple[Any, list[Payload]]:
    """Wait for a request of this kind; return it with its payloads, whose files the caller owns."""
    plain, blobs, files = channel.receive_with_fds()
    inline, mapped = iter(blobs), iter(files)
    as_files = plain.pop(AS_FILES)
    payloads = [Payload(file=next(mapped)) if is_file else Payload(next(inline)) for is_file in as_files]
    return from_plain(kind, plain), payloads
