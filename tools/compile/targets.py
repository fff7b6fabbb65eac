"""The GPUs that kernels can be compiled for without having one, and their limits on a launch.

Limits belong to an architecture. The number of multiprocessors belongs to a card, so each architecture is represented
by one well-known card. Needs neither torch nor triton: a command line can check `--target` before they are imported.
The speed of a target is not known here.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

from triton_agent.tools.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One architecture; `backend`, `arch` and `warp_size` are the fields of Triton's own `GPUTarget`."""

    backend: str
    """`cuda` or `hip`, as Triton names its backends."""
    arch: int | str
    """90 for compute capability 9.0; `gfx942` for AMD."""
    warp_size: int
    card: str
    """The card whose number of multiprocessors is used."""
    multiprocessors: int
    shared_limit_bytes: int
    """Maximum shared memory (AMD: LDS) that one program may request, with opt-in."""

    @property
    def name(self) -> str:
        return f"cuda:{self.arch}" if self.backend == "cuda" else str(self.arch)

    @property
    def capability(self) -> tuple[int, int]:
        """(9, 0) for `cuda:90`; for AMD the first two numbers of the architecture, as in PyTorch."""
        if isinstance(self.arch, int):
            return divmod(self.arch, 10)
        digits = self.arch.removeprefix("gfx")
        return int(digits[:-2]), int(digits[-2], 16)

    def gpu_target(self) -> Any:
        """Return the target as a `triton.backends.compiler.GPUTarget`."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.backend, self.arch, self.warp_size)


def _nvidia(capability: int, card: str, multiprocessors: int, shared_limit_bytes: int) -> Target:
    return Target("cuda", capability, 32, card, multiprocessors, shared_limit_bytes)


KIB = 1024

REGISTER_FILE = 65536
"""Registers of a multiprocessor, the same for every target."""

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
    Target("hip", "gfx90a", 64, "MI250X, one die", 110, 64 * KIB),
    Target("hip", "gfx942", 64, "MI300X", 304, 64 * KIB),
    Target("hip", "gfx950", 64, "MI355X", 256, 160 * KIB),
    Target("hip", "gfx1100", 32, "RX 7900 XTX", 48, 64 * KIB),
    Target("hip", "gfx1201", 32, "RX 9070 XT", 32, 64 * KIB),
)

TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
"""Targets by the name that `parse_target` accepts."""


LARGEST_GRID = (2**31 - 1, 65535, 65535)
"""Maximum number of programs along each axis of a launch; the same on every GPU."""


def resolve_grid(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the grid as three sizes; raise if a GPU would refuse it. A callable grid receives `arguments`."""
    if callable(grid):
        grid = grid(dict(arguments))
    if not 1 <= len(grid) <= 3:
        raise ValueError(f"a grid has one to three dimensions, not {len(grid)}: {grid!r}")
    x, y, z = (*(operator.index(size) for size in grid), 1, 1)[:3]
    for axis, size, largest in zip("xyz", (x, y, z), LARGEST_GRID):
        if not 0 <= size <= largest:
            raise ValueError(f"the grid's {axis} is {size}, outside 0 to {largest}, so a GPU refuses the launch")
    return x, y, z


DEFAULT_TARGET = "cuda:90"
"""Target if none is named."""


def parse_target(text: str) -> Target:
    """Return the target named by `cuda:90`, `gfx942` or `hip:gfx942`."""
    name = text.strip().lower().removeprefix("hip:")
    if name not in TARGETS:
        raise UsageError(
            f"unknown target {text!r}",
            remedy="name a GPU architecture as in cuda:80, cuda:90 or gfx942; known: " + ", ".join(TARGETS),
        )
    return TARGETS[name]
