"""The state of one candidate on its way through the stages: its workers, its settings and the results so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from triton_agent.tools.cases.plan import Case, Plan, Trial
from triton_agent.tools.checker.profiling import Leaders
from triton_agent.tools.checker.session import Failed, Session
from triton_agent.tools.checker.tracing import Programs
from triton_agent.tools.kernel_profile import Profile, Roofline, StepTime
from triton_agent.tools.race.clock_room import Place
from triton_agent.tools.race.late_value import LateClock
from triton_agent.tools.race.timekeeper import Timekeeper
from triton_agent.tools.results import (
    CaseAccuracy,
    Determinism,
    Evidence,
    KernelLaunch,
    KernelResources,
    StageTime,
    Timing,
)
from triton_agent.tools.settings import EvaluatorSettings


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """The state of one candidate on its way through the stages."""

    source: str
    plan: Plan
    settings: EvaluatorSettings
    programs: Programs
    """The candidate's tapes."""
    runner: Session
    """The executor."""
    reader: Session | None = None
    """For a verdict on a GPU: an executor with the interpreter, which sees the numbers that kernels compute."""
    file: str = ""
    """Text of a shipped file with the same kernels, which is timed instead of the tapes; empty for candidates."""
    compiler: Session | None
    """Without a GPU: a worker that compiles for the named target; a compile error is the candidate's failure."""
    ahead: list[Session] = dataclasses.field(default_factory=list)
    """For a GPU: compile workers that fill the executor's cache; no verdict depends on them."""
    prepared: dict[str, int | None] = dataclasses.field(default_factory=dict)
    """Names of the tapes that the executor has, with the version of the parameters that it has for each."""
    kept: Case | None = None
    """The case whose inputs the executor still has."""
    on_stage: Callable[[str], None]
    accuracy: list[CaseAccuracy] = dataclasses.field(default_factory=list)
    resources: list[KernelResources] = dataclasses.field(default_factory=list)
    launches: list[KernelLaunch] = dataclasses.field(default_factory=list)
    torch_operators: list[str] = dataclasses.field(default_factory=list)
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    stages: list[StageTime] = dataclasses.field(default_factory=list)
    timings: list[Timing] = dataclasses.field(default_factory=list)
    determinism: Determinism = Determinism.NOT_MEASURED
    peak_bytes: int | None = None
    original_peak_bytes: int | None = None
    roofline: Roofline | None = None
    step_times: tuple[StepTime, ...] | None = None
    """Device times of the steps of a call; empty if they are not taken, None if that is not decided yet."""
    profile: Profile | None = None
    failure: Failed | None = None
    left_out: dict[Trial, str] = dataclasses.field(default_factory=dict)
    """Trials at larger sizes that the candidate's kernels have outgrown, with the reason."""
    leaders: Leaders = dataclasses.field(default_factory=Leaders)
    """The fastest candidates of this problem so far."""
    gpu: Place
    """The lease of the GPU; does nothing on a CPU."""
    await_room: Callable[[], None] = lambda: None
    """For problems with gigabytes of tensors: waits until no other candidate holds such memory on the card."""
    clock: LateClock[Timekeeper] | None = None
    """The clock that times candidates; None if nothing is timed."""

    def trials(self) -> list[Trial]:
        """Return the trials of the plan, without those left out."""
        return [trial for trial in self.plan.trials if trial not in self.left_out]
