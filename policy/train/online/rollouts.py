"""Stores the episodes of an online training, and restores them after a kill.

Every episode is a run of its own, with an id derived from the training, the update, the problem and a number. An answer
is stored with its run before it is judged, and a verdict as soon as it is reached; those that arrive together are one
commit. A killed training therefore loses no verdict, and a resumed one does not ask for or judge again anything that is
stored.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.listing import AttemptFilter
from triton_agent.memory.observation import Observation, ProblemView, Rules
from triton_agent.memory.records import Attempt, Completion, Grading, Run, RunEnd, run_of
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded, Judge
from triton_agent.policy.protocol import Policy
from triton_agent.policy.rollout import Episode, cannot_be_surpassed
from triton_agent.tools.results import Evaluation
from triton_agent.tools.versions import project_version

TURNS_TAKEN = "turns"
"""Stop reason of an episode that took all its turns, as in the agent's loop."""
RIGHT = "right"
"""Stop reason of an episode that ended at a right kernel, where nothing is timed."""
NO_ANSWER = "no answer"
"""Stop reason of an episode that ended before its last turn."""
UPDATES = "updates.jsonl"
"""File of an online training with a line for each update."""
VERDICTS_KEPT = 4096
"""Most verdicts per problem that are cached for equal files."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenProblem:
    """A problem whose evaluator is running."""

    view: ProblemView
    judge: Judge
    rules: Rules = dataclasses.field(default_factory=Rules)


class ProblemSource(Protocol):
    """Opens problems by name."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in a fixed order."""

    async def open(self, names: Sequence[str]) -> Mapping[str, OpenProblem]:
        """Start the evaluators of these problems, and stop some of the others if there are too many."""


class EpisodeStore:
    """The episodes of one training in a store; a `Keeper` of `roll_out`."""

    def __init__(
        self, store: Store, training: str, policy: str, names: Sequence[str], *, turns: int, seed: int
    ) -> None:
        """`names` are all problems of the training. A problem's index among them is part of its runs' ids."""
        self._store, self.training, self._policy = store, training, policy
        self._places = {name: place for place, name in enumerate(names)}
        self._turns, self._seed = turns, seed
        self._runs: dict[str, Run] = {}

    def episodes(self, update: int, problems: Mapping[str, OpenProblem], answers: int) -> list[Episode]:
        """Return `answers` episodes of each problem, with everything that is stored of them."""
        episodes = {}
        for name, problem in problems.items():
            for number in range(answers):
                run = self.run_id(update, name, number)
                episodes[run] = Episode(
                    run=run, problem=problem.view, judge=problem.judge, rules=problem.rules, seed=self._seed
                )
                self._runs[run] = Run(
                    id=run,
                    problem=problem.view,
                    policy=self._policy,
                    settings={"training": self.training, "update": update, "problem": name, "seed": self._seed},
                    started_at=datetime.datetime.now(datetime.UTC),
                    commit=project_version(),
                )
        stored = self._store.iterate(AttemptFilter(runs=tuple(episodes)))
        for attempt, gradings in sorted(stored, key=lambda item: item[0].turn):
            episode = episodes[attempt.run]
            if gradings:
                episode.history.append(Graded(attempt=attempt, grading=gradings[-1]))
            else:
                episode.unjudged = attempt
        return list(episodes.values())

    def run_id(self, update: int, name: str, number: int) -> str:
        """Return the id of an episode's run."""
        return f"{runs_of_update(self.training, update)}{self._places[name]:05}-{number:03}"

    def ended(self, update: int, name: str, answers: int) -> list[list[Graded]] | None:
        """Return the histories of a problem's episodes if all of them have ended, else None."""
        histories: dict[str, list[Graded]] = {self.run_id(update, name, number): [] for number in range(answers)}
        try:
            if any(self._store.end(run) is None for run in histories):
                return None
        except NotInStore:
            return None
        for attempt, gradings in self._store.iterate(AttemptFilter(runs=tuple(histories))):
            histories[attempt.run].append(Graded(attempt=attempt, grading=gradings[-1]))
        return [sorted(history, key=lambda one: one.attempt.turn) for history in histories.values()]

    def end_early(self, episodes: Sequence[Episode]) -> None:
        """Store the end of the episodes to which the policy had no further answer."""
        now = datetime.datetime.now(datetime.UTC)
        for episode in episodes:
            if episode.over:
                begins = [] if episode.history else [self._store.prepare(self._runs[episode.run])]
                end = RunEnd(run=episode.run, stop_reason=NO_ANSWER, best=None, ended_at=now)
                self._commit([*begins, self._store.prepare(end)])

    def keep_answers(self, attempts: Sequence[Attempt]) -> None:
        records = []
        for attempt in attempts:
            if attempt.turn == 0:
                records.append(self._store.prepare(self._runs[attempt.run]))
            records.append(self._store.prepare(attempt))
        self._commit(records)

    def keep_verdicts(self, gradings: Sequence[Grading]) -> None:
        records = []
        for grading in gradings:
            records.append(self._store.prepare(grading))
            run, turn = run_of(grading.attempt), int(grading.attempt.rpartition("/")[2].partition(".")[0])
            is_right = cannot_be_surpassed(grading)
            if is_right or turn + 1 == self._turns:
                reason = RIGHT if is_right else TURNS_TAKEN
                end = RunEnd(run=run, stop_reason=reason, best=None, ended_at=grading.graded_at)
                records.append(self._store.prepare(end))
        self._commit(records)

    def _commit(self, records: list[Any]) -> None:
        for refused in self._store.commit(records):
            if refused is not None:
                raise refused


def runs_of_update(training: str, update: int) -> str:
    """Return the common prefix of the run ids of an update."""
    return f"{training}-{update:05}-"


class SharedVerdicts:
    """A judge that judges equal files once, even if they are requested at the same time."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._known: collections.OrderedDict[str, Evaluation] = collections.OrderedDict()
        self._going: dict[str, asyncio.Task[Evaluation]] = {}
        self.reached = 0
        """Number of verdicts reached, with equal files counted once."""
        self.stages: Counter[str] = Counter()
        """Seconds of these verdicts by stage of the evaluation."""

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        if source in self._known:
            self._known.move_to_end(source)
            return self._known[source]
        if source not in self._going:
            self._going[source] = asyncio.create_task(self._reach(source))
        return await asyncio.shield(self._going[source])

    async def _reach(self, source: str) -> Evaluation:
        try:
            found = self._known[source] = await self.judge.evaluate_async(source)
        finally:
            del self._going[source]
        self.reached += 1
        for stage in found.stages:
            self.stages[stage.stage] += stage.wall_ms / 1e3  # type: ignore[assignment]
        if len(self._known) > VERDICTS_KEPT:
            self._known.popitem(last=False)
        return found


class Versioned:
    """A policy under the training's own version, because engines derive versions from files, which differ between
    copies.
    """

    def __init__(self, policy: Policy, version: str) -> None:
        self._policy, self.version = policy, version

    @property
    def name(self) -> str:
        return self._policy.name

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        found = await self._policy.propose(observation, n)
        return [dataclasses.replace(answer, policy_version=self.version) for answer in found]

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        found = await self._policy.propose_many(observations)
        return [answer and dataclasses.replace(answer, policy_version=self.version) for answer in found]

    async def close(self) -> None:
        """Leave the policy open, because it answers under the next version, too."""
