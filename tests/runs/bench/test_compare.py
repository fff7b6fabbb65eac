"""Comparison of two benchmark records: real changes are named, noise is not, and incomparable records are refused."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
from tests.runs.bench.made_records import (
    GPU,
    SETTINGS,
    changed,
    interval,
    lost,
    noisy,
    record,
    right,
    row,
    speed,
    wrong,
)

from triton_agent.runs.bench.compare.compare import (
    LEVEL,
    beyond_by_chance,
    chance_of_change,
    compare,
    ratio,
    shift,
)
from triton_agent.runs.bench.compare.differences import differences
from triton_agent.runs.bench.rows import Against, Kind
from triton_agent.tools.race.intervals import paired_ratio
from triton_agent.tools.results import Interval

FACTORS: dict[str, float | None] = {
    f"g/{n}": None if n % 5 == 0 else math.exp(random.Random(n).gauss(0.3, 0.5)) for n in range(40)
}
"""Forty problems, eight of them unsolved."""
SEEDS = 60
MOST_BY_LUCK = LEVEL * SEEDS + 2 * math.sqrt(LEVEL * (1 - LEVEL) * SEEDS)


def test_gained_and_lost_problems_are_named_and_counted_by_hand() -> None:
    before = record([row("g/a", right()), row("g/b", wrong()), row("g/c", right()), row("g/d", wrong())])
    after = record([row("g/a", right()), row("g/b", right()), row("g/c", wrong()), row("g/d", wrong())])
    found = compare(before, after)
    assert (found.gained, found.lost) == (("g/b",), ("g/c",))
    assert (found.both_solved, found.neither_solved, found.unknown) == (1, 1, 0)
    assert found.chance_solved == 1.0 and found.speeds == ()


def test_seven_gained_and_none_lost_is_no_noise() -> None:
    before = record([row(f"g/{n}", wrong()) for n in range(7)])
    after = record([row(f"g/{n}", right()) for n in range(7)])
    assert compare(before, after).chance_solved == 2 / 2**7


def test_problems_are_paired_by_name_and_contents() -> None:
    before = record([row("g/a", right()), row("g/b", right()), row("g/c", right())])
    rows = [row("g/a", right()), changed(row("g/b", right()), digest="other"), row("g/d", right())]
    found = compare(before, record(rows))
    assert [pair.label for pair in found.pairs] == ["g/a"]
    assert (found.only_before, found.only_after) == (("g/b", "g/c"), ("g/b", "g/d"))


def test_what_was_not_measured_is_neither_gained_nor_lost() -> None:
    found = compare(record([row("g/a", right())]), record([row("g/a", lost())]))
    assert (found.gained, found.lost, found.unknown) == ((), (), 1)
    assert found.pairs[0].solved_after is None


def test_the_means_of_two_records_by_hand() -> None:
    before = record([row("g/a", right(speed(1.0))), row("g/b", wrong()), row("g/c", right(speed(2.0))), row("g/d")])
    after = record([row("g/a", right(speed(4.0))), row("g/b", right(speed(2.0))), row("g/c", wrong()), row("g/d")])
    (found,) = compare(before, after).speeds
    assert found.solved is not None and found.everything is not None and found.baseline is not None
    assert (found.solved.ratio.median, found.solved.of) == (pytest.approx(4.0), 1)
    assert (found.everything.ratio.median, found.everything.of) == (pytest.approx(4 ** (1 / 3)), 3)
    assert (found.everything.higher, found.everything.lower) == (2, 1)
    assert found.baseline.ratio.median == 1.0 and found.baseline.chance == 1.0


def test_a_problem_that_passed_without_a_time_is_not_taken_for_one_without_a_kernel() -> None:
    before = record([row("g/a", right(speed(3.0))), row("g/b", right(speed(2.0)))])
    after = record([row("g/a", right()), row("g/b", right(speed(2.0)))])
    (found,) = compare(before, after).speeds
    assert found.everything is not None and found.everything.of == 1


def test_a_ratio_is_as_unsure_as_both_its_sides() -> None:
    exact, vague = Interval(median=2.0, low=2.0, high=2.0), Interval(median=4.0, low=2.0, high=8.0)
    found = ratio(exact, vague)
    assert (found.median, found.low, found.high) == (pytest.approx(2.0), pytest.approx(1.0), pytest.approx(4.0))
    turned = ratio(vague, exact)
    assert (turned.low, turned.high) == (pytest.approx(0.25), pytest.approx(1.0))
    both = ratio(vague, vague)
    assert both.median == 1.0 and math.log(both.high) == pytest.approx(math.sqrt(2) * math.log(2))


@pytest.mark.parametrize(("errors", "chance"), [(0.0, 1.0), (1.4149, 0.2), (2.3646, 0.05), (5.4079, 0.001)])
def test_chances_are_those_of_students_t(errors: float, chance: float) -> None:
    assert beyond_by_chance(errors) == pytest.approx(chance, rel=1e-3)


def test_what_a_rerun_moves_by_is_no_change_however_narrow_the_intervals() -> None:
    exact = Interval(median=1.0, low=1.0, high=1.0)
    assert chance_of_change(exact, Interval(median=1.019, low=1.019, high=1.019)) == 1.0
    assert chance_of_change(exact, Interval(median=1.03, low=1.03, high=1.03)) == 0.0
    assert chance_of_change(interval(1.0, 0.2), interval(1.2, 0.2)) > LEVEL


def test_equal_kernels_are_called_changed_at_most_as_often_as_stated() -> None:
    false = {"problems": 0, "solved": 0, "all": 0}
    for seed in range(SEEDS):
        source = random.Random(seed)
        found = compare(noisy(FACTORS, source, noise=0.04), noisy(FACTORS, source, noise=0.04))
        (speeds,) = found.speeds
        assert speeds.solved and speeds.everything
        false["problems"] += bool(found.faster or found.slower)
        false["solved"] += speeds.solved.changed
        false["all"] += speeds.everything.changed
        assert found.chance_solved == 1.0
    assert max(false.values()) <= MOST_BY_LUCK, false


@pytest.mark.parametrize("pairs", [8, 30])
def test_intervals_of_a_real_clocks_kind_name_no_equal_kernels(pairs: int) -> None:
    """Intervals of few pairs with heavy tails are sometimes far too narrow."""
    source, false = random.Random(3), 0

    def measured() -> Interval:
        noise = [[1 + 0.1 * source.paretovariate(1.2) for _ in range(pairs)] for _ in range(2)]
        return paired_ratio(*noise, resamples=200)

    for _ in range(10):
        before = record([row(f"g/{n}", right(changed_speed(measured()))) for n in range(12)])
        after = record([row(f"g/{n}", right(changed_speed(measured()))) for n in range(12)])
        false += bool(compare(before, after).faster or compare(before, after).slower)
    assert false <= 2


def changed_speed(speedup: Interval) -> Any:
    return dataclasses.replace(speed(1.0), speedup=speedup)


def test_a_kernel_that_is_faster_is_named_and_no_other() -> None:
    for seed in range(10):
        source = random.Random(seed)
        better = {label: factor and factor * (1.5 if label == "g/7" else 1.0) for label, factor in FACTORS.items()}
        found = compare(noisy(FACTORS, source), noisy(better, source))
        assert [pair.label for pair in found.faster] == ["g/7"] and found.slower == ()


def test_a_few_percent_everywhere_are_seen_as_a_whole_though_no_problem_shows_them() -> None:
    source = random.Random(5)
    found = compare(noisy(FACTORS, source, noise=0.02), noisy(FACTORS, source, noise=0.02, shift=1.03))
    (speeds,) = found.speeds
    assert not found.faster
    assert speeds.solved is not None and speeds.solved.changed
    assert speeds.solved.ratio.low > 1.0 and speeds.solved.ratio.median == pytest.approx(1.03, abs=0.01)


def test_the_other_way_round_everything_is_the_other_way_round() -> None:
    source = random.Random(6)
    one, other = noisy(FACTORS, source), noisy({**FACTORS, "g/7": None}, source, shift=1.2)
    there, back = compare(one, other), compare(other, one)
    assert there.gained == back.lost and there.lost == back.gained
    assert [pair.label for pair in there.faster] == [pair.label for pair in back.slower]
    for ahead, behind in zip(there.speeds, back.speeds):
        assert ahead.solved and behind.solved
        assert ahead.solved.ratio.median == pytest.approx(1 / behind.solved.ratio.median)
        assert ahead.solved.chance == pytest.approx(behind.solved.chance, abs=0.01)


def test_speeds_can_be_compared_against_another_baseline() -> None:
    def at(factor: float) -> Any:
        return record([row("g/a", right(speed(1.0), speed(factor, against=Against.COMPILE, kind=Kind.LATENCY)))])

    found = compare(at(1.0), at(2.0), against=Against.COMPILE, kind=Kind.LATENCY)
    assert found.pairs[0].changed and [pair.label for pair in found.faster] == ["g/a"]
    assert not compare(at(1.0), at(2.0)).faster
    assert [(item.against, item.kind) for item in found.speeds] == [("eager", "device"), ("compile", "latency")]


def test_no_ratios_are_no_shift() -> None:
    assert shift([]) is None


ROWS = [row("g/a", right(speed(2.0))), row("g/b", wrong())]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (record(ROWS, benchmark="kernelbench"), "benchmark"),
        (record(ROWS, labels=["g/a", "g/b", "g/c"]), "problems"),
        (record(ROWS, digest="contents"), "problems"),
        (record(ROWS, settings={**SETTINGS, "mode": "allow-library"}), "mode"),
        (record(ROWS, settings={**SETTINGS, "samples": 4}), "samples"),
        (record([changed(ROWS[0], where=dataclasses.replace(GPU, gpu="NVIDIA A100")), ROWS[1]]), "GPU"),
    ],
)
def test_what_makes_figures_incomparable_is_told(other: Any, what: str) -> None:
    deciding = [item for item in differences(record(ROWS), other) if item.deciding]
    assert [item.what for item in deciding] == [what]
    assert deciding[0].before != deciding[0].after


def test_what_is_compared_on_purpose_is_told_and_stands_in_no_way() -> None:
    where = dataclasses.replace(GPU, torch="2.13", commit="def")
    settings = {**SETTINGS, "policy": "scripted", "protocol": "original"}
    found = differences(record(ROWS), record([changed(item, where=where) for item in ROWS], settings=settings))
    assert {item.what for item in found} == {"policy", "protocol", "torch", "commit"}
    assert not any(item.deciding for item in found)
    assert differences(record(ROWS), record(ROWS)) == ()


def test_a_part_of_the_same_benchmark_is_no_other_benchmark() -> None:
    labels = [item.label for item in ROWS]
    found = compare(record(ROWS[:1], labels=labels), record(ROWS, labels=labels))
    assert found.deciding == () and found.only_after == ("g/b",)
