"""What repeated measurements say: the interval of a median, of a ratio of medians, and whether one side is faster.

Two figures with two duties. The *interval* is for reading: a percentile bootstrap over whole pairs, so that whatever
both halves of a pair share (clock drift, temperature) cancels in the ratio. The *decision* does not lean on it, since
a bootstrap promises too much on few or heavy-tailed samples. It is an exact sign test: were the candidate no faster
than the margin asks, each pair would be won with probability at most one half, whatever the noise looks like, because
the order within a pair is drawn by chance. So the chance of a false win is at most `1 - confidence` for any noise.

Not covered: looking at the data while it comes in, and any bias of the clock itself.
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
"""A win must exceed this. A rerun of one version moves by one to two percent on a quiet GPU."""
SETTLED = 0.00025
"""Twelve pairs of twelve, seventeen of eighteen, twenty-two of twenty-four."""


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median with an interval between two of the samples; exact for any distribution, no resampling.

    With fewer samples than `confidence` needs (six for 95%) the interval is the whole range.
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
    """The speed-up, median baseline over median candidate; sample `i` of both sides is one pair.

    Pairs are resampled whole. Under about ten of them the interval is narrower than it claims: decide by `is_faster`.
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
    """Return True if the candidate beats the baseline by `margin`; wrong at most once in `1 / (1 - confidence)`.

    Both must say so: the sign test over the pairs, and the interval of the ratio, so that no win is ever shipped
    beside an interval that denies it. At 99% fewer than seven pairs can never win.
    """
    if chance_of_wins(pairs_won(baseline_ms, candidate_ms, margin), len(baseline_ms)) > 1 - confidence:
        return False
    return paired_ratio(baseline_ms, candidate_ms, confidence).low > 1 + margin


def is_settled(baseline_ms: Sequence[float], candidate_ms: Sequence[float], margin: float = MARGIN) -> bool:
    """Return True if nearly all pairs, or nearly none, are won by `margin`: more would not change the decision.

    Some three looks at pairs still coming in, each stopped by this, and one more at the end of thirty, are together
    wrong at most once in a hundred: that test leaves less than it may (`tests/tools/test_intervals.py`).
    """
    wins, pairs = pairs_won(baseline_ms, candidate_ms, margin), len(baseline_ms)
    return chance_of_wins(max(wins, pairs - wins), pairs) <= SETTLED


def pairs_won(baseline_ms: Sequence[float], candidate_ms: Sequence[float], margin: float = MARGIN) -> int:
    """Count the pairs in which the candidate is faster by more than `margin`."""
    baseline, candidate = _pairs(baseline_ms, candidate_ms)
    return int(np.sum(baseline > candidate * (1 + margin)))


def positive(samples: Sequence[float]) -> list[float]:
    """The samples, refused unless each is a time: above zero and finite."""
    if not samples:
        raise InstrumentError("no timing samples", remedy="give the clock time for at least one call")
    for index, sample in enumerate(samples):
        if not (math.isfinite(sample) and sample > 0):
            raise InstrumentError(f"timing sample {index} is {sample} ms", remedy="a clock that reads this is broken")
    return list(samples)


def _pairs(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    if len(baseline_ms) != len(candidate_ms):
        raise ValueError(f"not pairs: {len(baseline_ms)} of the baseline, {len(candidate_ms)} of the candidate")
    return np.asarray(positive(baseline_ms)), np.asarray(positive(candidate_ms))


def _ranks_outside(count: int, confidence: float) -> int:
    """How many samples may be cut off at each end with the median still inside at `confidence`."""
    tail = (1 - confidence) / 2
    below, cut = 0, 0
    for rank in range(count // 2):
        below += math.comb(count, rank)
        if below / 2**count > tail:
            break
        cut = rank
    return cut
