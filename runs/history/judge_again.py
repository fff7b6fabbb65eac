"""Judges stored sources once more, on this machine, and compares verdict by verdict and ratio by ratio.

The first half of trust: whoever doubts a stored verdict lets it be reached again. Statuses have to agree wherever they
were reached; speed-ups are compared only where both were timed, by whether their intervals overlap, since another GPU
has another ratio. What cannot be measured here is told apart from what differs.
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
from triton_agent.runs.history.records import Graded
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.evaluate.sets_evaluator import evaluator_for
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Evaluation, Interval, to_json
from triton_agent.tools.settings import EvaluatorSettings

SHAPES = ("family", "given")


class Agreement(enum.StrEnum):
    """How a verdict reached now compares with the stored one."""

    SAME = "same"
    DIFFERS = "differs"
    NEW = "new"
    """There was no verdict before: it could not be measured, or was not judged."""
    NOT_MEASURED = "not measured"
    """There is none now; says nothing of the kernel."""


class Ratio(enum.StrEnum):
    """How a speed-up measured now compares with the stored one."""

    OVERLAP = "overlap"
    APART = "apart"
    NOT_COMPARED = "not compared"
    """One of the two was not measured."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A source to be judged again, and what was said of it."""

    name: str
    source: str
    before: Evaluation | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Then and now."""

    subject: Subject
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
        """For programs."""
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


def subjects_of(items: Sequence[Graded]) -> list[Subject]:
    """Those that wrote a candidate; an answer without one has nothing to be judged again."""
    return [
        Subject(name=item.name, source=item.attempt.source, before=item.evaluation)
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
    """Judge as it was judged then, on `device`: `cpu`, `cuda`, or `auto` for a GPU where there is one.

    `asked` are the run's settings; of what it names, only the sizes to judge at matter to a verdict beyond the rules.
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
        raise UsageError(f"it was judged by rules that are not known here: {error}") from None


def judge_again(
    spec: ProblemSpec,
    subjects: Sequence[Subject],
    settings: EvaluatorSettings,
    *,
    jobs: int = 0,
    on_stage: Callable[[str, str], None] = lambda name, stage: None,
) -> Generator[Outcome, None, None]:
    """Outcomes in the order of the subjects, each as soon as it and those before it are there."""
    with evaluator_for(spec, settings) as evaluator:

        def one(subject: Subject) -> Evaluation | InstrumentError:
            try:
                return evaluator.evaluate(subject.source, lambda stage: on_stage(subject.name, stage))
            except InstrumentError as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(min(jobs or os.cpu_count() or 1, max(1, len(subjects)))) as pool:
            futures = [pool.submit(one, subject) for subject in subjects]
            try:
                for subject, future in zip(subjects, futures):
                    yield Outcome(subject=subject, now=future.result())
            except BaseException:
                for future in futures:
                    future.cancel()
                evaluator.close()  # what still runs must not hold up a Ctrl-C
                raise
