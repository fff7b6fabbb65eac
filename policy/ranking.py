"""Which of two verdicts is the better one, and whether it is so with confidence.

Where a GPU has timed both, time decides: the slower of the two figures, device time and call latency, over the
original. At several sets of inputs it is what a shipped file would bring: the weighted mean over the sets, where those
at which a candidate is not surely faster count as unchanged, since the original runs there. Without a GPU nothing is
known of speed, and drafts are ordered by what was counted: operators left to torch, whose traffic nobody counts, then
bytes moved over the fewest bytes, then launches. The two kinds are never compared with each other.
"""

from __future__ import annotations

import dataclasses
import functools

from triton_agent.tools.merged_sets import mean_of
from triton_agent.tools.results import Evaluation, Interval, Status, Timing

MARGIN = 0.02
"""Differences below this are not worth a change of the file."""
UNCHANGED = Interval(median=1.0, low=1.0, high=1.0)
"""Where the original runs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtSet:
    """How fast a candidate is at one of several sets of inputs."""

    name: str
    weight: float
    speedup: Interval
    """Over the original, in the figure where it is smaller."""

    @property
    def faster(self) -> bool:
        """With confidence, in both figures: only there a shipped file runs it."""
        return self.speedup.low > 1 + MARGIN


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """How good a verdict is, as an order."""

    passed: bool
    speedup: Interval | None = None
    """Over the original, in the figure where it is smaller; None where nothing was timed."""
    left_to_torch: int = 0
    """Kinds of torch operators that did arithmetic beside the kernels."""
    traffic_ratio: float | None = None
    """Bytes moved over the fewest; None where nothing was counted."""
    launches: int = 0
    sets: tuple[AtSet, ...] = ()
    """What was timed at each of several sets of inputs."""

    def _order(self) -> tuple[float, ...]:
        timed = self.speedup is not None
        traffic = -self.traffic_ratio if self.traffic_ratio is not None else float("-inf")
        speed = self.speedup.median if self.speedup else 0.0
        return (self.passed, timed, speed, -self.left_to_torch, traffic, -self.launches)

    def __lt__(self, other: Standing) -> bool:
        return self._order() < other._order()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Standing) and self._order() == other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def surpasses(self, other: Standing | None) -> bool:
        """Better with confidence: intervals apart by the margin, or counted figures better by it."""
        if not self.passed:
            return False
        if other is None or not other.passed:
            return True
        if self.speedup is not None and other.speedup is not None:
            return self.speedup.low > other.speedup.high * (1 + MARGIN)
        if (self.speedup is None) != (other.speedup is None):
            return self.speedup is not None
        if self.left_to_torch != other.left_to_torch:
            return self.left_to_torch < other.left_to_torch
        return self._moves_less_than(other)

    def _moves_less_than(self, other: Standing) -> bool:
        if self.traffic_ratio is None or other.traffic_ratio is None:
            return self.launches < other.launches
        if self.traffic_ratio < other.traffic_ratio * (1 - MARGIN):
            return True
        return self.traffic_ratio <= other.traffic_ratio and self.launches < other.launches

    @property
    def faster_than_original(self) -> bool:
        """In device time and in latency, with confidence; of several sets of inputs, at one at least."""
        if self.sets:
            return self.passed and any(item.faster for item in self.sets)
        return self.passed and self.speedup is not None and self.speedup.low > 1 + MARGIN

    @property
    def worst(self) -> AtSet | None:
        """The set of inputs at which it gains least; None where there is one call only."""
        return min(self.sets, key=lambda item: item.speedup.median, default=None)


def standing(evaluation: Evaluation | None) -> Standing:
    """The place of a verdict; one that could not be reached stands below all others."""
    if evaluation is None or evaluation.status is not Status.PASSED:
        return Standing(passed=False)
    sets = tuple(_at(name, timings) for name, timings in evaluation.by_set().items())
    gains = [(item.weight, item.speedup if item.faster else UNCHANGED) for item in sets]
    diagnosis = evaluation.diagnosis
    return Standing(
        passed=True,
        speedup=mean_of(gains) if gains else _smaller(evaluation.timings),
        sets=sets,
        left_to_torch=len(diagnosis.torch_operators) if diagnosis else 0,
        traffic_ratio=diagnosis.traffic_ratio if diagnosis else None,
        launches=sum(item.launches for item in diagnosis.launches) if diagnosis else 0,
    )


def _at(name: str, timings: tuple[Timing, ...]) -> AtSet:
    return AtSet(name=name, weight=timings[0].weight, speedup=_smaller(timings) or UNCHANGED)


def _smaller(timings: tuple[Timing, ...]) -> Interval | None:
    """Device time or latency, whichever gained less over the original."""
    against = [item.speedup for item in timings if item.opponent == "eager"]
    return min(against, key=lambda item: item.low) if against else None
