"""A driver for Triton that describes the GPU of a target and launches nothing.

It answers the queries of Triton's runtime to its active driver, and those of host code to
`triton.runtime.driver.active` when it chooses grids and configurations. It reports no clock or memory rates, since none
were measured, and does not replace `torch.cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton_agent.tools.compile.targets import REGISTER_FILE, Target


class TargetDriver:
    """Device 0 of the target's architecture. It is its own `utils`, which Triton uses for properties and binaries."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = self

    def get_current_target(self) -> Any:
        return self.target.gpu_target()

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.target.capability

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is only one device."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a benchmark that runs a call once and reports the same time for every call, so the first one wins."""

        def call_once(call: Callable[[], object], quantiles: Any = None, **_: object) -> list[float]:
            call()
            return [1.0] * len(quantiles or (0.5,))

        return call_once

    def get_device_properties(self, device: Any = 0) -> dict[str, int | str]:
        return {
            "max_shared_mem": self.target.shared_limit_bytes,
            "max_num_regs": REGISTER_FILE,
            "multiprocessor_count": self.target.multiprocessors,
            "warpSize": self.target.warp_size,
            "arch": str(self.target.arch),
        }
