"""Lets a policy answer held-out problems over several turns, and stores every episode.

An episode is a run of its own, with an id derived from the policy's weights, the problems and the settings. An
interrupted evaluation therefore continues where it stopped, and a repeated one is read from the store. What was judged
without a GPU may be judged on one afterwards: its verdict is stored as a second one, which counts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

from triton_agent.memory.records import GradingMachine
from triton_agent.memory.store import Store
from triton_agent.memory.verdicts import passed
from triton_agent.policy.episode import Graded, grade
from triton_agent.policy.protocol import Policy
from triton_agent.policy.rollout import roll_out
from triton_agent.policy.train.evaluate.episodes import JudgedEpisode
from triton_agent.policy.train.evaluate.figures import JudgedAnswer
from triton_agent.policy.train.online.rollouts import EpisodeStore, OpenProblem, ProblemSource, SharedVerdicts

Histories = Mapping[str, Sequence[Sequence[Graded]]]
"""For each problem, the graded answers of its episodes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    answers: int = 4
    """Episodes per problem."""
    turns: int = 2
    seed: int = 0
    batch_size: int | None = 16
    """Episodes that the policy is asked about at once; None for all that are ready."""
    open_at_once: int = 16
    """Problems whose evaluators run at the same time."""


def identity_of(said: object) -> str:
    """Return the prefix of an evaluation's run ids; `said` is everything that its answers depend on, as plain data."""
    return f"eval-{hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]}"


async def evaluate(
    problems: ProblemSource,
    policy: Policy,
    store: Store,
    identity: str,
    settings: RolloutSettings,
    *,
    machine: GradingMachine | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Histories:
    """Return the episodes of all problems that can be judged.

    `on_progress` is called with the number of problems done and in total.
    """
    kept = EpisodeStore(store, identity, policy.name, problems.names, turns=settings.turns, seed=settings.seed)
    names = list(problems.names)
    histories = {name: kept.ended(0, name, settings.answers) for name in names}
    parts = [names[first : first + settings.open_at_once] for first in range(0, len(names), settings.open_at_once)]
    left = [[name for name in part if histories[name] is None] for part in parts]
    opening = asyncio.create_task(_open(problems, left[0])) if parts else None
    try:
        for number in range(len(parts)):
            assert opening is not None
            opened = await opening
            if number + 1 < len(parts):  # open the next part while this one is rolled out
                opening = asyncio.create_task(_open(problems, left[number + 1]))
            episodes = kept.episodes(0, opened, settings.answers)
            rolled = await roll_out(
                episodes,
                policy,
                turns=settings.turns,
                batch_size=settings.batch_size,
                keeper=kept,
                machine=machine,
                until_right=True,
            )
            kept.end_early(episodes)
            for place, name in enumerate(opened):
                histories[name] = rolled[place * settings.answers : (place + 1) * settings.answers]
            on_progress(len(names[: (number + 1) * settings.open_at_once]), len(names))
    finally:
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
    return {name: found for name, found in histories.items() if found is not None}


async def time_right_answers(
    problems: ProblemSource,
    store: Store,
    histories: Histories,
    open_at_once: int,
    *,
    machine: GradingMachine | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Histories:
    """Judge the right answers that were not timed once more, by `problems`, and store these verdicts, too."""
    found = dict(histories)
    due = [name for name, own in histories.items() if any(_is_untimed(one) for history in own for one in history)]
    for first in range(0, len(due), open_at_once):
        opened = await _open(problems, due[first : first + open_at_once])

        async def again(one: Graded, problem: OpenProblem) -> Graded:
            if not _is_untimed(one):
                return one
            grading = await grade(one.attempt, problem.judge, machine or GradingMachine())
            store.add_grading(grading)
            return dataclasses.replace(one, grading=grading)

        async def all_again(name: str, problem: OpenProblem) -> None:
            own = [asyncio.gather(*(again(one, problem) for one in history)) for history in histories[name]]
            found[name] = await asyncio.gather(*own)

        await asyncio.gather(*(all_again(name, problem) for name, problem in opened.items()))
        on_progress(min(first + open_at_once, len(due)), len(due))
    return found


def _is_untimed(graded: Graded) -> bool:
    evaluation = graded.evaluation
    return evaluation is not None and passed(evaluation) and not evaluation.timings


async def _open(problems: ProblemSource, names: list[str]) -> dict[str, OpenProblem]:
    """Open the problems, with judges that judge equal files of one problem once."""
    opened = await problems.open(names) if names else {}
    return {
        name: OpenProblem(view=one.view, judge=SharedVerdicts(one.judge), rules=one.rules)
        for name, one in opened.items()
    }


def as_episodes(histories: Histories) -> list[JudgedEpisode]:
    """Return the episodes without what only the store needs."""
    return [
        JudgedEpisode(
            problem=name,
            answers=tuple(
                JudgedAnswer(problem=name, source=graded.attempt.source or "", evaluation=graded.evaluation)
                for graded in history
            ),
        )
        for name, own in histories.items()
        for history in own
    ]
