"""Empties the L2 cache between calls, so that each call reads its inputs from memory as it would in a larger program.

A buffer of several times the cache is overwritten with a value not used before. Lines that a kernel marked as
persisting would survive that; they are released first, where the driver can. Cached *instructions* are pushed out as
well.

Not covered: the caches of the multiprocessors (gone with each kernel) and the TLBs (partly warm).
"""

from __future__ import annotations

import ctypes

import torch

from triton_agent.tools.errors import NotJudgeableHere

MULTIPLE = 3
"""Times the L2 size. One would do were replacement strictly by age, which it is not."""
SMALLEST_BYTES = 32 * 2**20
"""Where the driver reports no cache size, this covers caches up to about 10 MiB."""
_WRAP = 2**31 - 1


class Flusher:
    """Owns the buffer; `flush()` queues one overwrite on the current stream."""

    def __init__(self, device: torch.device, multiple: int = MULTIPLE) -> None:
        cache_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.buffer_bytes = max(multiple * cache_bytes, SMALLEST_BYTES)
        try:
            self._buffer = torch.empty(self.buffer_bytes // 4, dtype=torch.int32, device=device)
        except torch.cuda.OutOfMemoryError as error:
            raise NotJudgeableHere(
                f"no room for the {self.buffer_bytes / 2**20:.0f} MiB that empty the L2 cache",
                where=str(device),
                remedy="free memory on the GPU, use smaller inputs, or measure with a warm cache and say so",
            ) from error
        self._turn = 0
        self._driver = _driver()
        self.releases_persisting = self._release_persisting()

    def flush(self) -> None:
        """Queues the overwrite; each has other contents than the last, so no hardware may skip it."""
        if self.releases_persisting:
            self._release_persisting()
        self._turn = (self._turn + 1) % _WRAP
        self._buffer.fill_(self._turn)

    def _release_persisting(self) -> bool:
        """Whether the driver did so; it refuses where there can be none, as under MIG."""
        if self._driver is None:
            return False
        return bool(self._driver.cuCtxResetPersistingL2Cache() == 0)


def _driver() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if hasattr(library, "cuCtxResetPersistingL2Cache") else None
