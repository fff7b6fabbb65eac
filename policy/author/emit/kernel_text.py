"""A written kernel: its text and the data that the host needs to launch it."""

from __future__ import annotations

import dataclasses
import re

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.ir.sizes import Size
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.tile.product_facts import InParts

MOST_ASIDE = 65535
"""Most programs along the second or third dimension of a grid; the first one has no such limit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GridEntry:
    """Number of programs along one axis of the grid: a product of sizes, each divided into blocks."""

    parts: tuple[tuple[Size, int | str], ...]
    """Each size with its block; a block of one means one program per element."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BlockSize:
    """A `tl.constexpr` argument."""

    value: int | Size | str
    """A number, a size whose next power of two is passed, or the name of a local variable of the host's code."""
    at_least: int = 1
    wide: Wide | None = None
    """Value of the block at much larger sizes, if it differs there."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wide:
    """Another number of a block or of warps where a size is much larger than at the main sizes."""

    sizes: tuple[Size, ...]
    at_most: int
    """Limit of the largest of the sizes for the usual number."""
    value: int
    """The number beyond this limit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelText:
    """One `@triton.jit` function."""

    kernel: Kernel
    name: str
    comment: tuple[str, ...]
    lines: tuple[str, ...]
    arguments: Arguments
    grid: tuple[GridEntry, ...]
    blocks: dict[str, BlockSize]
    repeats: bool = False
    """True if the file already has an equal kernel under the same name."""
    key: str = ""
    """Key under which a choice stores the kernel's tiles."""
    tiles: Tiles
    """The tiles as written, with no number left open."""
    wide_warps: Wide | None = None
    """Warps for rows at other sizes that are much longer."""
    alternatives: tuple[Tiles, ...] = ()
    """Other tiles worth measuring, the most promising first."""
    uses_libdevice: bool = False
    parts: InParts | None = None
    """A weight that is passed in two parts."""
    persistent: bool = False
    """True if no more programs are launched than run at once, and each takes one tile after another."""
    functions: tuple[str, ...] = ()
    """Names of helper functions that the file must define."""

    def signature(self) -> list[str]:
        arguments = self.arguments
        sizes = [f"{name}: tl.constexpr" if self._is_constant(name) else name for name in arguments.sizes]
        plain = [*arguments.matrices, *arguments.tensors, *sizes, *arguments.numbers]
        plain += ["DESCRIBED: tl.constexpr"] if arguments.matrices else []
        return [*plain, *(f"{name}: tl.constexpr" for name in self.blocks)]

    def _is_constant(self, name: str) -> bool:
        """Return True if a size must be a constant for the compiler: a divisor, or a size that decides the width of
        loads.

        The compiler specializes arguments that are multiples of 16 by itself. With rows of 1000 elements it would load
        single elements unless it knew the number. A limit that only bounds rows changes with every batch and stays a
        variable; in a product, only strides matter.
        """
        if name in self.arguments.divisors:
            return True
        size = self.arguments.sizes[name][0]
        if size < 2 or size % 2 or size % 16 == 0:
            return False
        used = rf"\* {name}\b" if self.kernel.multiplies else rf"(?<!\brow < )\b{name}\b"
        return any(re.search(used, line) for line in self.lines)
