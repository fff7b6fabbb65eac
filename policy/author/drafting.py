"""What the steps from a program to its kernels share: the request, the program, and how the host names things.

Planning and writing take one `Drafting` instead of its parts. It is made in `writer.py`, once for each program that is
tried, and once more with the wanted tiles for each kernel.
"""

from __future__ import annotations

import dataclasses
import re

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.ir.alignment import AlignedGraph
from triton_agent.policy.author.ir.program import Program
from triton_agent.policy.author.ir.sizes import Size, SizeNames, power_of_two


class HostNames:
    """How the method that launches the kernels writes tensors and sizes. Kernels use the same names.

    `emit/forward.py` fills it while it writes the method.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.sizes = SizeNames(program.width)
        self.texts: dict[str, str] = {}
        """Value -> expression of the host."""
        self.in_place: dict[str, str] = {}
        """Values that are written over the source they replace, and that source."""
        self.loaded_later: frozenset[str] = frozenset()
        """Tensors that kernels behind the one being written read, and may find in the cache."""

    def size_name(self, size: Size) -> str | None:
        """Return the host's name of a size, if it has one that is an identifier."""
        name = self.sizes.find(size)
        return name if name is not None and name.isidentifier() else None

    def tensor_name(self, value: str) -> str:
        """Return what a kernel calls a tensor."""
        if value in self.texts:
            return last_word(self.texts[value])
        return self._program.values[value].hint or "value"


def last_word(text: str) -> str:
    """`self.blocks[0].weight` is called `weight`, `self.linear.weight` too."""
    words = re.findall(r"[A-Za-z_]\w*", text)
    return words[-1] if words else "value"


def tf32_convolutions(brief: Brief, choice: Choice) -> bool:
    """Return whether convolutions of float32 are TF32: as cuDNN's are by default, while a CPU's are exact."""
    return brief.target.startswith("cuda") and brief.device != "cpu" and not choice.exact


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """One program on its way to kernels."""

    brief: Brief
    choice: Choice
    graph: AlignedGraph
    program: Program
    host: HostNames
    tiles: Tiles = dataclasses.field(default_factory=Tiles)
    """Wanted for the kernel that is being written; zeros leave the decision to its skeleton."""

    @property
    def width(self) -> int:
        """Sizes at which each number is known."""
        return self.program.width

    @property
    def on_cuda(self) -> bool:
        return self.brief.target.startswith("cuda")

    @property
    def warpgroups(self) -> bool:
        """True if four warps share one product, and shared memory holds the large tiles for it."""
        return self.on_cuda and 90 <= int(self.brief.target.partition(":")[2] or 0) < 120

    @property
    def float32_products(self) -> str:
        """`ieee` or `tf32x3`."""
        return "ieee" if self.choice.exact or not self.on_cuda else "tf32x3"

    @property
    def tf32_convolutions(self) -> bool:
        return tf32_convolutions(self.brief, self.choice)

    @property
    def interpreted(self) -> bool:
        """True in the interpreter, where a program costs about a millisecond, however little it does."""
        return self.brief.device == "cpu"

    def each_of(self, work: int, least: int) -> int:
        """Return how much of some work a program takes at most, a power of two, for all processors to have a share."""
        if self.interpreted:
            return power_of_two(work)
        return max(least, power_of_two(-(-work // self.brief.hardware.processors)))

    def dtype_of(self, value: str) -> str:
        """Return the dtype in which a value lies in memory."""
        return self.program.stored_dtype(value)

    def with_tiles(self, key: str) -> Drafting:
        """Return the same with the tiles chosen for one kernel."""
        return dataclasses.replace(self, tiles=self.choice.tiles_of(key))
