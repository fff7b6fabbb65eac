"""State shared by the stages from a program to its kernels: the brief, the choice, the program and the host's names.

Planning and writing take one `Drafting` instead of its parts. `writer.py` makes one for each program that it tries, and
a copy for each kernel with the tiles chosen for that kernel.
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
    """Names of tensors and sizes in the method that launches the kernels. Kernels use the same names.

    `emit/forward.py` fills it while it writes the method.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.sizes = SizeNames(program.width)
        self.texts: dict[str, str] = {}
        """Maps a value to its expression in the host code."""
        self.in_place: dict[str, str] = {}
        """Maps a value to the source whose memory it overwrites."""
        self.loaded_later: frozenset[str] = frozenset()
        """Tensors that later kernels read. The kernel being written should leave them in the cache."""

    def size_name(self, size: Size) -> str | None:
        """Return the host's name of a size if that name is an identifier, else None."""
        name = self.sizes.find(size)
        return name if name is not None and name.isidentifier() else None

    def tensor_name(self, value: str) -> str:
        """Return the name that kernels use for a tensor."""
        if value in self.texts:
            return last_word(self.texts[value])
        return self._program.values[value].hint or "value"


def last_word(text: str) -> str:
    """Return the last identifier in an expression: `weight` for `self.blocks[0].weight` and for
    `self.linear.weight`.
    """
    words = re.findall(r"[A-Za-z_]\w*", text)
    return words[-1] if words else "value"


def tf32_convolutions(brief: Brief, choice: Choice) -> bool:
    """Return True if float32 convolutions run in TF32, as cuDNN's do by default. Convolutions on a CPU are exact."""
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
    """Tiles wanted for the kernel that is being written; zeros leave the numbers to its skeleton."""

    @property
    def width(self) -> int:
        """Number of sizes at which the program is known."""
        return self.program.width

    @property
    def on_cuda(self) -> bool:
        return self.brief.target.startswith("cuda")

    @property
    def warpgroups(self) -> bool:
        """True if the target has warp-group products (four warps share one) and shared memory for the tiles they
        need.
        """
        return self.on_cuda and 90 <= int(self.brief.target.partition(":")[2] or 0) < 120

    @property
    def float32_products(self) -> str:
        """Precision of float32 products: `ieee` or `tf32x3`."""
        return "ieee" if self.choice.exact or not self.on_cuda else "tf32x3"

    @property
    def tf32_convolutions(self) -> bool:
        return tf32_convolutions(self.brief, self.choice)

    @property
    def interpreted(self) -> bool:
        """True if the kernels run in the interpreter, where each program costs about a millisecond."""
        return self.brief.device == "cpu"

    def each_of(self, work: int, least: int) -> int:
        """Return the work per program that gives every processor a share, as a power of two and at least `least`."""
        if self.interpreted:
            return power_of_two(work)
        return max(least, power_of_two(-(-work // self.brief.hardware.processors)))

    def dtype_of(self, value: str) -> str:
        """Return the dtype that a value has in memory."""
        return self.program.stored_dtype(value)

    def with_tiles(self, key: str) -> Drafting:
        """Return a copy with the tiles chosen for one kernel."""
        return dataclasses.replace(self, tiles=self.choice.tiles_of(key))
