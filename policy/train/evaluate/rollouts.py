"""Lets a policy answer held-out problems over several turns, and stores every episode.

An episode is a run of its own, with an id derived from the policy's weights, the problems and the settings. An
interrupted evaluation therefore continues where it stopped, and a repeated one is read from the store.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Callable

from triton_agent.memory.records import GradingMachine
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.policy.protocol import Policy
from triton_agent.policy.rollout import roll_out
from triton_agent.policy.train.evaluate.episodes import JudgedEpisode
from triton_agent.policy.train.evaluate.figures import JudgedAnswer
from triton_agent.policy.train.online.rollouts import EpisodeStore, OpenProblem, ProblemSource, SharedVerdicts


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
) -> list[JudgedEpisode]:
    """Return the judged episodes of all problems that can be judged.

    `on_progress` is called with the number of problems done and in total.
    """
    kept = EpisodeStore(store, identity, policy.name, problems.names, turns=settings.turns, seed=settings.seed)
    names, found = list(problems.names), list[JudgedEpisode]()
    histories = {name: kept.ended(0, name, settings.answers) for name in names}
    parts = [names[first : first + settings.open_at_once] for first in range(0, len(names), settings.open_at_once)]
    left = [[name for name in part if histories[name] is None] for part in parts]
    opening = asyncio.create_task(_open(problems, left[0])) if parts else None
    try:
        for number, part in enumerate(parts):
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
            found += [_judged(name, history) for name in part for history in histories[name] or ()]
            on_progress(len(names[: (number + 1) * settings.open_at_once]), len(names))
    finally:
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
    return found


async def _open(problems: ProblemSource, names: list[str]) -> dict[str, OpenProblem]:
    """Open the problems, with judges that judge equal files of one problem once."""
    opened = await problems.open(names) if names else {}
    return {
        name: OpenProblem(view=one.view, judge=SharedVerdicts(one.judge), rules=one.rules)
        for name, one in opened.items()
    }


def _judged(name: str, history: list[Graded]) -> JudgedEpisode:
    return JudgedEpisode(
        problem=name,
        answers=tuple(
            JudgedAnswer(problem=name, source=graded.attempt.source or "", evaluation=graded.evaluation)
            for graded in history
        ),
    )
