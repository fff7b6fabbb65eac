"""Importance weights and rejections for data of another policy equal their definitions."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from triton_agent.memory.records import Distribution, SamplingRecord
from triton_agent.policy.train.prepare.off_policy import (
    fresh_enough,
    importance_weights,
    kept_by_share,
    mismatch,
    share_keep_probability,
    staleness,
    training_temperature,
    versions_by_age,
)
from triton_agent.tools.errors import UsageError

SEEDS = range(50)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_are_truncated_ratios_and_feedback_has_none(seed: int) -> None:
    draw = random.Random(seed)
    sampled = [-draw.expovariate(1) for _ in range(12)]
    trained = [-draw.expovariate(1) for _ in range(12)]
    mask = [draw.random() < 0.7 for _ in range(12)]
    found = importance_weights(trained, sampled, mask, cap=1.5)
    for weight, new, old, chosen in zip(found, trained, sampled, mask):
        assert weight == pytest.approx(min(math.exp(new) / math.exp(old), 1.5) if chosen else 0.0)


def test_a_weight_of_an_absurd_ratio_is_the_cap() -> None:
    assert importance_weights([0.0], [-2000.0], [True]) == [2.0]


def test_small_shares_are_kept_by_chance_and_the_same_ones_each_time() -> None:
    assert [share_keep_probability(share) for share in (0.0, 0.3, 0.35, 0.4, 1.0)] == pytest.approx([0, 0, 0.5, 1, 1])
    keys = [f"run/{i}.0" for i in range(4000)]
    kept = [kept_by_share(0.35, key, seed=3) for key in keys]
    assert kept == [kept_by_share(0.35, key, seed=3) for key in keys]
    assert 0.45 < statistics.mean(kept) < 0.55
    assert not any(kept_by_share(0.3, key) for key in keys)
    assert all(kept_by_share(0.4, key) and kept_by_share(None, key) for key in keys)


def test_staleness_counts_versions_up_to_the_current_one() -> None:
    order = versions_by_age(["a", "b", "a", "c"], current="b")
    assert order == ("a", "c", "b")
    assert [staleness(version, order) for version in ("b", "c", "a", "z")] == [0, 1, 2, None]
    assert [fresh_enough(version, order, 1) for version in ("b", "c", "a", "z")] == [True, True, False, False]
    assert fresh_enough("z", order, None)


def drawn(*temperatures: float | None) -> list[SamplingRecord]:
    return [SamplingRecord(temperature=temperature) for temperature in temperatures]


def test_training_is_at_the_temperature_of_the_draws() -> None:
    assert training_temperature(drawn(0.8, 0.8, None, 0.0), None) == 0.8
    assert training_temperature(drawn(0.0, 0.0), None) == 1.0, "greedy draws are left out at any temperature"
    assert training_temperature(drawn(0.8, 1.0), 1.0) == 1.0
    assert training_temperature(drawn(None), 0.7) == 0.7
    with pytest.raises(UsageError, match=r"several temperatures: 2 at 0.8, 1 at 1"):
        training_temperature(drawn(0.8, 1.0, 0.8), None)
    with pytest.raises(UsageError, match="do not say at which temperature"):
        training_temperature(drawn(None, None), None)
    with pytest.raises(UsageError, match="--temperature 0"):
        training_temperature(drawn(0.8), 0.0)


@pytest.mark.parametrize(
    ("record", "kind", "temperature", "refused"),
    [
        ({"temperature": 0.8}, Distribution.SAMPLED, 0.8, ""),
        ({"temperature": 0.8}, Distribution.SAMPLED, 1.0, "sampled at temperature 0.8"),
        ({"temperature": 0.8}, Distribution.MODEL, 0.8, "before the temperature"),
        ({"temperature": 0.8}, Distribution.UNKNOWN, 0.8, "does not state"),
        ({"temperature": 1.0}, Distribution.MODEL, 1.0, ""),
        ({"temperature": 1.0}, Distribution.UNKNOWN, 1.0, ""),
        ({"temperature": 0.0}, Distribution.SAMPLED, 1.0, "instead of sampled"),
        ({}, Distribution.UNKNOWN, 0.8, ""),
        ({"temperature": 1.0, "top_p": 0.9}, Distribution.SAMPLED, 1.0, "changed the distribution"),
        ({"temperature": 1.0, "top_k": 20}, Distribution.SAMPLED, 1.0, "changed the distribution"),
        ({"temperature": 1.0, "repetition_penalty": 1.1}, Distribution.SAMPLED, 1.0, "changed the distribution"),
        ({"temperature": 1.0, "pattern": "a+"}, Distribution.SAMPLED, 1.0, "changed the distribution"),
        ({"temperature": 1.0, "top_p": 1.0, "top_k": -1, "pattern": ""}, Distribution.SAMPLED, 1.0, ""),
    ],
)
def test_draws_from_another_distribution_than_the_trainings_are_refused(
    record: dict[str, object], kind: Distribution, temperature: float, refused: str
) -> None:
    found = mismatch(SamplingRecord(**record), kind, temperature)  # type: ignore[arg-type]
    assert refused in found and bool(refused) == bool(found)
