"""A driver for Triton that describes a GPU which is not there, and launches nothing.

It answers what Triton's runtime asks, and what candidates ask of `triton.runtime.driver.active`. It does not stand in
for `torch.cuda`, and gives no clock or memory rates: a figure that nobody measured is better missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from triton_agent.tools.emulate.compile_trace import Tracer
from triton_agent.tools.emulate.resources import REGISTER_WIDTH_BYTES, read_binary

THREADS_LIMIT = 1024
"""Threads per program on every architecture there is a target for."""

REGISTER_FILE = 65536
"""Registers of a multiprocessor, the same on all of them."""


def call_once(call: Callable[[], object], quantiles: Sequence[float] = (), **_: object) -> list[float]:
    """In place of a benchmark: whether it runs is all that can be known here, and every kernel that does is equal."""
    call()
    return [1.0] * max(1, len(quantiles))


class StandInDriver:
    """What Triton, and candidates that ask it, expect of the active driver; a device 0 of the target's architecture."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.utils = StandInUtilities(tracer)
        self.builds_launchers = False
        """Whether real launchers are made, too, for whoever finds them in the same cache."""

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Triton asks for a launcher per kernel and calls it with the grid first."""
        if self.builds_launchers:
            _build_launcher(source, metadata)

        def launch(x: Any, y: Any, z: Any, *_: Any) -> None:
            self.tracer.launch(metadata.hash, (x, y, z))

        return launch

    def get_current_target(self) -> Any:
        return self.tracer.target.gpu_target()

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """(9, 0) for `cuda:90`; for AMD the first two numbers of the architecture, as PyTorch gives them."""
        arch = self.tracer.target.arch
        if isinstance(arch, int):
            return divmod(arch, 10)
        digits = arch.removeprefix("gfx")
        return int(digits[:-2]), int(digits[-2], 16)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return call_once

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()


def _build_launcher(source: Any, metadata: Any) -> None:
    """Until version 3.7, Triton has a C compiler make one for every signature, which takes longer than the kernel.

    A second object of its driver serves them all since; then, and where there is no GPU's library, there is nothing to
    make.
    """
    from triton.backends.nvidia import driver

    if not hasattr(driver, "make_launcher"):
        return
    with contextlib.suppress(Exception):
        driver.CudaLauncher(source, metadata)


class StandInUtilities:
    """The driver's `utils`: properties of the device, and the loading of binaries."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def get_device_properties(self, device: int = 0) -> dict[str, int | str]:
        target = self._tracer.target
        properties: dict[str, int | str] = {
            "max_shared_mem": target.shared_limit_bytes,
            "max_num_regs": REGISTER_FILE,
            "multiprocessor_count": target.multiprocessors,
            "warpSize": target.warp_size,
        }
        return properties if target.backend == "cuda" else {**properties, "arch": target.arch}

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """(module, function, registers, spilled registers, most threads), as the drivers give them."""
        needed = read_binary(self._tracer.loading)
        spilled = (needed.stack_bytes or 0) // REGISTER_WIDTH_BYTES  # the CUDA driver's count, too, is of local memory
        return name, name, needed.registers or 0, spilled, THREADS_LIMIT

    def set_printf_fifo_size(self, size_bytes: int) -> None:
        """Nothing will print."""
