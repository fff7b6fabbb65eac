"""Runs episodes in lock step for a trainer: all take their next turn together, so that a policy answers in batches.

No graph, no search, no store: the results are returned as values. Uses `observe` and `step` as the agent's graph does;
with the same answers both build the same observations.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Completion, GradingMachine
from triton_agent.policy.episode import Graded, Judge, observe, predecessor, step, trajectory_seed
from triton_agent.policy.protocol import Policy


@dataclasses.dataclass(slots=True, kw_only=True)
class Episode:
    """A trajectory in progress."""

    run: str
    """Run id in the keys of its attempts; every episode has its own, from which its seed follows."""
    problem: ProblemView
    judge: Judge
    rules: Rules
    seed: int = 0
    history: list[Graded] = dataclasses.field(default_factory=list)
    over: bool = False
    """True once the policy has no more to propose."""


async def roll_out(
    episodes: Sequence[Episode], policy: Policy, *, turns: int, machine: GradingMachine | None = None
) -> list[list[Graded]]:
    """Let every episode take `turns` turns; return the graded attempts of each, in order."""
    if len({episode.run for episode in episodes}) < len(episodes):
        raise ValueError("two episodes have one run id: they would draw the same answers under the same keys")
    for turn in range(turns):
        going = [episode for episode in episodes if not episode.over]
        if not going:
            break
        observations = [_observation(episode, turn, turns) for episode in going]
        answers = await policy.propose_many(observations)
        steps = [_take(episode, seen, answer, machine) for episode, seen, answer in zip(going, observations, answers)]
        await asyncio.gather(*steps)
    return [episode.history for episode in episodes]


def _observation(episode: Episode, turn: int, turns: int) -> Observation:
    return observe(
        episode.problem,
        episode.rules,
        episode.history,
        BudgetLeft(turns=turns - turn),
        turn=turn,
        attempts_before=len(episode.history),
        seed=trajectory_seed(episode.run, episode.seed),
        parent=predecessor(episode.history, turn=turn, index=0),
    )


async def _take(episode: Episode, seen: Observation, answer: Completion | None, machine: GradingMachine | None) -> None:
    if answer is None:
        episode.over = True
        return
    parent = seen.parent.attempt if seen.parent else None
    graded = await step(episode.run, seen, answer, episode.judge, parent=parent, machine=machine)
    episode.history.append(graded)
