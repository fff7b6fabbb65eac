"""Statistics over problems and answers: shares, means, medians, pass@k, their intervals, and tests of differences.

    pass_at              unbiased probability that one of k answers is correct
    share_interval       Wilson's interval of a share; valid at 0 and 1, too
    resampled, between   percentile bootstrap; equal seeds give equal intervals
    sign_flips           exact permutation test of paired differences
    chance_of_wins       one-sided sign test
    even_odds            two-sided sign test, on discordant pairs McNemar's exact test
    holm                 correction for several tests

Below about ten problems a bootstrap interval is too narrow: treat it as a hint and decide by an exact test. Noise of
timings is handled in `race/intervals.py`.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from triton_agent.tools.results import Interval

CONFIDENCE = 0.95
RESAMPLES = 2000
"""Enough resamples for the second digit of a 95% bound."""
FLIPS_ENUMERATED = 14
"""Up to this many differences all 2^n combinations of signs are enumerated; beyond it, signs are drawn at random."""
DRAWN_FLIPS = 10_000

Statistic = Callable[[np.ndarray], np.ndarray]
"""Maps samples in rows to one figure for each row, as `np.mean(rows, axis=-1)` does."""


def pass_at(k: int, row: Sequence[float]) -> float:
    """Return the unbiased estimate, from the scores of all answers, that at least one of k answers is correct."""
    if not 1 <= k <= len(row):
        raise ValueError(f"pass@{k} needs more than {len(row)} answers")
    wrong = sum(value == 0.0 for value in row)
    return 1.0 - math.comb(wrong, k) / math.comb(len(row), k)


def share_interval(successes: float, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Return a share with Wilson's interval. `successes` may be fractional where each trial is itself a mean."""
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"not a share: {successes} of {trials}")
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    reach = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # At 0 and 1 the share itself is a bound; rounding may put the computed bound on the wrong side of the share.
    return Interval(median=share, low=max(0.0, min(middle - reach, share)), high=min(1.0, max(middle + reach, share)))


def between(estimate: float, drawn: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """Return the central interval of resampled figures, extended to include the estimate."""
    tail = (1 - confidence) / 2
    low, high = (float(bound) for bound in np.quantile(drawn, [tail, 1 - tail]))
    return Interval(median=estimate, low=min(low, estimate), high=max(high, estimate))


def resampled(
    values: Sequence[float],
    statistic: Statistic,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return a figure of a sample, with its bootstrap interval."""
    if not values:
        raise ValueError("nothing to resample")
    row = np.asarray(values, dtype=float)
    draws = np.random.default_rng(seed).integers(0, len(row), size=(resamples, len(row)))
    return between(float(statistic(row[None])[0]), statistic(row[draws]), confidence)


def mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=-1))


def median(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.median(rows, axis=-1))


def geometric_mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(np.log(rows).mean(axis=-1)))


def chance_of_wins(wins: int, pairs: int) -> float:
    """Return the probability of at least `wins` heads in `pairs` throws of a fair coin."""
    heads = sum(math.comb(pairs, count) for count in range(wins, pairs + 1))
    # Integers until the last step: beyond a thousand pairs numerator and denominator exceed the range of a float.
    return float(heads / 2**pairs)


def even_odds(gained: int, lost: int) -> float:
    """Return the probability that throws of a fair coin are at least as uneven as `gained` to `lost`, either way."""
    return min(1.0, 2 * chance_of_wins(max(gained, lost), gained + lost))


def sign_flips(differences: Sequence[float], *, seed: int = 0) -> float:
    """Return the probability of a mean at least this far from zero if the sign of each difference were random.

    Exact for up to `FLIPS_ENUMERATED` differences. Beyond that, signs are drawn at random, and the observed signs count
    as one of the draws, so that the result cannot be zero by chance.
    """
    values = np.asarray([value for value in differences if value != 0], dtype=float)
    if not len(values):
        return 1.0
    # Sums that differ only by rounding count as equal, so that ties do not depend on the order of additions.
    observed = abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())
    if len(values) <= FLIPS_ENUMERATED:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(values))))
        return float(np.mean(np.abs(signs @ values) >= observed))
    signs = np.random.default_rng(seed).integers(0, 2, size=(DRAWN_FLIPS, len(values)), dtype=np.int8) * 2.0 - 1.0
    return (1 + int(np.sum(np.abs(signs @ values) >= observed))) / (1 + DRAWN_FLIPS)


def holm(chances: Sequence[float], level: float) -> list[bool]:
    """Return which tests are significant by Holm's method: the chance of any false positive is at most `level`."""
    held, order = [False] * len(chances), sorted(range(len(chances)), key=chances.__getitem__)
    for rank, index in enumerate(order):
        if chances[index] > level / (len(chances) - rank):
            break
        held[index] = True
    return held
