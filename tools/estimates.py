"""What can be said from counts and from a sample of problems: shares, means, medians, pass@k, and tests of a change.

    pass_at              chance that one of k answers is right, without bias
    share_interval       of a share, by Wilson; right at 0 and at 1, too
    resampled, between   percentile bootstrap; equal seeds give equal intervals
    sign_flips           exact permutation test of paired differences
    chance_of_wins       sign test, one-sided; `even_odds` two-sided, which on discordant pairs is McNemar's exact test
    holm                 which of many tests hold together

Plain sequences in, plain figures out. A bootstrap over few problems promises too much: under about ten of them read its
interval as a hint and decide by an exact test. Not covered: the noise of a clock, see `timing/intervals.py`.
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
"""Enough for the second digit of a 95% bound."""
FLIPS_ENUMERATED = 14
"""Up to so many differences all 2^n signs are gone through; beyond that, as many are drawn."""
DRAWN_FLIPS = 10_000

Statistic = Callable[[np.ndarray], np.ndarray]
"""Of samples in rows: one figure a row, as `np.mean(rows, axis=-1)`."""


def pass_at(k: int, row: Sequence[float]) -> float:
    """The chance that at least one of k answers is right, estimated from all of them without bias."""
    if not 1 <= k <= len(row):
        raise ValueError(f"pass@{k} cannot be told from {len(row)} answers")
    wrong = sum(value == 0.0 for value in row)
    return 1.0 - math.comb(wrong, k) / math.comb(len(row), k)


def share_interval(successes: float, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """A share and Wilson's interval. `successes` may be a fraction where each trial is itself a mean."""
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"no share: {successes} of {trials}")
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    reach = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # Rounding may leave a bound on the wrong side of the share at 0 and 1, where it is the bound.
    return Interval(median=share, low=max(0.0, min(middle - reach, share)), high=min(1.0, max(middle + reach, share)))


def between(estimate: float, drawn: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """The middle of what resampling drew, with the estimate inside."""
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
    """A figure of a sample and its bootstrap interval: what other samples of this size might have given."""
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
    """Of positive figures."""
    return np.asarray(np.exp(np.log(rows).mean(axis=-1)))


def chance_of_wins(wins: int, pairs: int) -> float:
    """The probability that fair coins give at least `wins` heads in `pairs` throws."""
    heads = sum(math.comb(pairs, count) for count in range(wins, pairs + 1))
    # Whole numbers until the last step: both sides leave the range of a float beyond a thousand pairs.
    return float(heads / 2**pairs)


def even_odds(gained: int, lost: int) -> float:
    """The probability that fair coins fall at least as unevenly, to either side."""
    return min(1.0, 2 * chance_of_wins(max(gained, lost), gained + lost))


def sign_flips(differences: Sequence[float], *, seed: int = 0) -> float:
    """The probability of a mean as far from zero, were each difference as likely the other way round.

    Exact for up to `FLIPS_ENUMERATED` of them; then from signs drawn, the observed ones counted among them, so that it
    is never too small by chance of the draw.
    """
    values = np.asarray([value for value in differences if value != 0], dtype=float)
    if not len(values):
        return 1.0
    # The smallest sum there can be a difference in rounding counts as equal: ties must not depend on the order.
    observed = abs(float(values.sum())) - 1e-12 * float(np.abs(values).sum())
    if len(values) <= FLIPS_ENUMERATED:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(values))))
        return float(np.mean(np.abs(signs @ values) >= observed))
    signs = np.random.default_rng(seed).integers(0, 2, size=(DRAWN_FLIPS, len(values)), dtype=np.int8) * 2.0 - 1.0
    return (1 + int(np.sum(np.abs(signs @ values) >= observed))) / (1 + DRAWN_FLIPS)


def holm(chances: Sequence[float], level: float) -> list[bool]:
    """Which of several tests hold; the chance that any one of them does so falsely is at most `level`."""
    held, order = [False] * len(chances), sorted(range(len(chances)), key=chances.__getitem__)
    for rank, index in enumerate(order):
        if chances[index] > level / (len(chances) - rank):
            break
        held[index] = True
    return held
