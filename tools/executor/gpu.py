"""Runs the kernels of a tape on a GPU, compiled by Triton and mostly found in the cache that compile workers filled.

Triton specialises each step once. After that, the step is launched through the compiled kernel's own launcher, without
Triton's argument binding.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from triton.runtime.driver import driver

from triton_agent.tools.compile.aot import constants_of
from triton_agent.tools.compile.resources import resources_of
from triton_agent.tools.executor.kernels import Kernels, as_passed
from triton_agent.tools.executor.memory import Block
from triton_agent.tools.executor.program import Launching
from triton_agent.tools.kernels.kernel import ADDRESS_AS_NUMBER
from triton_agent.tools.processes.protocol import Predicate, SeenLaunch
from triton_agent.tools.results import KernelResources
from triton_agent.tools.tape.tape import Choice

REGISTER_BYTES = 4
LAUNCHES_KEPT = 4096
ADDRESS_TAKEN = "tt.ptr_to_int"
"""Operation of Triton's compiler that makes a number of an address."""
TRIALS = 5
"""Readings for each configuration of an autotuned launch; the median is used."""


class GpuLauncher:
    """Launches on the current stream of the first GPU."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._launched: collections.deque[tuple[Any, int]] = collections.deque(maxlen=LAUNCHES_KEPT)
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))

    def begin(self, order: int | None = None, only: Sequence[int] | None = None) -> None:
        """Forget earlier launches."""
        self._launched.clear()

    def limit(self, only: Sequence[int] | None) -> None:
        """Do nothing: on a GPU all programs run."""

    def note_numbers(self, *, forced: str | None = None) -> None:
        """Do nothing: on a GPU it is unknown what kernels compute with."""

    def computed(self, tensor: torch.Tensor, sources: Sequence[torch.Tensor] | None) -> None:
        """Do nothing."""

    def predicates(self) -> tuple[Predicate, ...]:
        return ()

    def numbers(self) -> tuple[float, ...]:
        return ()

    def counterparts(self, *, of_sums: bool) -> tuple[Any, Any]:
        return (), ()

    def constant(self, value: Any) -> Any:
        return as_passed(value, self._kernels)

    def prepare(self, choice: Choice, given: list[Any]) -> Launching:
        function = self._kernels.functions[choice.kernel]
        passed = dict(zip((name for name, _ in choice.arguments), given))
        kernel = function.run(**passed, grid=choice.grid, warmup=True, **dict(choice.options))
        if ADDRESS_TAKEN in kernel.asm["ttir"]:
            raise ValueError(ADDRESS_AS_NUMBER)
        run, handle, packed = kernel.run, kernel.function, kernel.packed_metadata
        stream_of, device = driver.active.get_current_stream, driver.active.get_current_device()
        x, y, z = choice.grid
        noted, record = self._launched, (kernel, x * y * z)

        def launch(given: list[Any]) -> None:
            run(x, y, z, stream_of(device), handle, packed, None, None, None, *given)
            noted.append(record)

        return launch

    def choose(self, launches: Sequence[Callable[[], None]], restored: Callable[[], None]) -> int:
        """Return the fastest configuration that runs on the card."""
        best, best_ms = 0, float("inf")
        for number, launch in enumerate(launches):
            try:
                reading_ms = self._reading_ms(launch)
            except (triton.runtime.errors.OutOfResources, triton.runtime.errors.PTXASError, triton.CompilationError):
                continue
            finally:
                restored()
            if reading_ms < best_ms:
                best, best_ms = number, reading_ms
        self.begin()
        return best

    def _reading_ms(self, launch: Callable[[], None]) -> float:
        launch()
        readings: list[float] = []
        for _ in range(TRIALS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            launch()
            end.record()
            end.synchronize()
            readings.append(start.elapsed_time(end))
        return statistics.median(readings)

    def reveal(self, block: Block) -> None:
        """Do nothing: on a GPU an address is sufficient."""

    def launches(self) -> tuple[SeenLaunch, ...]:
        """Return the launches since `begin`; bytes and races are unknown on a GPU."""
        return tuple(SeenLaunch(kernel=kernel.name, programs=programs) for kernel, programs in self._launched)

    def written(self) -> list[tuple[int, int]]:
        """Return nothing: on a GPU it is unknown which addresses were stored into."""
        return []

    def is_unsupported(self) -> bool:
        return False

    def resources(self) -> tuple[KernelResources, ...]:
        """Return the resources of each kernel launched since `begin`."""
        return tuple(_resources(kernel) for kernel in dict.fromkeys(kernel for kernel, _ in self._launched))


def _resources(kernel: Any) -> KernelResources:
    """Return a loaded kernel's resources. Its spills are the driver's local memory, including local arrays."""
    target = kernel.metadata.target
    told = resources_of(kernel, target=f"{target.backend}:{target.arch}", compile_ms=0.0)
    return dataclasses.replace(
        told,
        registers=int(kernel.n_regs),
        spill_bytes=REGISTER_BYTES * int(kernel.n_spills),
        constants=constants_of(kernel.src),
    )
