"""Runs episodes for a trainer: candidates are judged while the policy answers other episodes.

There is no graph and no search. `observe` and `grade` are the functions that the agent's graph uses, so the same
answers lead to the same observations. An episode takes its next turn as soon as it has its verdict, independently of
the others. A `Keeper` is given every answer before it is judged and every verdict, so that a killed trainer loses
neither. It writes in a thread, as verdicts arrive meanwhile.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Attempt, Completion, Grading, GradingMachine
from triton_agent.policy.episode import Graded, Judge, grade, make_attempt, observe, predecessor, trajectory_seed
from triton_agent.policy.protocol import Policy
from triton_agent.tools.ranking import standing

Result = TypeVar("Result")


@dataclasses.dataclass(slots=True, kw_only=True)
class Episode:
    """A trajectory in progress."""

    run: str
    """Run id in the keys of its attempts. Every episode needs its own, because its seed is derived from the id."""
    problem: ProblemView
    judge: Judge
    rules: Rules
    seed: int = 0
    history: list[Graded] = dataclasses.field(default_factory=list)
    unjudged: Attempt | None = None
    """An answer that an earlier process stored and did not judge; it is judged first."""
    over: bool = False
    """True once the policy has no more to propose."""


class Keeper(Protocol):
    """Stores answers and verdicts of episodes as they arrive."""

    def keep_answers(self, attempts: Sequence[Attempt]) -> None:
        """Store answers before they are judged."""

    def keep_verdicts(self, gradings: Sequence[Grading]) -> None:
        """Store verdicts on stored answers."""


@dataclasses.dataclass(slots=True)
class TimeSpent:
    """Seconds that a rollout spent on generation and on verdicts."""

    generation_s: float = 0.0
    """Time during which the policy was answering."""
    verdicts_s: float = 0.0
    """Time during which only verdicts were under way."""
    overlapped_s: float = 0.0
    """Part of `generation_s` during which verdicts were under way, too."""
    storing_s: float = 0.0
    """Time during which answers and verdicts were stored; generation and verdicts may have been under way, too."""


async def roll_out(
    episodes: Sequence[Episode],
    policy: Policy,
    *,
    turns: int,
    batch_size: int | None = None,
    questions: int = 1,
    keeper: Keeper | None = None,
    machine: GradingMachine | None = None,
    spent: TimeSpent | None = None,
    until_right: bool = False,
) -> list[list[Graded]]:
    """Roll out every episode for up to `turns` turns; return the graded attempts of each, in order.

    With `until_right` an episode also ends at a right kernel that was not timed.

    The policy is asked about at most `batch_size` episodes at once (None: all that are ready), in at most `questions`
    batches at a time: one for an engine that takes one batch after the other, more for an engine that batches by
    itself.
    """
    if len({episode.run for episode in episodes}) < len(episodes):
        raise ValueError("two episodes have one run id: they would draw the same answers under the same keys")
    spent = spent or TimeSpent()
    machine = machine or GradingMachine()
    ready = collections.deque(one for one in episodes if not one.unjudged and _goes_on(one, turns, until_right))
    asked: dict[asyncio.Task[list[Completion | None]], tuple[list[Episode], list[Observation]]] = {}
    judged: dict[asyncio.Task[Grading], tuple[Episode, Attempt]] = {}

    def judge(episode: Episode, attempt: Attempt) -> None:
        judged[asyncio.create_task(grade(attempt, episode.judge, machine))] = (episode, attempt)

    def ask() -> None:
        while ready and len(asked) < questions:
            part = [ready.popleft() for _ in range(min(batch_size or len(ready), len(ready)))]
            seen = [_observation(episode, turns) for episode in part]
            asked[asyncio.create_task(policy.propose_many(seen))] = (part, seen)

    for episode in episodes:
        if episode.unjudged:
            judge(episode, episode.unjudged)
    ask()
    try:
        while asked or judged:
            began, asking, judging = time.monotonic(), bool(asked), bool(judged)
            await asyncio.wait([*asked, *judged], return_when=asyncio.FIRST_COMPLETED)
            passed_s = time.monotonic() - began
            spent.generation_s += passed_s if asking else 0.0
            spent.overlapped_s += passed_s if asking and judging else 0.0
            spent.verdicts_s += 0.0 if asking else passed_s
            answered = [pair for task in _done(asked) for pair in _answers(*asked.pop(task), task.result())]
            verdicts = [(*judged.pop(task), task.result()) for task in _done(judged)]
            for episode, attempt, grading in verdicts:
                episode.history.append(Graded(attempt=attempt, grading=grading))
                episode.unjudged = None
                if _goes_on(episode, turns, until_right):
                    ready.append(episode)
            ask()  # before storing, so that the policy does not wait for the disk
            began = time.monotonic()
            if keeper:
                await _store(keeper, [attempt for _, attempt in answered], [grading for _, _, grading in verdicts])
            spent.storing_s += time.monotonic() - began
            for episode, attempt in answered:
                judge(episode, attempt)
    finally:
        for task in (*asked, *judged):
            task.cancel()
        await asyncio.gather(*asked, *judged, return_exceptions=True)
    return [episode.history for episode in episodes]


async def _store(keeper: Keeper, attempts: Sequence[Attempt], gradings: Sequence[Grading]) -> None:
    """Store what has arrived, in a thread. A rollout that is cancelled meanwhile ends only once it is stored."""

    def write() -> None:
        if attempts:
            keeper.keep_answers(attempts)
        if gradings:
            keeper.keep_verdicts(gradings)

    # A future, not a task: Ctrl-C cancels every task of the loop, and a cancelled one loses what waits for its thread.
    written = asyncio.get_running_loop().run_in_executor(None, write)
    try:
        await asyncio.shield(written)
    except asyncio.CancelledError:
        await written
        raise


def _done(tasks: Iterable[asyncio.Task[Result]]) -> list[asyncio.Task[Result]]:
    return [task for task in tasks if task.done()]


def _answers(
    episodes: Sequence[Episode], observations: Sequence[Observation], answers: Sequence[Completion | None]
) -> Iterator[tuple[Episode, Attempt]]:
    """Yield the attempts that these answers make, and mark the episodes that got none."""
    for episode, observation, answer in zip(episodes, observations, answers):
        if answer is None:
            episode.over = True
            continue
        parent = observation.parent.attempt if observation.parent else None
        yield episode, make_attempt(episode.run, observation, answer, index=0, parent=parent)


def _goes_on(episode: Episode, turns: int, until_right: bool) -> bool:
    if until_right and episode.history and cannot_be_surpassed(episode.history[-1].grading):
        return False
    return not episode.over and len(episode.history) < turns


def cannot_be_surpassed(grading: Grading) -> bool:
    """Return True if the kernel passed and was not timed: no later one could be shown to be better."""
    reached = standing(grading.evaluation)
    return reached.passed and reached.speedup is None


def _observation(episode: Episode, turns: int) -> Observation:
    turn = len(episode.history)
    return observe(
        episode.problem,
        episode.rules,
        episode.history,
        BudgetLeft(turns=turns - turn),
        turn=turn,
        attempts_before=turn,
        seed=trajectory_seed(episode.run, episode.seed),
        parent=predecessor(episode.history, turn=turn, index=0),
    )
