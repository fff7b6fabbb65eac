"""The GPUs that kernels can be compiled for without owning one, and the limits a launch on them would meet.

Limits belong to an architecture; the number of multiprocessors belongs to a card, so one well-known card stands for
each. Needs neither torch nor triton: a command line can check its `--target` before either is imported. Does not say
how fast a target is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from triton_agent.tools.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One architecture; `backend`, `arch` and `warp_size` are what Triton's own `GPUTarget` holds."""

    backend: str
    """`cuda` or `hip`, as Triton names its backends."""
    arch: int | str
    """90 for compute capability 9.0; `gfx942` for AMD."""
    warp_size: int
    card: str
    """The card whose number of multiprocessors is used."""
    multiprocessors: int
    shared_limit_bytes: int
    """Most shared memory (AMD: LDS) that one program may ask for, the opt-in limit."""

    @property
    def name(self) -> str:
        return f"cuda:{self.arch}" if self.backend == "cuda" else str(self.arch)

    def gpu_target(self) -> Any:
        """The same as a `triton.backends.compiler.GPUTarget`."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.backend, self.arch, self.warp_size)


def _nvidia(capability: int, card: str, multiprocessors: int, shared_limit_bytes: int) -> Target:
    return Target(
        backend="cuda",
        arch=capability,
        warp_size=32,
        card=card,
        multiprocessors=multiprocessors,
        shared_limit_bytes=shared_limit_bytes,
    )


def _amd(arch: str, card: str, warp_size: int, multiprocessors: int, shared_limit_bytes: int) -> Target:
    return Target(
        backend="hip",
        arch=arch,
        warp_size=warp_size,
        card=card,
        multiprocessors=multiprocessors,
        shared_limit_bytes=shared_limit_bytes,
    )


KIB = 1024

# NVIDIA: "maximum shared memory per thread block" of the CUDA programming guide's table of compute capabilities, which
# is 1 KiB below what a multiprocessor has. AMD: LDS per workgroup; RDNA cards count workgroup processors, as HIP does.
_ALL = (
    _nvidia(80, "A100", 108, 163 * KIB),
    _nvidia(86, "RTX A6000", 84, 99 * KIB),
    _nvidia(87, "Jetson AGX Orin", 16, 163 * KIB),
    _nvidia(89, "L40S", 142, 99 * KIB),
    _nvidia(90, "H100 SXM", 132, 227 * KIB),
    _nvidia(100, "B200", 148, 227 * KIB),
    _nvidia(103, "B300", 148, 227 * KIB),
    _nvidia(120, "RTX 5090", 170, 99 * KIB),
    _nvidia(121, "GB10", 48, 99 * KIB),
    _amd("gfx90a", "MI250X, one die", 64, 110, 64 * KIB),
    _amd("gfx942", "MI300X", 64, 304, 64 * KIB),
    _amd("gfx950", "MI355X", 64, 256, 160 * KIB),
    _amd("gfx1100", "RX 7900 XTX", 32, 48, 64 * KIB),
    _amd("gfx1201", "RX 9070 XT", 32, 32, 64 * KIB),
)

TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
"""Every target by the name that `parse_target` accepts."""


DEFAULT_TARGET = "cuda:90"
"""What stands for a GPU where no target is named."""


def parse_target(text: str) -> Target:
    """`cuda:90` or `gfx942` as a `Target`; `hip:gfx942` is accepted, too."""
    name = text.strip().lower().removeprefix("hip:")
    if name not in TARGETS:
        raise UsageError(
            f"unknown target {text!r}",
            remedy="name a GPU architecture as in cuda:80, cuda:90 or gfx942; known: " + ", ".join(TARGETS),
        )
    return TARGETS[name]
