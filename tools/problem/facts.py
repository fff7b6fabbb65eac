"""Facts about a problem, for people, authors and memory. No verdict depends on them, and nothing here needs torch."""

from __future__ import annotations

import dataclasses
from typing import Any

from triton_agent.tools.graph.module_attributes import HeldTensor
from triton_agent.tools.race.ceilings import Rates


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFacts:
    """Facts about a problem, known once its reference has run."""

    name: str
    digest: str
    variants: tuple[str, ...]
    cases: int
    fingerprint: str
    signature: str
    """Signature of the operator graph at the main sizes: equal if structure and sizes are equal."""
    graphs: tuple[dict[str, Any], ...]
    """Operator graphs in evaluation mode as plain data, at the main sizes first; see `tools/graph/graph.py`."""
    train_graphs: tuple[dict[str, Any], ...]
    """Operator graphs in training mode; empty if that mode is not checked or runs the same operators."""
    numbers: tuple[dict[str, int | float], ...]
    """The plain numbers that the reference's modules hold as attributes, for each graph: `norm.num_groups`."""
    tensors: tuple[HeldTensor, ...]
    """Tensors that the reference's modules hold as plain attributes, at the main sizes."""
    input_structure: str
    """How the arguments of a call are nested, with a star for each tensor: `[*, [*, *], 5]`."""
    floor_bytes: int
    """Fewest bytes at the smallest checked sizes, where traffic is counted."""
    floor_flops: int
    scaled: str
    """How the problem was scaled down; empty if it was not."""
    notes: tuple[str, ...]
    floor_bytes_main: int
    """Fewest bytes at the given (or scaled-down) sizes."""
    floor_flops_main: int
    device: str
    gpu: str
    """UUID of the GPU that candidates run on; empty for the interpreter."""
    target: str
    """Compilation target of that GPU, such as `cuda:90`; empty for the interpreter."""
    torch: str
    python: str
    triton: str
    rates: Rates | None = None
    """Measured rates of that GPU; None without a GPU, or if nothing is timed."""

    @property
    def place(self) -> str:
        """Device and GPU that candidates run on. It distinguishes several cards of one model."""
        return f"{self.device} {self.gpu}".strip()
