"""Statistics of repeated timings: the interval of a median or a ratio of medians, and whether one side is faster.

The *interval* that is reported is a percentile bootstrap over whole pairs, so that whatever affects both halves of a
pair (clock drift, temperature) cancels in the ratio. A bootstrap is overconfident with few or heavy-tailed samples, so
the *decision* rests on an exact sign test. If the candidate's speed-up is at most the margin, it wins each pair with a
probability of at most one half, whatever the distribution of the noise, because the order within a pair is random. So
the chance of a false win is at most `1 - confidence`.

Not covered: deciding while the data comes in (but see `is_settled`), and a bias of the clock itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.estimates import RESAMPLES, between, chance_of_wins
from triton_agent.tools.results import Interval

MARGIN = 0.02
"""Least relative speed-up of a win. Timings of the same version differ by one to two percent on a quiet GPU."""
SETTLED = 0.00025
"""Significance level at which measuring may stop early. It is reached by 12 wins of 12 pairs, 17 of 18 or 22 of 24."""


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the median with an interval between two of the samples; exact for any distribution, without resampling.

    With fewer samples than `confidence` needs (six for 95%), the interval spans all samples.
    """
    checked = positive(samples)
    ordered = sorted(checked)
    cut = _ranks_outside(len(ordered), confidence)
    return Interval(median=statistics.median(ordered), low=ordered[cut], high=ordered[-1 - cut])


def paired_ratio(
    baseline_ms: Sequence[float],
    candidate_ms: Sequence[float],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the speed-up: median baseline time over median candidate time. Sample `i` of both sides is one pair.

    The bootstrap draws whole pairs. With fewer than about ten pairs the interval is too narrow: decide by `is_faster`.
    """
    baseline, candidate = _pairs(baseline_ms, candidate_ms)
    ratio = float(np.median(baseline) / np.median(candidate))
    draws = np.random.default_rng(seed).integers(0, len(baseline), size=(resamples, len(baseline)))
    ratios = np.median(baseline[draws], axis=1) / np.median(candidate[draws], axis=1)
    return between(ratio, ratios, confidence)


def is_faster(
    baseline_ms: Sequence[float],
    candidate_ms: Sequence[float],
    margin: float = MARGIN,
    confidence: float = 0.99,
) -> bool:
    """Return True if the candidate beats the baseline by `margin`; false wins have a chance of at most 1 - confidence.

    Both the sign test over the pairs and the interval of the ratio must agree, so that no reported interval contradicts
    a win. At 99% confidence, fewer than seven pairs can never win.
    """
    if chance_of_wins(pairs_won(baseline_ms, candidate_ms, margin), len(baseline_ms)) > 1 - confidence:
        return False
    return paired_ratio(baseline_ms, candidate_ms, confidence).low > 1 + margin


def is_settled(baseline_ms: Sequence[float], candidate_ms: Sequence[float], margin: float = MARGIN) -> bool:
    """Return True if nearly all or nearly none of the pairs are won by `margin`, so more would not change the decision.

    Stopping at one of three interim looks by this rule, and testing once more after 30 pairs, still gives a false win
    at most once in a hundred. There is room for this, because the exact sign test at the end uses only a part of the 1%
    that it is allowed (`tests/tools/test_intervals.py`).
    """
    wins, pairs = pairs_won(baseline_ms, candidate_ms, margin), len(baseline_ms)
    return chance_of_wins(max(wins, pairs - wins), pairs) <= SETTLED


def pairs_won(baseline_ms: Sequence[float], candidate_ms: Sequence[float], margin: float = MARGIN) -> int:
    """Count the pairs in which the candidate is faster by more than `margin`."""
    baseline, candidate = _pairs(baseline_ms, candidate_ms)
    return int(np.sum(baseline > candidate * (1 + margin)))


def positive(samples: Sequence[float]) -> list[float]:
    """Return the samples as a list; raise unless each is a positive, finite time."""
    if not samples:
        raise InstrumentError("no timing samples", remedy="allow the clock time for at least one call")
    for index, sample in enumerate(samples):
        if not (math.isfinite(sample) and sample > 0):
            raise InstrumentError(
                f"timing sample {index} is {sample} ms", remedy="the clock is broken if it gives such times"
            )
    return list(samples)


def _pairs(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    if len(baseline_ms) != len(candidate_ms):
        raise ValueError(f"not pairs: {len(baseline_ms)} baseline times, {len(candidate_ms)} candidate times")
    return np.asarray(positive(baseline_ms)), np.asarray(positive(candidate_ms))


def _ranks_outside(count: int, confidence: float) -> int:
    """Return how many samples to cut off at each end so that the rest still covers the median at `confidence`."""
    tail = (1 - confidence) / 2
    below, cut = 0, 0
    for rank in range(count // 2):
        below += math.comb(count, rank)
        if below / 2**count > tail:
            break
        cut = rank
    return cut
