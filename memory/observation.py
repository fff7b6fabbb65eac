"""What an author of kernels is shown before a turn: the problem, the rules, what was tried, what is left of the budget.

Everything a policy may use is in here, since policies keep nothing between calls; and everything in here is plain data,
so that it is stored with the answer it led to. Rendering it for a language model is the policy's business.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.graph.module_attributes import HeldTensor
from triton_agent.tools.machine.hardware import CardFacts, Gpu, card_facts
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Diagnosis, Finding, Interval, KernelResources, Status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """A problem as an author sees it. The same for every turn of a run, and stored once."""

    digest: str
    """Identity of the problem; see `tools/problem/problem.py`."""
    name: str
    spec: dict[str, Any]
    """`ProblemSpec.to_json()`: with it the problem is loaded again."""
    source: str
    """Text of the file the problem is in."""
    fingerprint: str
    """Equal for graphs of the same structure; empty for a problem that has only a verifier."""
    signature: str = ""
    """Equal for graphs of the same structure, shapes and strides."""
    graphs: tuple[dict[str, Any], ...] = ()
    """Operator graphs as plain data: at the sizes as given (or scaled down), at variants of the shape family, on few
    inputs at a time."""
    train_graphs: tuple[dict[str, Any], ...] = ()
    """The same in training mode; empty where the modes run the same operators, or training is not checked."""
    numbers: tuple[dict[str, float], ...] = ()
    """For each of the graphs, the plain numbers that modules hold as attributes: `norm.num_groups`, `heads`."""
    tensors: tuple[HeldTensor, ...] = ()
    """Tensors that modules hold as plain attributes, at the sizes of the first graph."""
    input_structure: str = ""
    """How the arguments of a call are nested, a star for each tensor: `[*, [*, *], 5]`."""
    variants: tuple[str, ...] = ()
    floor_bytes: int = 0
    floor_flops: int = 0
    beside: str = ""
    """Texts of the modules beside that file which it imports, one after the other."""
    floor_ms: float | None = None
    """Against the measured ceilings of the GPU; None where there is none."""
    device: str = "cpu"
    """`cpu` for the interpreter; else the name of the GPU."""
    notes: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    """Facts about the GPU in words. Only in records of earlier versions, which have no `card`."""
    card: CardFacts | None = None
    """Facts about the GPU; None where there is none."""

    @classmethod
    def of(cls, spec: ProblemSpec, facts: ProblemFacts, cards: Sequence[Gpu] = ()) -> ProblemView:
        """The view of a problem whose reference has run; `cards` are those known to be here."""
        return cls(
            digest=spec.digest,
            name=spec.name,
            spec=spec.to_json(),
            source=spec.source().text,
            beside=problem_source.texts_beside(Path(spec.path)),
            fingerprint=facts.fingerprint,
            signature=facts.signature,
            graphs=facts.graphs,
            train_graphs=facts.train_graphs,
            numbers=facts.numbers,
            tensors=facts.tensors,
            input_structure=facts.input_structure,
            variants=facts.variants,
            floor_bytes=facts.floor_bytes_main,
            floor_flops=facts.floor_flops_main,
            device=facts.device,
            notes=(*((facts.scaled,) if facts.scaled else ()), *facts.notes),
            card=card_facts(facts.gpu, cards) if facts.gpu else None,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """By what a candidate will be judged, as far as an author has to know."""

    allow_library: bool = False
    """True if library calls may stand beside at least one kernel of the author's own."""
    precision: str = "same"
    """`same`: as accurate as the reference; `tf32`: float32 products may be rounded to TF32, the reference's too."""
    target: str = "cuda:90"


class Role(enum.StrEnum):
    """Why an earlier attempt is shown."""

    PARENT = "parent"
    """The attempt to improve or repair."""
    INCUMBENT = "incumbent"
    """Among the best so far."""
    CONTRAST = "contrast"
    """A slower relative of an incumbent, for comparison."""
    TRIED = "tried"
    """Shown in short, so that it is not tried again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An earlier attempt of the same run, condensed."""

    attempt: str
    """Its key."""
    turn: int
    role: Role
    status: Status | None
    """None where it could not be measured."""
    finding: Finding | None = None
    message: str = ""
    plan: str = ""
    """What its author had in mind, in a sentence or two."""
    source: str = ""
    """Only for parents, incumbents and contrasts."""
    speedup: Interval | None = None
    """Over the reference, in device time; None where nothing was timed."""
    device_ms: float | None = None
    latency_ms: float | None = None
    diagnosis: Diagnosis | None = None
    resources: tuple[KernelResources, ...] = ()
    """What the compiler reports of its kernels; like the diagnosis, not for those shown in short."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What memory says from other runs: a kernel, or a sentence, and why it is shown."""

    kind: str
    """`kernel`, `failure` or `lesson`."""
    text: str
    """Source of the kernel, or the sentence."""
    why: str
    """How the earlier problem resembles this one, and on what evidence."""
    attempt: str = ""
    """Key of the attempt it comes from."""
    score: float = 0.0
    speedup: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """What is left when the turn begins; None where there is no limit."""

    turns: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All an author is told before one answer."""

    problem: ProblemView
    rules: Rules
    turn: int
    attempts_before: int = 0
    """How many answers the run had asked for before this one: the first answer's number."""
    seed: int
    """For whatever an author draws at random; the same for the same answer of the same run."""
    budget: BudgetLeft
    tried: tuple[Tried, ...] = ()
    recalled: tuple[Lesson, ...] = ()

    def of(self, role: Role) -> tuple[Tried, ...]:
        """The earlier attempts shown in that role."""
        return tuple(item for item in self.tried if item.role is role)

    @property
    def parent(self) -> Tried | None:
        """The attempt to improve or repair; None on a fresh start."""
        return next(iter(self.of(Role.PARENT)), None)
