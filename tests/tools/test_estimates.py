"""Shares, means, pass@k and tests of a change, against results worked out by hand, brute force and simulations."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from triton_agent.tools import estimates
from triton_agent.tools.estimates import chance_of_wins, even_odds, holm, pass_at, resampled, share_interval, sign_flips


def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer() -> None:
    row = [1.0, 0.0, 0.0, 1.0, 0.0]
    for k in range(1, 6):
        draws = list(itertools.combinations(row, k))
        assert pass_at(k, row) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_pass_at_k_is_refused_where_there_are_fewer_answers() -> None:
    for k in (0, 3):
        with pytest.raises(ValueError, match=f"pass@{k} needs more than 2"):
            pass_at(k, [1.0, 0.0])


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634)]
)
def test_the_interval_of_a_share_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    found = share_interval(successes, trials)
    assert (found.median, found.low, found.high) == pytest.approx((successes / trials, low, high), abs=1e-4)


@pytest.mark.parametrize("truth", [0.02, 0.3, 0.5, 0.9])
def test_the_interval_of_a_share_covers_the_truth_about_as_often_as_it_says(truth: float) -> None:
    trials = 40
    chances = [math.comb(trials, n) * truth**n * (1 - truth) ** (trials - n) for n in range(trials + 1)]
    covering = (share_interval(n, trials) for n in range(trials + 1))
    covered = sum(chance for chance, found in zip(chances, covering) if found.low <= truth <= found.high)
    assert 0.92 <= covered <= 0.99


def test_a_share_of_nothing_is_refused() -> None:
    for successes, trials in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="not a share"):
            share_interval(successes, trials)


def test_a_bootstrap_covers_the_mean_about_as_often_as_it_says() -> None:
    source, covered = random.Random(1), 0
    for _ in range(200):
        found = resampled([source.gauss(3.0, 1.0) for _ in range(40)], estimates.mean, resamples=400)
        covered += found.low <= 3.0 <= found.high
    assert 0.89 * 200 <= covered <= 0.99 * 200


def test_equal_seeds_give_equal_intervals_and_the_estimate_lies_inside() -> None:
    values = [0.5, 1.0, 4.0, 9.0]
    found = resampled(values, estimates.geometric_mean)
    assert found == resampled(values, estimates.geometric_mean) != resampled(values, estimates.geometric_mean, seed=1)
    assert found.median == pytest.approx(statistics.geometric_mean(values))
    assert found.low < found.median < found.high
    assert resampled([2.0], estimates.median).low == resampled([2.0], estimates.median).high == 2.0
    with pytest.raises(ValueError, match="nothing"):
        resampled([], estimates.mean)


def test_chance_of_wins_is_a_probability_also_for_many_pairs() -> None:
    assert chance_of_wins(0, 10) == 1
    assert chance_of_wins(10, 10) == 2**-10
    assert chance_of_wins(2000, 4000) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (3, 3), (6, 1), (0, 8), (9, 2)])
def test_even_odds_are_those_of_fair_coins(gained: int, lost: int) -> None:
    throws = list(itertools.product((0, 1), repeat=gained + lost))
    as_uneven = sum(abs(2 * sum(throw) - len(throw)) >= abs(gained - lost) for throw in throws)
    assert even_odds(gained, lost) == pytest.approx(as_uneven / len(throws))


def test_sign_flips_are_gone_through_one_by_one() -> None:
    differences = [0.3, -0.1, 0.4, 0.0, 0.2, 0.25]
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(total >= abs(sum(differences)) - 1e-9 for total in sums) / len(sums)
    assert sign_flips(differences) == pytest.approx(expected)
    assert sign_flips([0.1] * 10) == 2 / 2**10
    assert sign_flips([]) == sign_flips([0.0, 0.0]) == 1.0


def test_many_sign_flips_are_drawn_and_agree_with_the_normal_limit() -> None:
    source = random.Random(4)
    differences = [source.gauss(0.3, 1.0) for _ in range(60)]
    limit = statistics.fmean(differences) * 60 / math.sqrt(sum(value**2 for value in differences))
    expected = 2 * (1 - statistics.NormalDist().cdf(abs(limit)))
    assert sign_flips(differences) == pytest.approx(expected, abs=0.01)
    assert sign_flips(differences) == sign_flips(differences)
    assert sign_flips([1.0] * 60) == pytest.approx(1 / (1 + estimates.DRAWN_FLIPS))


@pytest.mark.parametrize("count", [9, 30])
def test_differences_of_nothing_are_called_real_at_most_as_often_as_stated(count: int) -> None:
    generator = np.random.default_rng(7)
    trials, false = 200, 0
    for _ in range(trials):
        skewed = generator.standard_cauchy(count) * generator.uniform(0.1, 5)
        false += sign_flips([float(value) for value in skewed]) <= 0.05
    assert false <= 0.05 * trials + 2 * math.sqrt(0.05 * 0.95 * trials)


def test_of_many_tests_only_those_hold_that_hold_together() -> None:
    assert holm([0.01, 0.02, 0.04], 0.05) == [True, True, True]
    assert holm([0.04, 0.03, 0.02], 0.05) == [False, False, False]
    assert holm([0.2, 0.001, 0.03], 0.05) == [False, True, False]
    assert holm([], 0.05) == []
