"""Statistics of timing samples: intervals and the decision of a win."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.estimates import chance_of_wins
from triton_agent.tools.race.intervals import is_faster, is_settled, median_interval, paired_ratio
from triton_agent.tools.race.pairing import LEAST_PAIRS, PAIRS_BETWEEN_LOOKS
from triton_agent.tools.race.speed import SpeedSettings

Noise = Callable[[random.Random, int], list[float]]
"""Returns the times of this many calls, in order."""


def quiet(rng: random.Random, calls: int) -> list[float]:
    return [1 + rng.gauss(0, 0.003) for _ in range(calls)]


def heavy_tailed(rng: random.Random, calls: int) -> list[float]:
    return [1 + 0.02 * rng.paretovariate(1.1) for _ in range(calls)]


def drifting(rng: random.Random, calls: int) -> list[float]:
    return [1 + 0.5 * index / calls + rng.gauss(0, 0.01) for index in range(calls)]


def alternating(rng: random.Random, calls: int) -> list[float]:
    return [1 + 0.2 * (index % 2) + rng.gauss(0, 0.01) for index in range(calls)]


def two_clocks(rng: random.Random, calls: int) -> list[float]:
    return [(1.0 if (index // 7) % 2 else 1.3) + rng.gauss(0, 0.03) for index in range(calls)]


NOISES = [quiet, heavy_tailed, drifting, alternating, two_clocks]


def as_pairs(times: list[float], rng: random.Random, speedup: float = 1.0) -> tuple[list[float], list[float]]:
    """Form pairs from four successive calls each, in random order ABBA or BAAB, as `pairing` does."""
    baseline, candidate = [], []
    for first, second, third, fourth in zip(*(times[start::4] for start in range(4))):
        outer, inner = (first + fourth) / 2, (second + third) / 2
        if rng.random() < 0.5:
            outer, inner = inner, outer
        baseline.append(outer)
        candidate.append(inner / speedup)
    return baseline, candidate


@pytest.mark.parametrize("noise", NOISES)
def test_equal_subjects_win_at_most_one_time_in_a_hundred(noise: Noise) -> None:
    rng = random.Random(1)
    trials = 1500
    wins = sum(is_faster(*as_pairs(noise(rng, 100), rng)) for _ in range(trials))
    assert wins <= 0.01 * trials


@pytest.mark.parametrize("noise", NOISES)
def test_equal_subjects_with_one_call_of_each_in_a_pair_win_as_seldom(noise: Noise) -> None:
    rng = random.Random(1)
    trials = 1500
    wins = 0
    for _ in range(trials):
        calls = iter(noise(rng, 50))
        pairs = [rng.sample(pair, 2) for pair in zip(calls, calls)]
        wins += is_faster(*map(list, zip(*pairs)))
    assert wins <= 0.01 * trials


@pytest.mark.parametrize("noise", [quiet, heavy_tailed, drifting])
def test_a_win_just_at_the_margin_is_not_one(noise: Noise) -> None:
    rng = random.Random(2)
    wins = sum(is_faster(*as_pairs(noise(rng, 100), rng, speedup=1.02)) for _ in range(600))
    assert wins <= 0.02 * 600  # one in a hundred expected at most; twice that for the luck of the draw


@pytest.mark.parametrize("noise", NOISES)
def test_a_speedup_of_half_is_seen_through_any_noise(noise: Noise) -> None:
    rng = random.Random(3)
    assert all(is_faster(*as_pairs(noise(rng, 100), rng, speedup=1.5)) for _ in range(20))


def test_a_few_percent_are_seen_through_drift_far_larger_than_them() -> None:
    rng = random.Random(4)
    assert is_faster(*as_pairs(drifting(rng, 100), rng, speedup=1.05))


def test_an_advantage_of_going_second_ten_times_the_speedup_hides_nothing() -> None:
    rng = random.Random(11)
    assert is_faster(*as_pairs(alternating(rng, 100), rng, speedup=1.05))


def test_a_look_at_pairs_still_coming_in_leaves_false_wins_at_one_in_a_hundred() -> None:
    """The exact chance, for equal subjects, that the candidate wins at an interim look or in the final test."""
    pairs = SpeedSettings().full_pairs
    chance = {0: 1.0}
    won = 0.0
    for taken in range(1, pairs + 1):
        chance = {w: (chance.get(w, 0) + chance.get(w - 1, 0)) / 2 for w in range(taken + 1)}
        if taken == pairs or (taken >= LEAST_PAIRS and taken % PAIRS_BETWEEN_LOOKS == 0):
            winning = [w for w in chance if decides(w, taken, final=taken == pairs)]
            won += sum(chance.pop(w) for w in winning)
    assert 0.005 < won <= 0.01


def decides(wins: int, pairs: int, *, final: bool) -> bool:
    """Return True if this many won pairs are a win; at the end only the sign test counts."""
    if final:
        return chance_of_wins(wins, pairs) <= 0.01
    baseline, candidate = [2.0] * wins + [1.0] * (pairs - wins), [1.0] * wins + [2.0] * (pairs - wins)
    return 2 * wins > pairs and is_settled(baseline, candidate)


def test_six_pairs_never_win() -> None:
    assert not is_faster([2.0] * 6, [1.0] * 6)
    assert is_faster([2.0] * 7, [1.0] * 7)


def test_the_ratio_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(5)
    covered = 0
    for _ in range(200):
        interval = paired_ratio(*as_pairs(quiet(rng, 120), rng, speedup=1.3), resamples=400)
        covered += interval.low <= 1.3 <= interval.high
    assert covered >= 0.9 * 200


def test_drift_shared_by_both_halves_does_not_widen_the_ratio() -> None:
    baseline = [1 + index / 100 for index in range(40)]
    interval = paired_ratio(baseline, [time / 2 for time in baseline])
    assert interval.low == pytest.approx(2) == interval.high


def test_one_seed_gives_one_interval() -> None:
    rng = random.Random(6)
    pairs = as_pairs(heavy_tailed(rng, 120), rng)
    assert paired_ratio(*pairs, seed=3) == paired_ratio(*pairs, seed=3) != paired_ratio(*pairs, seed=4)


def test_the_median_interval_covers_the_median_of_a_skewed_distribution() -> None:
    rng = random.Random(7)
    truth = 2 ** (1 / 1.1)  # of a Pareto distribution with this exponent
    covered = 0
    for _ in range(400):
        interval = median_interval([rng.paretovariate(1.1) for _ in range(25)])
        covered += interval.low <= truth <= interval.high
    assert covered >= 0.93 * 400


def test_too_few_samples_give_the_whole_range() -> None:
    interval = median_interval([3.0, 1.0, 2.0])
    assert (interval.low, interval.median, interval.high) == (1.0, 2.0, 3.0)
    trimmed = median_interval([float(sample) for sample in range(1, 10)])
    assert (trimmed.low, trimmed.high) == (2.0, 8.0)  # the textbook ranks for nine samples at 95%


@pytest.mark.parametrize("broken", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_time_is_the_clocks_failure(broken: float) -> None:
    with pytest.raises(InstrumentError, match="timing sample 1"):
        paired_ratio([1.0, broken], [1.0, 1.0])
    with pytest.raises(InstrumentError):
        median_interval([])


def test_sides_of_different_length_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="not pairs"):
        is_faster([1.0, 1.0], [1.0])
