"""Which of two verdicts is the better one, and whether it is so with confidence.

Where a GPU has timed both, time decides: device time and call latency, over the reference. Whether a candidate gains at
all is asked of the figure that gained less. Between two candidates the device time tells more: each has a process of
its own, and the latency of equal host code differs from process to process by more than its interval says. So a worse
device time is made up for by a latency that is better beyond that, and by nothing less; but what gains goes before what
does not. At several sets of inputs it is what a shipped file would bring: the weighted mean over the sets, where those
at which a candidate is not surely faster count as unchanged, since the reference runs there. Without a GPU nothing is
known of speed, and drafts are ordered by what was counted: operators left to torch, whose traffic nobody counts, then
bytes moved over the fewest bytes, then launches. The two kinds are never compared with each other.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from triton_agent.tools.evaluate.merged_sets import mean_of
from triton_agent.tools.results import Evaluation, Interval, Status, Timing

MARGIN = 0.02
"""Differences below this are not worth a change of the file."""
LATENCY_NOISE = 0.15
"""By so much the latencies of two processes may differ for no reason of theirs."""
ALIKE_NOISE = 1.0
"""Where both launch as much, by so much: four launches by the same host code took 282 to 545 us on a busy host."""
UNCHANGED = Interval(median=1.0, low=1.0, high=1.0)
"""Where the reference runs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtSet:
    """How fast a candidate is at one of several sets of inputs."""

    name: str
    weight: float
    speedup: Interval
    """Over the reference, in the figure where it is smaller."""

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
    """Over the reference, in the figure where it is smaller; None where nothing was timed."""
    device: Interval | None = None
    """Over the reference, in device time."""
    latency: Interval | None = None
    """Over the reference, in the latency of a call."""
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
        gains = self.faster_than_original
        return (self.passed, timed, gains, self._speed(), -self.left_to_torch, traffic, -self.launches)

    def _speed(self) -> float:
        """Geometric mean of both figures, where there are both."""
        if self.device is not None and self.latency is not None:
            return math.sqrt(self.device.median * self.latency.median)
        return self.speedup.median if self.speedup else 0.0

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
            return self._outruns(other, self.speedup, other.speedup)
        if (self.speedup is None) != (other.speedup is None):
            return self.speedup is not None
        if self.left_to_torch != other.left_to_torch:
            return self.left_to_torch < other.left_to_torch
        return self._moves_less_than(other)

    def _outruns(self, other: Standing, speedup: Interval, others: Interval) -> bool:
        if self.device is None or self.latency is None or other.device is None or other.latency is None:
            return _apart(speedup, others, MARGIN)
        if self.faster_than_original != other.faster_than_original:
            return self.faster_than_original
        noise = ALIKE_NOISE if self.launches == other.launches else LATENCY_NOISE
        if _apart(self.device, other.device, MARGIN):
            return not _apart(other.latency, self.latency, noise) or self._speed() > other._speed()
        if _apart(other.device, self.device, 0.0):
            return _apart(self.latency, other.latency, noise) and self._speed() > other._speed() * (1 + MARGIN)
        return _apart(self.latency, other.latency, MARGIN)

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
        device=None if gains else _speedup(evaluation, "device"),
        latency=None if gains else _speedup(evaluation, "latency"),
        sets=sets,
        left_to_torch=len(diagnosis.torch_operators) if diagnosis else 0,
        traffic_ratio=diagnosis.traffic_ratio if diagnosis else None,
        launches=sum(item.launches for item in diagnosis.launches) if diagnosis else 0,
    )


def _at(name: str, timings: tuple[Timing, ...]) -> AtSet:
    return AtSet(name=name, weight=timings[0].weight, speedup=_smaller(timings) or UNCHANGED)


def _apart(better: Interval, worse: Interval, margin: float) -> bool:
    """Return whether one interval lies above the other by the margin."""
    return better.low > worse.high * (1 + margin)


def _speedup(evaluation: Evaluation, kind: str) -> Interval | None:
    timing = evaluation.timing("eager", kind)
    return timing.speedup if timing is not None else None


def _smaller(timings: tuple[Timing, ...]) -> Interval | None:
    """Device time or latency, whichever gained less over the reference."""
    against = [item.speedup for item in timings if item.opponent == "eager"]
    return min(against, key=lambda item: item.low) if against else None
