"""Times two subjects in turns, and decides in which order.

A pair consists of four samples in the order ABBA or BAAB, and each side's reading is the mean of its two samples. So
effects of going first, of a warm cache and of a steady drift are equal for both sides. For calls of many milliseconds,
where these effects are small, a pair is one sample of each side. A random bit chooses the order of each pair. This
makes the sign test exact: for two equal subjects only that bit decides who wins a pair, whatever periodic disturbances
the machine has.

Each subject is timed through a function, so the same loop serves one process that holds both subjects and two processes
that hold one each.

Not covered: the clock itself (`clock.py`) and other users of the GPU (`lease.py`).
"""

from __future__ import annotations

import dataclasses
import math
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence

from triton_agent.tools.race import intervals
from triton_agent.tools.race.readings import Overheads, Sample
from triton_agent.tools.race.samples import PairedSamples, milliseconds

LEAST_PAIRS = 12
"""Least number of pairs before stopping early. Below about ten, the interval of a ratio is narrower than it claims."""
PAIRS_BETWEEN_LOOKS = 6
EVENT_TICK_MS = 0.0005
"""Resolution of two events: about a tenth of the device time of a 5 us kernel."""
RESAMPLES_OF_A_LOOK = 200
"""Enough to estimate how wide the interval is. It is not reported, and the GPU is idle while it is computed."""

Readings = Callable[[Sequence[int]], Sequence[Sample]]
"""Returns a sample of a subject for each of these turns. The number of a turn selects the set of inputs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairingSettings:
    """How long two subjects are timed."""

    pairs: int = 24
    """Number of pairs. With fewer than seven, no win is possible (see `intervals.is_faster`)."""
    samples_of_pair: int = 2
    """Samples of each side in a pair: two, or one for long calls."""
    limit_s: float = 60.0
    """No pair begins after this time. At least one pair is measured."""
    enough_s: float = math.inf
    """No pair beyond the least number begins after this time, which only calls of many milliseconds reach."""
    precision: tuple[float, float] | None = None
    """Relative widths of the ratio's interval, for device time and for times by the host's clock. Once both are
    reached, measuring stops. The width depends on the scatter of the pairs only, so stopping favours neither side. For
    device time, the width need not get below the resolution of the events. For the host's times, `is_settled` is
    enough as well, because on a busy host they scatter so much that the width might never be reached."""
    seed: int | None = None
    """Seed of the order of calls; None draws one. The seed is recorded."""

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ValueError(f"at least one pair, not {self.pairs}")
        if self.samples_of_pair not in (1, 2):
            raise ValueError(f"one sample of each side in a pair, or two, not {self.samples_of_pair}")


def candidate_first(pairs: int, seed: int) -> list[bool]:
    """Return for each pair whether the candidate has the first sample, and the last one if there are four."""
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
    """Measure `settings.pairs` pairs; fewer if the time limit or the precision is reached.

    `before`: pairs that were already measured with the same seed; they count towards the number.
    """
    pairs = list(zip(before.baseline, before.candidate)) if before else []
    begun_s = time.monotonic()
    seed = secrets.randbits(32) if settings.seed is None else settings.seed
    for index, swapped in enumerate(candidate_first(settings.pairs, seed)):
        if index < (len(before.baseline) if before else 0):
            continue
        enough_s = settings.enough_s if index >= LEAST_PAIRS else math.inf
        if pairs and time.monotonic() - begun_s > min(settings.limit_s, enough_s):
            break
        is_look = index >= LEAST_PAIRS and index % PAIRS_BETWEEN_LOOKS == 0
        if settings.precision is not None and is_look and _enough(pairs, settings.precision):
            break
        one_pair = _pair_of_four if settings.samples_of_pair == 2 else _pair_of_two
        pairs.append(one_pair(read_baseline, read_candidate, index, swapped))
    baseline, candidate = (tuple(side) for side in zip(*pairs, strict=True))
    orders = "ABBA or BAAB" if settings.samples_of_pair == 2 else "AB or BA"
    outcome = f"{len(pairs)} of {settings.pairs} pairs {orders} (seed {seed}); {method}"
    gaps = sum(not sample.queued for pair in pairs for sample in pair)
    if gaps:  # say so, since a reader would take the gaps for work of the GPU
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


def _pair_of_two(baseline: Readings, candidate: Readings, index: int, swapped: bool) -> tuple[Sample, Sample]:
    """Time both subjects once, with the same set of inputs."""
    first, second = (candidate, baseline) if swapped else (baseline, candidate)
    (one,), (other,) = first([index]), second([index])
    return (other, one) if swapped else (one, other)


def _pair_of_four(baseline: Readings, candidate: Readings, index: int, swapped: bool) -> tuple[Sample, Sample]:
    """Time the outer subject, the inner one twice, the outer one again. Both get the same two sets of inputs."""
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
