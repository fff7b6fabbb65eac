"""Facts about a problem that the author works from, and the answer that it returns. Plain values, without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triton_agent.tools.compile.targets import TARGETS
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.module_attributes import HeldTensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Properties of the target GPU. The defaults are those of an H200."""

    processors: int = 132
    shared_bytes: int = 227 * 1024
    """Most shared memory that one program may use."""
    lanes: int = 32
    """Threads per warp."""

    @classmethod
    def of(cls, target: str, processors: int | None = None) -> Hardware:
        """Look up the hardware of a compilation target. `processors` overrides the count where the actual card is
        known.
        """
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
    """The facts about one problem that the author works from."""

    source: str
    """Text of the file that defines the model."""
    class_name: str = "Model"
    graphs: tuple[OperatorGraph, ...]
    """Operator graphs of a call in evaluation mode: at the main sizes first, then at other sizes of the shape
    family.
    """
    numbers: tuple[Mapping[str, float], ...] = ()
    """For each graph in `graphs`, the plain numbers that modules hold as attributes: `norm.num_groups`, `heads`. Whole
    numbers given as arguments are named by their place: `=3`.
    """
    tensors: tuple[HeldTensor, ...] = ()
    """Tensors that modules hold as plain attributes, at the main sizes."""
    train_graphs: tuple[OperatorGraph, ...] = ()
    """Graphs of a call in training mode at the same sizes; empty where both modes run the same operators."""
    allow_library: bool = False
    allow_tf32: bool = False
    target: str = "cuda:90"
    device: str = "cuda"
    """`cpu` means that the file will be judged in the interpreter."""
    input_structure: str = ""
    """Nesting of a call's arguments, with a star for each tensor: `[*, [*, *], 5]`. Empty if all arguments are
    tensors.
    """
    hardware: Hardware = dataclasses.field(default_factory=Hardware)

    def __post_init__(self) -> None:
        if not self.graphs:
            raise ValueError("a brief needs the graph of at least one call")
        if self.numbers and len(self.numbers) != len(self.graphs):
            raise ValueError("numbers must be given for every graph or for none")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plan in words and a file."""

    plan: str
    source: str


class BeyondAuthor(Exception):
    """Raised where the author cannot write kernels for something. Callers leave that part to torch."""
