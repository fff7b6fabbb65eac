"""The order in which two subjects take turns, and the loop that lets them.

A pair is four calls, ABBA or BAAB, and each side's reading is the mean of its two: what goes first, what finds a warm
cache, and a steady drift weigh on both sides alike. Which of the two it is falls to a coin for each pair. That makes
the sign test exact: for two equal subjects the coin alone decides who wins a pair, whatever rhythm the machine has.

How a subject is timed comes as a function, so the same loop serves one process holding both subjects and two processes
holding one each.

Not covered: the clock itself (`clock.py`) and keeping others off the GPU (`lease.py`).
"""

from __future__ import annotations

import dataclasses
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence

from triton_agent.tools.race import intervals
from triton_agent.tools.race.readings import Overheads, Sample
from triton_agent.tools.race.samples import PairedSamples, milliseconds

LEAST_PAIRS = 12
"""Under about ten the interval of a ratio is narrower than it claims."""
PAIRS_BETWEEN_LOOKS = 6
EVENT_TICK_MS = 0.0005
"""About what two events can tell apart: of five microseconds a tenth."""
RESAMPLES_OF_A_LOOK = 200
"""Enough to see how wide an interval is; nobody reads it, and the GPU stands still meanwhile."""

Readings = Callable[[Sequence[int]], Sequence[Sample]]
"""A sample of a subject for each of these turns; the number says which set of inputs is due."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairingSettings:
    """How long two subjects take turns."""

    pairs: int = 24
    """Number of pairs, of four calls each. With fewer than seven nothing can win (see `intervals.is_faster`)."""
    limit_s: float = 60.0
    """No pair begins after this; the pairs so far stand. The first pair always ends."""
    precision: tuple[float, float] | None = None
    """Enough pairs once the ratio's intervals are this narrow, as shares of the ratio: of device time, and of the times
    by the host's clock. That looks at how the pairs scatter and never at who wins them, so it favours neither side. No
    device time is asked for finer than the clock ticks; the host's times, which a busy host scatters without end, may
    also be settled instead."""
    seed: int | None = None
    """Seed of the order of calls; None draws one. The seed is part of the record."""

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ValueError(f"at least one pair, not {self.pairs}")


def candidate_first(pairs: int, seed: int) -> list[bool]:
    """Return for each pair whether the candidate goes first and last, with the baseline twice in between."""
    coin = random.Random(seed)
    return [coin.random() < 0.5 for _ in range(pairs)]


def take_turns(
    read_baseline: Readings,
    read_candidate: Readings,
    settings: PairingSettings,
    *,
    cold_l2: bool,
    overheads: Overheads,
    method: str,
    before: PairedSamples | None = None,
) -> PairedSamples:
    """Measures `settings.pairs` pairs, fewer only where the time limit cuts in.

    `before`: pairs that were measured already, with the same seed, and count among them.
    """
    pairs = list(zip(before.baseline, before.candidate)) if before else []
    begun_s = time.monotonic()
    seed = secrets.randbits(32) if settings.seed is None else settings.seed
    for index, swapped in enumerate(candidate_first(settings.pairs, seed)):
        if index < (len(before.baseline) if before else 0):
            continue
        if pairs and time.monotonic() - begun_s > settings.limit_s:
            break
        is_look = index >= LEAST_PAIRS and index % PAIRS_BETWEEN_LOOKS == 0
        if settings.precision is not None and is_look and _enough(pairs, settings.precision):
            break
        pairs.append(_one_pair(read_baseline, read_candidate, index, swapped))
    baseline, candidate = (tuple(side) for side in zip(*pairs, strict=True))
    outcome = f"{len(pairs)} of {settings.pairs} pairs ABBA or BAAB (seed {seed}); {method}"
    gaps = sum(not sample.queued for pair in pairs for sample in pair)
    if gaps:  # a reader would take them for work
        outcome += f"; {gaps} of {2 * len(pairs)} device readings include waiting for the host"
    return PairedSamples(baseline=baseline, candidate=candidate, cold_l2=cold_l2, overheads=overheads, method=outcome)


def _enough(pairs: list[tuple[Sample, Sample]], precision: tuple[float, float]) -> bool:
    baseline, candidate = (tuple(side) for side in zip(*pairs, strict=True))
    device = milliseconds(baseline, "device"), milliseconds(candidate, "device")
    finest = EVENT_TICK_MS / min(statistics.median(side) for side in device)
    by_host = [(milliseconds(baseline, kind), milliseconds(candidate, kind)) for kind in ("latency", "back_to_back")]
    return _is_narrow(*device, max(precision[0], finest)) and all(
        intervals.is_settled(*sides) or _is_narrow(*sides, precision[1]) for sides in by_host if all(sides)
    )


def _is_narrow(baseline_ms: Sequence[float], candidate_ms: Sequence[float], share: float) -> bool:
    ratio = intervals.paired_ratio(baseline_ms, candidate_ms, resamples=RESAMPLES_OF_A_LOOK)
    return ratio.high - ratio.low <= share * ratio.median


def _one_pair(baseline: Readings, candidate: Readings, index: int, swapped: bool) -> tuple[Sample, Sample]:
    """Four calls, outer and inner subject; both meet the same two turns of the inputs."""
    outer, inner = (candidate, baseline) if swapped else (baseline, candidate)
    before, after = 2 * index, 2 * index + 1
    first, between, last = outer([before]), inner([before, after]), outer([after])
    outer_mean, inner_mean = _mean(*first, *last), _mean(*between)
    return (inner_mean, outer_mean) if swapped else (outer_mean, inner_mean)


def _mean(one: Sample, other: Sample) -> Sample:
    series = [ms for ms in (one.back_to_back_ms, other.back_to_back_ms) if ms is not None]
    return Sample(
        device_ms=statistics.fmean((one.device_ms, other.device_ms)),
        host_ms=statistics.fmean((one.host_ms, other.host_ms)),
        enqueue_ms=statistics.fmean((one.enqueue_ms, other.enqueue_ms)),
        queued=one.queued and other.queued,
        back_to_back_ms=statistics.fmean(series) if series else None,
    )
