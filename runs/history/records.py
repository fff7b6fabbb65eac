"""A stored run with its attempts and gradings, for screens, reports, bundles and replays.

Decides which grading counts, which attempt is the best so far, and how an attempt is named for people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from triton_agent.memory.listing import AttemptHeader
from triton_agent.memory.records import Attempt, Grading, Run, RunEnd
from triton_agent.memory.verdicts import passed, speedup_of
from triton_agent.runs.notebook.cards import attempt_card, run_card
from triton_agent.tools.errors import UsageError
from triton_agent.tools.ranking import Standing, best_of, standing
from triton_agent.tools.results import Evaluation, Interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttempt:
    """An attempt with all its gradings."""

    attempt: Attempt
    gradings: tuple[Grading, ...]
    """Oldest first."""

    @property
    def key(self) -> str:
        return self.attempt.key

    @property
    def name(self) -> str:
        """Name within the run: `2.1` is the second answer of turn 2."""
        return short_key(self.attempt.key)

    @property
    def grading(self) -> Grading | None:
        """The grading that counts: the newest verdict, or without one the newest instrument failure."""
        verdicts = [grading for grading in self.gradings if grading.evaluation is not None]
        return next(reversed(verdicts or list(self.gradings)), None)

    @property
    def evaluation(self) -> Evaluation | None:
        return self.grading.evaluation if self.grading else None

    @property
    def passed(self) -> bool:
        return passed(self.evaluation)

    @property
    def speedup(self) -> Interval | None:
        return speedup_of(self.evaluation)

    @property
    def standing(self) -> Standing:
        """Rank among the attempts of the run."""
        return standing(self.evaluation)

    @property
    def status(self) -> str:
        """The status in a word, for tables."""
        return self.header.state

    @property
    def header(self) -> AttemptHeader:
        """Header of the attempt, as the store returns it for lists."""
        attempt, verdict, grading = self.attempt, self.evaluation, self.grading
        return AttemptHeader(
            key=attempt.key,
            turn=attempt.turn,
            index=attempt.index,
            parent=attempt.parent,
            status=verdict.status if verdict else None,
            finding=verdict.finding if verdict else None,
            unmeasured=grading.failure.kind if grading and grading.failure else "",
            speedup=self.speedup,
            device=verdict.environment.device if verdict else "",
            policy=attempt.completion.policy,
            policy_version=attempt.completion.policy_version,
            source=verdict.candidate if verdict else None,
            tokens=attempt.completion.usage.completion_tokens,
            created_at=attempt.created_at,
        )

    def _repr_html_(self) -> str:
        return attempt_card(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A run with all its attempts."""

    run: Run
    attempts: tuple[StoredAttempt, ...]
    """Attempts by turn and answer."""
    end: RunEnd | None

    @property
    def best(self) -> StoredAttempt | None:
        """The attempt that was shipped; while the run is open, the best so far."""
        if self.end is not None:
            return next((item for item in self.attempts if item.key == self.end.best), None)
        return best_of(self.attempts)

    def _repr_html_(self) -> str:
        return run_card(self)

    def attempt(self, name: str) -> StoredAttempt:
        """Find an attempt by `2.1`, by its whole key, or by `best`."""
        if name == "best":
            if self.best is None:
                raise UsageError(f"run {self.run.id} has no best attempt", remedy="name one: --attempt TURN.ANSWER")
            return self.best
        for item in self.attempts:
            if name in (item.name, item.key):
                return item
        known = ", ".join(item.name for item in self.attempts[:12]) or "none"
        raise UsageError(f"run {self.run.id} has no attempt {name!r}", remedy=f"it has {known}")

    def parent_of(self, item: StoredAttempt) -> StoredAttempt | None:
        """Return the parent attempt if it is in this run."""
        return next((other for other in self.attempts if other.key == item.attempt.parent), None)

    def path_to(self, item: StoredAttempt) -> tuple[StoredAttempt, ...]:
        """Return the path from the first ancestor in this run to the attempt."""
        known = {other.key: other for other in self.attempts}
        path = [item]
        while (parent := known.get(path[-1].attempt.parent or "")) is not None and parent not in path:
            path.append(parent)
        return tuple(reversed(path))


def newest_verdict(gradings: Sequence[Grading]) -> Evaluation | None:
    """Return the newest evaluation among gradings, which are ordered oldest first."""
    return next((grading.evaluation for grading in reversed(gradings) if grading.evaluation is not None), None)


def short_key(key: str) -> str:
    return key.rpartition("/")[2]
