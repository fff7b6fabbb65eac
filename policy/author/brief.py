"""What the author is told of a problem, and what it hands back. Plain values; nothing here needs torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from triton_agent.tools.graph import OperatorGraph

if TYPE_CHECKING:
    from torch import nn


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What is known of the GPU to write for. The defaults are those of an H200."""

    processors: int = 132
    bytes_per_s: float = 4.8e12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldTensor:
    """A tensor that is an attribute of a module, and neither parameter nor buffer."""

    path: str
    shape: tuple[int, ...]
    dtype: str


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


def numbers_of(model: nn.Module) -> dict[str, float]:
    """Whole and other numbers among the attributes of a module and the modules in it, by their path."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if type(value) in (int, float) and not name.startswith("_"):
                found[f"{path}.{name}" if path else name] = value
    return found


def tensors_of(model: nn.Module) -> tuple[HeldTensor, ...]:
    """Tensors among the plain attributes of a module and the modules in it, in the order they were set."""
    from torch import Tensor

    found = []
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                full = f"{path}.{name}" if path else name
                dtype = str(value.dtype).removeprefix("torch.")
                found.append(HeldTensor(path=full, shape=tuple(value.shape), dtype=dtype))
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plan in words and the file."""

    plan: str
    source: str


class BeyondAuthor(Exception):
    """Something the author has no words for; whoever catches it leaves that part to torch."""
