"""The observation: everything an author is shown before a turn. Problem, rules, earlier attempts, remaining budget.

It holds everything that a policy may use, because policies keep nothing between calls. All of it is plain data and is
stored with the answer. Rendering it for a language model is the policy's task.
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
from triton_agent.tools.race.ceilings import Rates
from triton_agent.tools.results import Diagnosis, Finding, Interval, KernelResources, Status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """A problem as an author sees it; constant over the turns of a run, and stored once."""

    digest: str
    """Identity of the problem; see `tools/problem/problem.py`."""
    name: str
    spec: dict[str, Any]
    """`ProblemSpec.to_json()`, from which the problem can be loaded again."""
    source: str
    """Text of the problem file."""
    fingerprint: str
    """Equal for graphs of the same structure; empty for a problem that has only a verifier."""
    signature: str = ""
    """Equal for graphs of the same structure, shapes and strides."""
    graphs: tuple[dict[str, Any], ...] = ()
    """Operator graphs as plain data: at the given (or scaled down) sizes, at variants of the shape family, on few
    inputs at a time.
    """
    train_graphs: tuple[dict[str, Any], ...] = ()
    """Operator graphs in training mode; empty if both modes run the same operators or training is not checked."""
    numbers: tuple[dict[str, float], ...] = ()
    """For each graph, the plain numbers that modules hold as attributes: `norm.num_groups`, `heads`."""
    tensors: tuple[HeldTensor, ...] = ()
    """Tensors that modules hold as plain attributes, at the sizes of the first graph."""
    input_structure: str = ""
    """How the arguments of a call are nested, a star for each tensor: `[*, [*, *], 5]`."""
    variants: tuple[str, ...] = ()
    floor_bytes: int = 0
    floor_flops: int = 0
    beside: str = ""
    """Texts of the modules that the problem file imports from beside it, concatenated."""
    floor_ms: float | None = None
    """Time of the floor at the measured ceilings of the GPU; None without a GPU."""
    device: str = "cpu"
    """`cpu` for the interpreter, otherwise the name of the GPU."""
    notes: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    """Facts about the GPU in words; only in records of earlier versions, which have no `card`."""
    card: CardFacts | None = None
    """Facts about the GPU; None without one."""
    rates: Rates | None = None
    """Measured rates of the GPU; None without one, and in older records."""
    torch: str = ""
    """Version of torch that the reference ran under; empty in older records, as is `triton`."""
    triton: str = ""

    @classmethod
    def of(cls, spec: ProblemSpec, facts: ProblemFacts, cards: Sequence[Gpu] = ()) -> ProblemView:
        """Build the view of a problem whose reference has run; `cards` are the known GPUs of this machine."""
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
            rates=facts.rates,
            torch=facts.torch,
            triton=facts.triton,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules by which candidates are judged, as far as an author has to know them."""

    allow_library: bool = False
    """Allow library calls beside at least one kernel of the author's own."""
    precision: str = "same"
    """`same`: as accurate as the reference; `tf32`: float32 products may be rounded to TF32, the reference's too."""
    target: str = "cuda:90"


class Role(enum.StrEnum):
    PARENT = "parent"
    """The attempt to improve or repair."""
    INCUMBENT = "incumbent"
    """One of the best so far."""
    CONTRAST = "contrast"
    """A slower attempt related to an incumbent, for comparison."""
    TRIED = "tried"
    """Shown in short, so that it is not repeated."""


class Task(enum.StrEnum):
    """Task of the answer; only authors that read prompts are given one."""

    ANY = ""
    """Improve or repair the parent, or write a first version without one."""
    REPAIR = "repair"
    """Find out why the parent failed, and correct it."""
    IMPROVE = "improve"
    """Remove the parent's largest bottleneck."""
    RESTART = "restart"
    """Start over with another idea."""
    COMBINE = "combine"
    """Write one file with the advantages of the parent and its partner."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An earlier attempt of the same run, condensed."""

    attempt: str
    """Key of the attempt."""
    turn: int
    role: Role
    status: Status | None
    """None if it could not be measured."""
    finding: Finding | None = None
    message: str = ""
    right_at: tuple[str, ...] = ()
    """Sizes at which a candidate was right before the size at which it failed; empty in older records."""
    plan: str = ""
    """The author's intention, in a sentence or two."""
    source: str = ""
    """Only for parents, incumbents and contrasts."""
    speedup: Interval | None = None
    """Speed-up over the reference in device time; None if it was not timed."""
    device_ms: float | None = None
    latency_ms: float | None = None
    baselines_ms: dict[str, float] = dataclasses.field(default_factory=dict)
    """Device time of each baseline that it was timed against: `eager`, `compile`, ...; empty in older records."""
    diagnosis: Diagnosis | None = None
    resources: tuple[KernelResources, ...] = ()
    """The compiler's report on its kernels; like the diagnosis, left out for attempts shown in short."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A kernel or a sentence from earlier runs, and why it is shown."""

    kind: str
    """`kernel`, `failure` or `lesson`."""
    text: str
    """Source of the kernel, or the sentence."""
    why: str
    """How the earlier problem resembles this one, and the evidence."""
    attempt: str = ""
    """Key of the attempt it comes from."""
    score: float = 0.0
    speedup: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """The budget left when the turn begins; None for no limit."""

    turns: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything an author is shown before one answer."""

    problem: ProblemView
    rules: Rules
    turn: int
    attempts_before: int = 0
    """Number of answers that the run requested before; the number of the turn's first answer."""
    seed: int
    """Seed for an author's random draws; each run has its own (`trajectory_seed` in `policy/episode.py`)."""
    budget: BudgetLeft
    tried: tuple[Tried, ...] = ()
    recalled: tuple[Lesson, ...] = ()
    task: Task = Task.ANY
    partner: str = ""
    """Key of the attempt to combine with the parent."""

    def of(self, role: Role) -> tuple[Tried, ...]:
        """Return the earlier attempts shown in that role."""
        return tuple(item for item in self.tried if item.role is role)

    @property
    def parent(self) -> Tried | None:
        """The attempt to improve or repair; None on a fresh start."""
        return next(iter(self.of(Role.PARENT)), None)
