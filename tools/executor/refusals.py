"""Measures the card when memory is refused to this process, since a moment later others may have freed theirs.

torch's allocator reports the size of an allocation that failed. Libraries and the driver do not, so for these only the
free memory is known. Exceptions only select what was measured; no text of theirs is passed on as a fact.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch

from triton_agent.tools.processes.protocol import MemoryRefusal
from triton_agent.tools.sandbox.sandbox import MOST_OF_A_CARD

OF_LIBRARIES = re.compile(r"\[CUDA\]: out of memory|CUDA error: out of memory|STATUS_ALLOC_FAILED")
"""Errors of Triton's launcher, of CUDA's runtime, and of cuBLAS and cuDNN. All are plain RuntimeErrors, unlike those of
Triton's compiler, which may quote a kernel."""


class Refusals:
    """The allocations of this process that failed during the current request."""

    def __init__(self) -> None:
        self._last: MemoryRefusal | None = None

    def observe(self) -> None:
        """Have torch's allocator report allocations that fail. The limit must have been set before."""
        binding: Any = torch._C
        binding._cuda_attach_out_of_memory_observer(self.note)

    def note(self, device: int, asked_bytes: int, limit_bytes: int, free_bytes: int) -> None:
        """Record an allocation of torch's that failed although its cached memory was freed before."""
        self._last = MemoryRefusal(
            held_bytes=torch.cuda.memory_reserved(),
            asked_bytes=asked_bytes,
            limit_bytes=limit_bytes,
            free_bytes=free_bytes,
        )

    def forget(self) -> None:
        self._last = None

    def behind(self, error: BaseException) -> MemoryRefusal | None:
        """Return the refusal that raised this error; None if it has another cause."""
        if isinstance(error, torch.OutOfMemoryError):
            return self._last
        if type(error) not in (RuntimeError, torch.AcceleratorError) or not OF_LIBRARIES.search(str(error)):
            return None
        with contextlib.suppress(RuntimeError):  # the context is broken, so memory was not the cause
            free_bytes, total_bytes = torch.cuda.mem_get_info()
            return MemoryRefusal(
                held_bytes=torch.cuda.memory_reserved(),
                asked_bytes=None,
                limit_bytes=int(MOST_OF_A_CARD * total_bytes),
                free_bytes=free_bytes,
            )
        return None
