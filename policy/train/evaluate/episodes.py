"""Figures of a policy from episodes of several turns at held-out problems, with intervals over problems.

Pure statistics. An episode is correct if one of its turns is, and fast if one of its turns is correct and faster than
the baseline with confidence. The figures `valid`, `compiled` and `hack` are shares of all answers. Problems are the
unit of resampling, so an interval covers other problems of the same kind; below about ten problems it is too narrow. A
turn that could not be measured is counted but enters no figure.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from triton_agent.policy.train.evaluate.figures import Figures, JudgedAnswer, scores
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record.rewards import speedup_over
from triton_agent.tools.estimates import mean, pass_at, resampled
from triton_agent.tools.results import Interval, Status

BASELINES = ("eager", "compile")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEpisode:
    """The answers of one episode, in the order of its turns."""

    problem: str
    answers: tuple[JudgedAnswer, ...]


def figures_of(episodes: Sequence[JudgedEpisode], recipe: Recipe, ks: Sequence[int] = (1,)) -> Figures:
    """Compute all figures. Problems have equal weight, independent of their numbers of episodes."""
    known = estimates(episodes, recipe, ks, _timed(episodes))
    found = {name: by_problem for name, by_problem in known.items() if by_problem}
    answers = [answer for episode in episodes for answer in episode.answers]
    return Figures(
        answers=len(answers),
        unmeasured=sum(answer.evaluation is None for answer in answers),
        values={name: resampled(list(by_problem.values()), mean) for name, by_problem in found.items()},
    )


def gains(
    before: Sequence[JudgedEpisode], after: Sequence[JudgedEpisode], recipe: Recipe, ks: Sequence[int] = (1,)
) -> dict[str, Interval]:
    """Return the gain of the second policy in each figure, paired over the problems that both answered.

    A policy without any right answer has no times; its answers count as slow if those of the other one were timed.
    """
    timed = _timed([*before, *after])
    old, new = (estimates(episodes, recipe, ks, timed) for episodes in (before, after))
    found = {}
    for name in old:
        shared = sorted(old[name].keys() & new[name].keys())
        if shared:
            found[name] = resampled([new[name][problem] - old[name][problem] for problem in shared], mean)
    return found


def estimates(
    episodes: Sequence[JudgedEpisode], recipe: Recipe, ks: Sequence[int], timed: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return each figure's value per problem where it is known, by figure and problem.

    `timed`: the baselines that answers were timed against.
    """
    score = scores(recipe)
    correct = score["correct"]
    found = {
        name: _means(_rows(episodes, lambda one, name=name: map(score[name], one.answers)))  # type: ignore[misc]
        for name in ("valid", "compiled", "hack", "reward")
    }
    found["correct first turn@1"] = _means(_rows(episodes, lambda one: map(correct, one.answers[:1])))
    right = _rows(episodes, lambda one: map(correct, one.answers))
    for k in ks:
        found[f"correct@{k}"] = {
            problem: pass_at(k, [max(row) for row in rows]) for problem, rows in right.items() if len(rows) >= k
        }
    for baseline in timed:
        fast = _rows(episodes, lambda one, to=baseline: (_fast(answer, to) for answer in one.answers))  # type: ignore[misc]
        found[f"fast_1@1 {baseline}"] = {
            problem: statistics.fmean(max(row) for row in rows) for problem, rows in fast.items()
        }
    found["turns to first correct"] = _means(_rows(episodes, _first_correct))
    return found


Row = Callable[[JudgedEpisode], Iterable[float | None]]


def _rows(episodes: Sequence[JudgedEpisode], row_of: Row) -> dict[str, list[list[float]]]:
    """Return the known scores of each episode, by problem; an episode without any is left out."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for episode in episodes:
        row = [value for value in row_of(episode) if value is not None]
        if row:
            found[episode.problem].append(row)
    return found


def _means(rows: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    return {problem: statistics.fmean(value for row in own for value in row) for problem, own in rows.items()}


def _first_correct(episode: JudgedEpisode) -> list[float | None]:
    for turn, answer in enumerate(episode.answers, start=1):
        if answer.evaluation is not None and answer.evaluation.status is Status.PASSED:
            return [float(turn)]
    return []


def _fast(answer: JudgedAnswer, baseline: str) -> float | None:
    """Score an answer: 1 if it is right and faster than the baseline with confidence; None if a right one was not
    timed.
    """
    if answer.evaluation is None or answer.evaluation.status is not Status.PASSED:
        return None if answer.evaluation is None else 0.0
    speedup = speedup_over(answer.evaluation, baseline)
    return None if speedup is None else float(speedup.low > 1.0)


def _timed(episodes: Sequence[JudgedEpisode]) -> list[str]:
    """Return the baselines that an answer was timed against."""
    judged = [one.evaluation for episode in episodes for one in episode.answers if one.evaluation is not None]
    return [baseline for baseline in BASELINES if any(speedup_over(evaluation, baseline) for evaluation in judged)]
