"""A written kernel: its text and what the host needs to launch it."""

from __future__ import annotations

import dataclasses
import re

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.ir.sizes import Size
from triton_agent.policy.author.plan.kernel_plan import Kernel

MOST_ASIDE = 65535
"""Programs along the second or third dimension of a grid. Only the first one has no such limit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GridEntry:
    """Programs along one axis of the grid: a product of sizes, each cut into blocks."""

    parts: tuple[tuple[Size, int | str], ...]
    """Size and block; a block of one means one program each."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BlockSize:
    """A `tl.constexpr` argument."""

    value: int | Size
    """A number, or a size whose next power of two is passed."""
    at_least: int = 1


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
    """True if an equal kernel stands in the file already, under the same name."""
    key: str = ""
    """Under which a choice names its tiles."""
    tiles: Tiles
    """As they came out, with nothing left open."""
    alternatives: tuple[Tiles, ...] = ()
    """Others worth measuring, the most promising first."""
    uses_libdevice: bool = False
    functions: tuple[str, ...] = ()
    """Names of small functions that the file has to define beside it."""

    def signature(self) -> list[str]:
        arguments = self.arguments
        sizes = [f"{name}: tl.constexpr" if self._is_constant(name) else name for name in arguments.sizes]
        plain = [*arguments.matrices, *arguments.tensors, *sizes, *arguments.numbers]
        plain += ["DESCRIBED: tl.constexpr"] if arguments.matrices else []
        return [*plain, *(f"{name}: tl.constexpr" for name in self.blocks)]

    def _is_constant(self, name: str) -> bool:
        """Return whether the compiler is told a size: where something is divided by it, or wide loads depend on it.

        It sees by itself that an argument is a multiple of 16. From a row of 1000 elements it would read one at a
        time, had it not the number. A limit of rows alone changes with every batch and has no part in that.
        """
        if name in self.arguments.divisors:
            return True
        size = self.arguments.sizes[name][0]
        if self.kernel.multiplies or size < 2 or size % 2 or size % 16 == 0:
            return False
        return any(re.search(rf"(?<!\brow < )\b{name}\b", line) for line in self.lines)
