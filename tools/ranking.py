"""Orders verdicts and finds the best one. Search, store, prompts and screens all use this rule.

If a GPU has timed both candidates, they are compared by their speed-ups over the reference in device time and in call
latency. Device time counts for more: each candidate ran in its own process, and the latency of identical host code
differs between processes by more than its confidence interval. A candidate with a worse device time therefore wins only
if its latency is better by more than that noise. A candidate that is surely faster than the reference by both clocks
always beats one that is not. A file that may be shipped is also timed back to back, and must not be slower there. With
several sets of inputs, the speed-up is that of the shipped file: the weighted mean over the sets, where a set at which
the candidate is not surely faster counts as 1.0, since the shipped file runs the reference there.

Without a GPU nothing is known about speed. Drafts are ordered by the number of operators left to torch, whose traffic
is not counted, then by bytes moved over the fewest bytes, then by launches. A timed candidate always ranks above an
untimed one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Protocol, TypeVar

from triton_agent.tools.evaluate.merged_sets import mean_of
from triton_agent.tools.results import Evaluation, Interval, Status, Timing

MARGIN = 0.02
"""Smaller differences do not justify a change of the file."""
LATENCY_NOISE = 0.15
"""Share by which the latency of the same code may differ between two processes."""
ALIKE_NOISE = 1.0
"""Noise of latency between candidates with equally many launches. Four launches by identical host code took 282 to
545 us on a busy host."""
UNCHANGED = Interval(median=1.0, low=1.0, high=1.0)
"""Speed-up of calls for which a shipped file runs the reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtSet:
    """Speed-up of a candidate at one of several sets of inputs."""

    name: str
    weight: float
    speedup: Interval
    """Speed-up over the reference, by the worse of device time and latency."""
    back_to_back: Interval | None = None
    """Speed-up in calls back to back; None if these were not timed."""

    @property
    def faster(self) -> bool:
        """True if a shipped file runs the kernels at this set: faster by both clocks and no slower back to back."""
        return is_enough("latency", self.speedup) and is_enough("back_to_back", self.back_to_back)


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """The rank of a verdict. `<` sorts; `surpasses` is the rule for replacing the best."""

    passed: bool
    speedup: Interval | None = None
    """Speed-up over the reference, by the worse of device time and latency; None if it was not timed."""
    device: Interval | None = None
    """Speed-up in device time."""
    latency: Interval | None = None
    """Speed-up in the latency of a call."""
    back_to_back: Interval | None = None
    """Speed-up in back-to-back calls; None if these were not timed."""
    left_to_torch: int = 0
    """Number of torch operators that did arithmetic besides the kernels."""
    traffic_ratio: float | None = None
    """Bytes moved over the fewest bytes; None if they were not counted."""
    launches: int = 0
    sets: tuple[AtSet, ...] = ()
    """Speed-up at each set of inputs, if there are several."""

    def _order(self) -> tuple[float, ...]:
        timed = self.speedup is not None
        traffic = -self.traffic_ratio if self.traffic_ratio is not None else float("-inf")
        gains = self.faster_than_reference
        return (self.passed, timed, gains, self._speed(), -self.left_to_torch, traffic, -self.launches)

    @property
    def merit(self) -> float:
        """Rank of a passed verdict as one number, for a database index: the lower bound of the speed-up, or minus the
        traffic ratio if it was not timed.

        Only `surpasses` decides; this number ignores most of its rules and serves to preselect rows.
        """
        if self.speedup is not None:
            return max(self.speedup.low, 0.0)
        return -min(self.traffic_ratio, 1e6) if self.traffic_ratio is not None and self.traffic_ratio >= 0 else -2e6

    def _speed(self) -> float:
        """Return the geometric mean of the speed-ups in device time and latency, if both are known."""
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
        """Return True if this is surely better: intervals apart by the margin or, if untimed, better counts."""
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
        if self.faster_than_reference != other.faster_than_reference:
            return self.faster_than_reference
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
    def faster_than_reference(self) -> bool:
        """True if it is surely faster in device time and latency and no slower back to back.

        With several sets of inputs, True if this holds for at least one of them.
        """
        if self.sets:
            return self.passed and any(item.faster for item in self.sets)
        gains = self.speedup is not None and is_enough("latency", self.speedup)
        return self.passed and gains and is_enough("back_to_back", self.back_to_back)

    @property
    def worst(self) -> AtSet | None:
        """The set of inputs with the least gain; None without sets."""
        return min(self.sets, key=lambda item: item.speedup.median, default=None)


def standing(evaluation: Evaluation | None) -> Standing:
    """Return the standing of a verdict; a missing one ranks below all others."""
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
        back_to_back=None if gains else _speedup(evaluation, "back_to_back"),
        sets=sets,
        left_to_torch=len(diagnosis.torch_operators) if diagnosis else 0,
        traffic_ratio=diagnosis.traffic_ratio if diagnosis else None,
        launches=sum(item.launches for item in diagnosis.launches) if diagnosis else 0,
    )


class Ranked(Protocol):
    """An item with a standing."""

    @property
    def standing(self) -> Standing: ...


Item = TypeVar("Item", bound=Ranked)


def best_of(items: Iterable[Item]) -> Item | None:
    """Return the best item, or None if nothing passed. A later item replaces the best only if it surpasses it."""
    best: Item | None = None
    for item in items:
        if item.standing.surpasses(best.standing if best else None):
            best = item
    return best


def _at(name: str, timings: tuple[Timing, ...]) -> AtSet:
    back_to_back = (item.speedup for item in _against_reference(timings) if item.kind == "back_to_back")
    smaller = _smaller(timings) or UNCHANGED
    return AtSet(name=name, weight=timings[0].weight, speedup=smaller, back_to_back=next(back_to_back, None))


def is_enough(kind: str, ratio: Interval | None) -> bool:
    """Return True if the speed-up by this clock is enough to ship: no slower back to back, faster by the others."""
    if ratio is None:
        return True
    return ratio.low >= 1 if kind == "back_to_back" else ratio.low > 1 + MARGIN


def _apart(better: Interval, worse: Interval, margin: float) -> bool:
    """Return True if one interval lies above the other by the margin."""
    return better.low > worse.high * (1 + margin)


def _speedup(evaluation: Evaluation, kind: str) -> Interval | None:
    timing = evaluation.timing("eager", kind)
    return timing.speedup if timing is not None else None


def _smaller(timings: tuple[Timing, ...]) -> Interval | None:
    """Return the smaller of the speed-ups in device time and latency over the reference."""
    against = [item.speedup for item in _against_reference(timings) if item.kind != "back_to_back"]
    return min(against, key=lambda item: item.low) if against else None


def _against_reference(timings: tuple[Timing, ...]) -> list[Timing]:
    return [item for item in timings if item.baseline_name == "eager"]
