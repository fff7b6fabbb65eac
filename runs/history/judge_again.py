"""Evaluates stored sources again on this machine and compares verdicts and speed-ups.

This lets anybody check a stored verdict. Statuses have to agree on every machine; speed-ups are compared only where
both were timed, by whether their intervals overlap, since another GPU has another ratio. A kernel that cannot be
measured here counts apart from one whose verdict differs.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from triton_agent.memory.observation import Rules
from triton_agent.memory.verdicts import speedup_of
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Evaluation, Interval, to_json
from triton_agent.tools.settings import EvaluatorSettings

SHAPES = ("family", "given")


class Agreement(enum.StrEnum):
    """How a new verdict compares with the stored one."""

    SAME = "same"
    DIFFERS = "differs"
    NEW = "new"
    """There was no verdict before: it could not be measured, or was not judged."""
    NOT_MEASURED = "not measured"
    """There is no new verdict; this says nothing about the kernel."""


class Ratio(enum.StrEnum):
    """How a new speed-up compares with the stored one."""

    OVERLAP = "overlap"
    APART = "apart"
    NOT_COMPARED = "not compared"
    """One of the two was not measured."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredCandidate:
    """A source to evaluate again, and its stored verdict."""

    name: str
    source: str
    before: Evaluation | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A stored and a new verdict."""

    subject: StoredCandidate
    now: Evaluation | InstrumentError

    @property
    def agreement(self) -> Agreement:
        if isinstance(self.now, InstrumentError):
            return Agreement.NOT_MEASURED
        before = self.subject.before
        if before is None:
            return Agreement.NEW
        return Agreement.SAME if before.status is self.now.status else Agreement.DIFFERS

    @property
    def speedups(self) -> tuple[Interval | None, Interval | None]:
        now = None if isinstance(self.now, InstrumentError) else self.now
        return speedup_of(self.subject.before), speedup_of(now)

    @property
    def ratio(self) -> Ratio:
        before, now = self.speedups
        if before is None or now is None:
            return Ratio.NOT_COMPARED
        return Ratio.OVERLAP if before.low <= now.high and now.low <= before.high else Ratio.APART

    def to_json(self) -> dict[str, Any]:
        before, (then, now) = self.subject.before, self.speedups
        measured = isinstance(self.now, Evaluation)
        reason = self.now.what if isinstance(self.now, InstrumentError) else ""
        return {
            "attempt": self.subject.name,
            "agreement": self.agreement.value,
            "before": _short(before) | {"speedup": to_json(then)},
            "now": (_short(self.now) if measured else {"not_measured": reason}) | {"speedup": to_json(now)},
            "ratio": self.ratio.value,
        }


def _short(verdict: Evaluation | InstrumentError | None) -> dict[str, Any]:
    if not isinstance(verdict, Evaluation):
        return {"status": None}
    place = verdict.environment
    return {
        "status": verdict.status.value,
        "finding": to_json(verdict.finding),
        "message": verdict.message,
        "mode": place.mode,
        "device": place.device,
        "grader": place.grader,
    }


def subjects_of(items: Sequence[StoredAttempt]) -> list[StoredCandidate]:
    """Return the attempts that hold a candidate."""
    return [
        StoredCandidate(name=item.name, source=item.attempt.source, before=item.evaluation)
        for item in items
        if item.attempt.source is not None
    ]


def settings_like(
    rules: Rules,
    before: Sequence[Evaluation | None],
    device: str,
    asked: Mapping[str, Any],
    *,
    trust: bool = True,
) -> EvaluatorSettings:
    """Return settings as in the stored evaluation, on `device`: `cpu`, `cuda`, or `auto` for a GPU if there is one.

    `asked` holds the run's settings; beyond the rules only its choice of sizes matters to a verdict.
    """
    targets = {verdict.environment.target for verdict in before if verdict is not None}
    target = targets.pop() if len(targets) == 1 else rules.target
    if target is not None:
        parse_target(target)
    shapes = asked.get("shapes")
    try:
        return EvaluatorSettings(
            device=("cuda" if visible_gpus() else "cpu") if device == "auto" else device,
            target=target,
            allow_library=rules.allow_library,
            precision=rules.precision,
            shapes=shapes if shapes in SHAPES else "family",
            trust=trust,
        )
    except ValueError as error:
        raise UsageError(f"the stored rules are not known here: {error}") from None


def judge_again(
    spec: ProblemSpec,
    subjects: Sequence[StoredCandidate],
    settings: EvaluatorSettings,
    *,
    jobs: int = 0,
    on_stage: Callable[[str, str], None] = lambda name, stage: None,
    say: Callable[[str], None] = lambda text: None,
) -> Generator[Comparison, None, None]:
    """Yield outcomes in the order of the subjects, each as soon as possible."""
    with evaluator_for(spec, settings, say=say) as evaluator:

        def one(subject: StoredCandidate) -> Evaluation | InstrumentError:
            try:
                return evaluator.evaluate(subject.source, lambda stage: on_stage(subject.name, stage))
            except InstrumentError as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(min(jobs or os.cpu_count() or 1, max(1, len(subjects)))) as pool:
            futures = [pool.submit(one, subject) for subject in subjects]
            try:
                for subject, future in zip(subjects, futures):
                    yield Comparison(subject=subject, now=future.result())
            except BaseException:
                for future in futures:
                    future.cancel()
                evaluator.close()  # evaluations under way must not delay the exit after Ctrl-C
                raise
