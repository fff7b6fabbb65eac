"""The messages between our processes: who asks whom for what, and what comes back.

`codec.py` makes JSON of them and reads them, `wire.py` carries them. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from triton_agent.tools.audit.report import AuditReport
from triton_agent.tools.errors import TritonAgentError
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Evaluation, Sketch
from triton_agent.tools.sandbox.sandbox import Confinement
from triton_agent.tools.settings import EvaluatorSettings

# -- the driver asks the checker --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckerSettings:
    """What a checker is started with."""

    problem: ProblemSpec
    settings: EvaluatorSettings
    confinement: Confinement | None = None
    """For a problem that is not trusted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Load the problem. Answered by `Prepared`, `Refused` or `Bug`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Try wrong answers on the problem. Answered by many `AuditStep`, then `Audited`, `Refused` or `Bug`."""


class Wanted(enum.StrEnum):
    """What a candidate is handed over for."""

    VERDICT = "verdict"
    SKETCH = "sketch"
    TAPES = "tapes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A process of a candidate; its socket comes with the message."""

    kind: str
    is_warm: bool
    """True if it has reported before that it is ready."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judge a candidate. Answered by `AtStage` at each stage, then by one `JobAnswer`.

    The workers are a tracer, an executor, and any number of compile workers.
    """

    job: int
    source: str
    workers: tuple[HandedOver, ...]
    wanted: Wanted = Wanted.VERDICT
    as_given: bool = False
    """Check the problem's own sizes only."""
    file: str = ""
    """Text of a shipped file with the same kernels; it is checked and timed in their place."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    facts: ProblemFacts
    card: dict[str, Any]
    """Properties of the GPU that host code is given, as `machine/card_facts.py` names them."""
    lent: tuple[tuple[int, int, int], ...]
    """Device, number and size of the files in memory that workers will be given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    tried: int
    answers: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    report: AuditReport


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtStage:
    job: int
    stage: str


class WorkerState(enum.StrEnum):
    """Where the checker left a worker."""

    ENDED = "ended"
    NEW = "new"
    """It was asked nothing, and may not be ready yet."""
    WARM = "warm"
    """It may serve another candidate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    job: int
    workers: tuple[WorkerState, ...] = ()
    evaluation: Evaluation
    process_died: bool
    """True if a worker of the candidate ended; the driver then finds out how, see `deaths.py`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketched:
    job: int
    workers: tuple[WorkerState, ...] = ()
    sketch: Sketch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tapes:
    """A candidate's tapes as plain data, from which `runs/ship/plan_file.py` writes a file."""

    modules: tuple[dict[str, Any], ...]
    """What the module is made with and how it is called; see `checker/verified_tapes.py`."""
    message: str = ""
    """Why there are none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taped:
    job: int
    workers: tuple[WorkerState, ...] = ()
    tapes: Tapes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The problem, or an instrument, failed."""

    error: TritonAgentError
    job: int = 0
    """0 where no candidate was judged."""
    workers: tuple[WorkerState, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """The checker failed."""

    trace: str
    job: int = 0
    workers: tuple[WorkerState, ...] = ()


JobAnswer = Judged | Sketched | Taped | Refused | Bug
