"""What the author is told of a problem, and what it hands back. Plain values; nothing here needs torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triton_agent.tools.compile.targets import TARGETS
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.module_attributes import HeldTensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What is known of the GPU to write for. The defaults are those of an H200."""

    processors: int = 132
    shared_bytes: int = 227 * 1024
    """Most shared memory that one program may ask for."""
    lanes: int = 32
    """Threads of a warp."""

    @classmethod
    def of(cls, target: str, processors: int | None = None) -> Hardware:
        """By the name of what is compiled for; `processors` where the very card is known."""
        known = TARGETS.get(target)
        if known is None:
            return cls() if processors is None else cls(processors=processors)
        return cls(
            processors=processors or known.multiprocessors,
            shared_bytes=known.shared_limit_bytes,
            lanes=known.warp_size,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """One problem as the author sees it."""

    source: str
    """Text of the file that defines the model."""
    class_name: str = "Model"
    graphs: tuple[OperatorGraph, ...]
    """What a call in evaluation mode runs: at the main sizes first, then at other sizes of the shape family."""
    numbers: tuple[Mapping[str, float], ...] = ()
    """For each of those calls, the plain numbers that modules hold as attributes: `norm.num_groups`, `heads`."""
    tensors: tuple[HeldTensor, ...] = ()
    """Tensors that modules hold as plain attributes, at the main sizes."""
    train_graphs: tuple[OperatorGraph, ...] = ()
    """The same in training mode, at the same sizes; empty where the modes run the same operators."""
    allow_library: bool = False
    allow_tf32: bool = False
    target: str = "cuda:90"
    device: str = "cuda"
    """`cpu`: the file will be judged in the interpreter."""
    input_structure: str = ""
    """How the arguments of a call are nested, a star for each tensor: `[*, [*, *], 5]`; empty: tensors only."""
    hardware: Hardware = dataclasses.field(default_factory=Hardware)

    def __post_init__(self) -> None:
        if not self.graphs:
            raise ValueError("a brief needs the graph of at least one call")
        if self.numbers and len(self.numbers) != len(self.graphs):
            raise ValueError("numbers have to be given for every graph or for none")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plan in words and the file."""

    plan: str
    source: str


class BeyondAuthor(Exception):
    """Something the author has no words for; whoever catches it leaves that part to torch."""
