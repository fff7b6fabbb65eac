"""What a report shows, read off a run's records: figures that more than one part of the page needs.

Records only: nothing is measured, loaded or run for a report.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from triton_agent.memory.records import Attempt, Run, RunEnd
from triton_agent.runs.history.records import Graded, History
from triton_agent.tools.race.ceilings import Ceilings
from triton_agent.tools.results import Evaluation, Timing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run, as its report shows it."""

    history: History
    ceilings: Ceilings | None = None
    """Of the GPU it ran on; without them the roofline has only the roof that binds."""
    shipped: Evaluation | None = None
    """Of the file as it was shipped; else the best attempt's own verdict stands."""

    @property
    def run(self) -> Run:
        return self.history.run

    @property
    def end(self) -> RunEnd | None:
        return self.history.end

    @property
    def attempts(self) -> tuple[Graded, ...]:
        return self.history.attempts

    @property
    def best(self) -> Graded | None:
        return self.history.best

    @property
    def verdict(self) -> Evaluation | None:
        """The one that the summary speaks of."""
        return self.shipped or (self.best.evaluation if self.best else None)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Attempts by status, the most frequent first."""
        return Counter(item.status for item in self.attempts).most_common()

    @property
    def duration_s(self) -> float | None:
        return (self.end.ended_at - self.run.started_at).total_seconds() if self.end else None

    def evaluations(self) -> list[Evaluation]:
        found = [item.evaluation for item in self.attempts if item.evaluation is not None]
        return [self.shipped, *found] if self.shipped else found


def timing(evaluation: Evaluation | None, kind: str) -> Timing | None:
    """The measurement against the reference as it is."""
    return evaluation.timing("eager", kind) if evaluation else None


def main_timing(evaluation: Evaluation | None, kind: str) -> Timing | None:
    """The same; of several sets of inputs, at the main one, which the floor of the problem is for."""
    rows = next(iter(evaluation.by_set().values()), ()) if evaluation else ()
    return next((row for row in rows if row.opponent == "eager" and row.kind == kind), timing(evaluation, kind))


def anchor(attempt: Attempt) -> str:
    """An attempt's place on the page."""
    return f"attempt-{attempt.turn}-{attempt.index}"
