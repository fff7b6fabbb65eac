"""The data of a report: figures of a run that several parts of the page need.

Records only: nothing is measured, loaded or run for a report.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from triton_agent.memory.records import Attempt, Run, RunEnd
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.race.ceilings import Ceilings
from triton_agent.tools.results import Evaluation, Timing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, prepared for its report."""

    history: History
    ceilings: Ceilings | None = None
    """Measured ceilings of its GPU; without them the roofline shows only the roof that binds."""
    shipped: Evaluation | None = None
    """Evaluation of the shipped file; None shows the best attempt's."""
    elsewhere: str = ""
    """The option with which commands find the run's store, such as ` --store runs.db`; empty for the default store."""
    ranges: tuple[str, ...] = ()
    """What runs where in the problem's ranges of sizes, a sentence each."""

    @property
    def run(self) -> Run:
        return self.history.run

    @property
    def end(self) -> RunEnd | None:
        return self.history.end

    @property
    def attempts(self) -> tuple[StoredAttempt, ...]:
        return self.history.attempts

    @property
    def best(self) -> StoredAttempt | None:
        return self.history.best

    @property
    def verdict(self) -> Evaluation | None:
        """The evaluation in the summary."""
        return self.shipped or (self.best.evaluation if self.best else None)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Numbers of attempts by status, the most frequent first."""
        return Counter(item.status for item in self.attempts).most_common()

    @property
    def duration_s(self) -> float | None:
        return (self.end.ended_at - self.run.started_at).total_seconds() if self.end else None

    def evaluations(self) -> list[Evaluation]:
        found = [item.evaluation for item in self.attempts if item.evaluation is not None]
        return [self.shipped, *found] if self.shipped else found


def timing(evaluation: Evaluation | None, kind: str) -> Timing | None:
    """Return the timing against the eager reference."""
    return evaluation.timing("eager", kind) if evaluation else None


def main_timing(evaluation: Evaluation | None, kind: str) -> Timing | None:
    """Return the timing against the eager reference at the main set of inputs, to which the floor refers."""
    rows = next(iter(evaluation.by_set().values()), ()) if evaluation else ()
    return next((row for row in rows if row.baseline_name == "eager" and row.kind == kind), timing(evaluation, kind))


def anchor(attempt: Attempt) -> str:
    """Return an attempt's anchor on the page."""
    return f"attempt-{attempt.turn}-{attempt.index}"
