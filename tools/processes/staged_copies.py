"""Moves gigabytes by several threads: between a GPU and in-memory files, through pinned memory.

The driver's own copy from or to other memory is that of one thread. torch would also pin as much memory as it copies,
which takes seconds.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import mmap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_map_only

STAGED_BYTES, PIECE_BYTES, THREADS = 128 << 20, 8 << 20, 4
"""Size of the smallest storage that is copied like this, size of a piece, and number of threads."""


class StandIns:
    """Empty memory of the host that takes the place of large storages of a GPU, in a value that is written to a file.

    Where it would be written, `write_from_gpu` copies the `source` instead. The memory itself is never touched.
    """

    def __init__(self) -> None:
        self._places: dict[int, torch.UntypedStorage] = {}
        """Memory of the host, by the address on the GPU."""
        self._sources: dict[int, torch.Tensor] = {}
        """Bytes on the GPU, by the address of that memory."""

    def put_into(self, value: Any) -> Any:
        """Return the value with tensors of the host in place of large ones on the GPU."""
        return tree_map_only(torch.Tensor, self._for_tensor, value)

    def _for_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        is_plain = type(tensor) is torch.Tensor and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
        if not is_plain or not is_on_gpu(tensor) or tensor.untyped_storage().nbytes() < STAGED_BYTES:
            return tensor
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._places:
            place = torch.frombuffer(mmap.mmap(-1, storage.nbytes()), dtype=torch.uint8).untyped_storage()
            self._places[storage.data_ptr()] = place
            self._sources[place.data_ptr()] = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        place = self._places[storage.data_ptr()]
        return torch.empty(0, dtype=tensor.dtype).set_(place, tensor.storage_offset(), tensor.size(), tensor.stride())

    def location(self, storage: Any) -> str | None:
        """Return the device that a storage stands in for; None for other storages."""
        source = self._sources.get(storage.data_ptr())
        return None if source is None else str(source.device)

    def source(self, data: memoryview) -> torch.Tensor | None:
        """Return the bytes on the GPU that this memory stands in for; None if it is other memory."""
        return self._sources.get(numpy.frombuffer(data, numpy.uint8).ctypes.data) if self._sources else None

    @contextlib.contextmanager
    def located(self) -> Iterator[None]:
        """Let torch record the GPU as the place of these storages, while this thread saves them."""
        _saving.stand_ins = self
        try:
            yield
        finally:
            _saving.stand_ins = None


_saving = threading.local()


def _location(storage: Any) -> str | None:
    stand_ins: StandIns | None = getattr(_saving, "stand_ins", None)
    return None if stand_ins is None else stand_ins.location(storage)


torch.serialization.register_package(0, _location, lambda storage, location: None)


def is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda


def touch(memory: mmap.mmap) -> None:
    """Have all pages of new memory mapped, which takes one thread seconds for gigabytes."""
    data = numpy.frombuffer(memory, numpy.uint8)
    share = -(-data.size // THREADS)
    _in_threads(lambda number: data[number * share : (number + 1) * share : mmap.PAGESIZE].fill(0))


def write_from_gpu(file: int, offset: int, source: torch.Tensor) -> None:
    """Copy bytes of the GPU to a place in a file where memory is allocated."""
    torch.cuda.current_stream(source.device).synchronize()
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    with mmap.mmap(file, offset - start + source.numel(), offset=start) as memory:  # mapped files cannot be sealed
        _write_into(memory, offset - start, source)


def to_gpu(storage: Any, location: str) -> Any:
    """Return a copy of a mapped storage in the GPU's memory."""
    if storage.nbytes() < STAGED_BYTES or not _Stages.usable:
        return storage.cuda()
    source = torch.empty(0, dtype=torch.uint8).set_(storage)
    target = torch.empty(source.numel(), dtype=torch.uint8, device="cuda")
    torch.cuda.current_stream().synchronize()  # the memory may have been another tensor's
    try:
        _in_threads(lambda number: _copy_share(source, target, number))
    except RuntimeError:  # no pinned memory, or no threads
        _Stages.usable = False
        return storage.cuda()
    return target.untyped_storage()


class _Stages:
    """The state of copies through pinned memory."""

    usable = True
    """False if pinned memory or threads were refused in this process."""


def _in_threads(work: Callable[[int], None]) -> None:
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def _copy_share(source: torch.Tensor, target: torch.Tensor, number: int) -> None:
    """Copy every piece whose number has this remainder; while one is sent, the next one is read."""
    stages = [torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    sent = [torch.cuda.Event() for _ in stages]  # type: ignore[no-untyped-call]
    stream = torch.cuda.Stream(target.device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for turn, start in enumerate(range(number * PIECE_BYTES, source.numel(), THREADS * PIECE_BYTES)):
            piece = source[start : start + PIECE_BYTES]
            stage = stages[turn % 2][: piece.numel()]
            sent[turn % 2].synchronize()
            stage.copy_(piece)
            target[start : start + PIECE_BYTES].copy_(stage, non_blocking=True)
            sent[turn % 2].record(stream)
        stream.synchronize()


def _write_into(memory: mmap.mmap, offset: int, source: torch.Tensor) -> None:
    target = torch.frombuffer(memory, dtype=torch.uint8)[offset:]
    _in_threads(lambda number: _write_share(source, target, number))


def _write_share(source: torch.Tensor, target: torch.Tensor, number: int) -> None:
    """Copy every piece whose number has this remainder from the GPU."""
    stage = torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True)
    stream = torch.cuda.Stream(source.device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for start in range(number * PIECE_BYTES, source.numel(), THREADS * PIECE_BYTES):
            piece = source[start : start + PIECE_BYTES]
            stage[: piece.numel()].copy_(piece, non_blocking=True)
            stream.synchronize()
            target[start : start + PIECE_BYTES].copy_(stage[: piece.numel()])
