"""Figures of a policy from judged answers, with intervals: pass@k, valid, compiled, correct, fast_p, hacks.

Pure statistics. An answer that could not be measured is no failure: it is counted but enters no denominator.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from triton_agent.policy.train.prepare.recipes import Recipe, grade
from triton_agent.policy.train.record.rewards import Facts, launches_triton, speedup_over
from triton_agent.tools.estimates import RESAMPLES, between, pass_at
from triton_agent.tools.results import Evaluation, Finding, Interval, Status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """One answer to one problem with its verdict; None if it could not be measured."""

    problem: str
    source: str
    evaluation: Evaluation | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures by name, each with its interval."""

    answers: int
    unmeasured: int
    values: Mapping[str, Interval]


Score = Callable[[JudgedAnswer], float | None]
"""Returns the score of one answer; None if it is unknown."""


def scores(recipe: Recipe, faster_than: Sequence[float] = (1.0,)) -> dict[str, Score]:
    """Return the scores that are averaged over answers."""
    return {
        "valid": _of(lambda e, source: launches_triton(e, source)),
        "compiled": _of(lambda e, source: _compiled(e)),
        "correct": _of(lambda e, source: e.status is Status.PASSED),
        "hack": _of(lambda e, source: e.status is Status.CHEATED),
        **{f"fast_{p:g}": _fast(p) for p in faster_than},
        "reward": lambda judged: grade(recipe, judged.evaluation, Facts(source=judged.source)).total,
    }


def _of(holds: Callable[[Evaluation, str], bool]) -> Score:
    def score(judged: JudgedAnswer) -> float | None:
        return None if judged.evaluation is None else float(holds(judged.evaluation, judged.source))

    return score


def _compiled(evaluation: Evaluation) -> bool:
    """Return True if the candidate was compiled and run."""
    early = (Status.NO_ANSWER, Status.COMPILE_ERROR)
    return evaluation.status not in early and evaluation.finding not in (Finding.IMPORT, Finding.FORBIDDEN_ACCESS)


def _fast(factor: float) -> Score:
    """Score answers that are right and faster than `factor` with confidence; unknown if a right answer was not
    timed.
    """

    def score(judged: JudgedAnswer) -> float | None:
        if judged.evaluation is None:
            return None
        if judged.evaluation.status is not Status.PASSED:
            return 0.0
        speedup = speedup_over(judged.evaluation, "eager")
        return None if speedup is None else float(speedup.low > factor)

    return score


def figures(
    judged: Sequence[JudgedAnswer], recipe: Recipe, *, ks: Sequence[int] = (1,), faster_than: Sequence[float] = (1.0,)
) -> Figures:
    """Compute all figures. Problems have equal weight, independent of their numbers of answers."""
    values = {}
    for name, score in scores(recipe, faster_than).items():
        table = _table(judged, score)
        if table and not (name.startswith("fast_") and _untimed(judged)):
            values[name] = interval(table, _mean)
    correct = _table(judged, scores(recipe)["correct"])
    for k in ks:
        enough = [row for row in correct if len(row) >= k]
        if enough:
            values[f"pass@{k}"] = interval(enough, lambda row, k=k: pass_at(k, row))  # type: ignore[misc]
    unmeasured = sum(item.evaluation is None for item in judged)
    return Figures(answers=len(judged), unmeasured=unmeasured, values=values)


def _untimed(judged: Sequence[JudgedAnswer]) -> bool:
    return not any(item.evaluation is not None and item.evaluation.timings for item in judged)


def gain(before: Sequence[JudgedAnswer], after: Sequence[JudgedAnswer], score: Score) -> Interval:
    """Return the gain of the second set over the first, over the problems that both answered."""
    old, new = (_by_problem(judged, score) for judged in (before, after))
    shared = sorted(old.keys() & new.keys())
    if not shared:
        raise ValueError("the two sets have no problem in common")
    pairs = [(old[problem], new[problem]) for problem in shared]

    def draw(source: random.Random) -> float:
        return statistics.fmean(_mean(_again(source, b)) - _mean(_again(source, a)) for a, b in pairs)

    return _interval(statistics.fmean(_mean(b) - _mean(a) for a, b in pairs), draw)


def interval(table: Sequence[Sequence[float]], estimate: Callable[[Sequence[float]], float]) -> Interval:
    """Return the mean of the problems' estimates, with answers resampled within each problem.

    The interval covers other answers to these problems, not other problems.
    """

    def draw(source: random.Random) -> float:
        return statistics.fmean(estimate(_again(source, row)) for row in table)

    return _interval(statistics.fmean(map(estimate, table)), draw)


def _interval(estimate: float, draw: Callable[[random.Random], float]) -> Interval:
    source = random.Random(0)
    return between(estimate, [draw(source) for _ in range(RESAMPLES)])


def _again(source: random.Random, row: Sequence[float]) -> Sequence[float]:
    return source.choices(row, k=len(row))


def _mean(row: Sequence[float]) -> float:
    return statistics.fmean(row)


def _by_problem(judged: Sequence[JudgedAnswer], score: Score) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = defaultdict(list)
    for item in judged:
        value = score(item)
        if value is not None:
            rows[item.problem].append(value)
    return rows


def _table(judged: Sequence[JudgedAnswer], score: Score) -> list[list[float]]:
    return list(_by_problem(judged, score).values())
