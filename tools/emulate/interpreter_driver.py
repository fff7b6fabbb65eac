"""What host code asks of Triton's driver and of compiled kernels, answered while kernels are interpreted.

Files written for a GPU ask what they run on in order to choose grids and configurations. The answers are those of the
target's card (`targets.py`): enough to take the path that the card would take, and no measurement. What a compiled
kernel would tell of itself (registers, shared memory) is a plausible constant, so that a grid computed from it may
differ from the one on a GPU. Nothing here compiles or launches.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from triton_agent.tools.emulate.targets import Target

REGISTER_FILE = 65536
"""Registers of a multiprocessor, the same on every NVIDIA architecture there is a target for."""


def capability_of(target: Target) -> tuple[int, int]:
    """(9, 0) for `cuda:90`; for AMD the first two numbers of the architecture."""
    if isinstance(target.arch, int):
        return divmod(target.arch, 10)
    digits = target.arch.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16)


class InterpreterDriver:
    """Stands for `triton.runtime.driver.active`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.utils = types.SimpleNamespace(get_device_properties=self._properties)

    def get_current_target(self) -> Any:
        return self._target.gpu_target()

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return capability_of(self._target)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return _call_once

    def _properties(self, device: Any = 0) -> dict[str, int | str]:
        return {
            "max_shared_mem": self._target.shared_limit_bytes,
            "max_num_regs": REGISTER_FILE,
            "multiprocessor_count": self._target.multiprocessors,
            "warpSize": self._target.warp_size,
            "arch": str(self._target.arch),
        }


def _call_once(call: Callable[[], object], quantiles: Any = None, **_: object) -> list[float]:
    """In place of a benchmark: no speed can be known here, so everything that runs is equal."""
    call()
    return [1.0] * len(quantiles or (0.5,))


class InterpretedKernel:
    """What a launch or `warmup` returns in place of a compiled kernel; launching it interprets the kernel again."""

    n_regs = 64
    n_spills = 0
    n_max_threads = 1024

    def __init__(self, launch: Callable[..., Any], num_warps: int) -> None:
        self._launch = launch
        self.metadata = types.SimpleNamespace(shared=16384, num_warps=num_warps, num_ctas=1)

    def _init_handles(self) -> None:
        """A compiled kernel would load its binary."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *arguments, **options: self._launch(*arguments, grid=grid, warmup=False, **options)
