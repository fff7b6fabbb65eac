"""Chooses the task of each answer of a language model: repair, improve, start over, or combine two attempts.

A task pays off if its attempt surpasses the best of all earlier turns. How often each task pays off is estimated from
this run and from earlier runs in the store. Each answer's task is drawn by Thompson sampling: draw a success rate for
each possible task from its Beta distribution, and take the task with the highest. Tasks that pay off are chosen more
often, and tasks with few trials still get their turn.

Pure functions of history, counts and seed, so a resumed run searches as the uninterrupted run would have. Not covered:
policies that do not read a task; their parents are chosen in `search.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from triton_agent.agent.search import beam, repairs_of
from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.observation import Task
from triton_agent.policy.episode import Graded
from triton_agent.tools.ranking import best_of

PRIOR = (1.0, 3.0)
"""Successes and failures assumed for every task before there are any results: one answer in four pays off."""
EARLIER_AT_MOST = 20.0
"""Answers of earlier runs count as at most this many for each task, so that a run's own results soon weigh more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskCount:
    """How often a task was given, and how often it paid off."""

    answers: int = 0
    paid: int = 0

    def __add__(self, other: TaskCount) -> TaskCount:
        return TaskCount(answers=self.answers + other.answers, paid=self.paid + other.paid)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The task that one answer is given."""

    parent: str | None = None
    task: Task = Task.ANY
    partner: str | None = None
    """Key of the second attempt, for `combine`."""


def task_counts(history: Sequence[Graded]) -> dict[Task, TaskCount]:
    """Count how often each task was given in this history and paid off."""
    found: dict[Task, TaskCount] = {}
    for turn, items in itertools.groupby(history, key=lambda item: item.attempt.turn):
        best = best_of([item for item in history if item.attempt.turn < turn])
        for item in items:
            task = item.attempt.observation.task
            if task is not Task.ANY and item.evaluation is not None:
                paid = item.standing.passed and item.standing.surpasses(best.standing if best else None)
                found[task] = found.get(task, TaskCount()) + TaskCount(answers=1, paid=int(paid))
    return found


def summed(earlier: Iterable[Mapping[str, Sequence[int]]]) -> dict[Task, TaskCount]:
    """Add up the counts that earlier runs left in their summaries; see `to_plain`."""
    found: dict[Task, TaskCount] = {}
    for plain in earlier:
        for task in set(plain) & set(Task):  # other versions of this program may know other tasks
            answers, paid = plain[task]
            found[Task(task)] = found.get(Task(task), TaskCount()) + TaskCount(answers=answers, paid=paid)
    return found


def to_plain(found: Mapping[Task, TaskCount]) -> dict[str, list[int]]:
    return {task.value: [count.answers, count.paid] for task, count in found.items()}


def belief(task: Task, own: Mapping[Task, TaskCount], earlier: Mapping[Task, TaskCount]) -> tuple[float, float]:
    """Return the parameters of a task's Beta distribution."""
    before, now = earlier.get(task, TaskCount()), own.get(task, TaskCount())
    weight = min(1.0, EARLIER_AT_MOST / before.answers) if before.answers else 0.0
    wins, losses = PRIOR
    return (
        wins + now.paid + weight * before.paid,
        losses + (now.answers - now.paid) + weight * (before.answers - before.paid),
    )


def assign(
    history: Sequence[Graded], settings: LoopSettings, earlier: Mapping[Task, TaskCount], *, turn: int, n: int
) -> list[Assigned]:
    """Choose the task and parents of each of n answers."""
    incumbents = [item.attempt.key for item in beam(history, settings.beam)]
    repairs = repairs_of(history)
    possible = [Task.RESTART] if history else [Task.ANY]
    possible += [Task.REPAIR] if repairs else []
    possible += [Task.IMPROVE] if incumbents else []
    possible += [Task.COMBINE] if len(incumbents) > 1 else []
    own, chance = task_counts(history), random.Random(f"{settings.seed}/{turn}/tasks")
    beliefs = {task: belief(task, own, earlier) for task in possible}
    given: Counter[Task] = Counter()
    chosen = []
    for _ in range(n):
        task = max(possible, key=lambda task: chance.betavariate(*beliefs[task]))
        chosen.append(_assigned(task, given[task], incumbents, repairs))
        given[task] += 1
    return chosen


def _assigned(task: Task, number: int, incumbents: Sequence[str], repairs: Sequence[str]) -> Assigned:
    """Return the assignment. `number` counts the turn's earlier answers with this task, to spread them over the
    parents.
    """
    if task is Task.REPAIR:
        return Assigned(parent=repairs[number % len(repairs)], task=task)
    if task is Task.IMPROVE:
        return Assigned(parent=incumbents[number % len(incumbents)], task=task)
    if task is Task.COMBINE:
        return Assigned(parent=incumbents[0], task=task, partner=incumbents[1 + number % (len(incumbents) - 1)])
    return Assigned(task=task)
