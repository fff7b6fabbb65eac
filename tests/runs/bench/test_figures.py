"""Figures of a benchmark, computed by hand; figures that were not measured are absent."""

from __future__ import annotations

import json
import math

import pytest
from tests.runs.bench.made_records import CPU, baseline, lost, record, right, row, speed, wrong

from triton_agent.runs.bench.figures import Summary, fast_p, summaries, with_unsolved
from triton_agent.runs.bench.rows import Against, Kind
from triton_agent.runs.bench.standing import is_solved, standing_for
from triton_agent.tools.estimates import share_interval
from triton_agent.tools.results import Finding, to_json

TIMED = [
    row("gemm/a", right(speed(4.0), floor_fraction=0.9, peak_memory_ratio=0.5), dominant="gemm", dtype="float16"),
    row("gemm/b", right(speed(1.0), floor_fraction=0.3, peak_memory_ratio=1.0), dominant="gemm", dtype="bfloat16"),
    row("norms/c", right(speed(0.5), floor_fraction=0.1), dominant="memory", dtype="float32"),
    row("norms/d", wrong(Finding.TAMPERED), dominant="memory", dtype="float32"),
    row("norms/e", wrong(Finding.SYNTAX, called=False), dominant="memory", dtype="int64"),
]
"""Five problems: solved at 4x, 1x and half the speed, a cheat, and one that does not compile."""


def whole(*rows: object, **more: object) -> Summary:
    return summaries(record(rows, **more))[0]  # type: ignore[arg-type]


def test_fast_p_counts_all_problems_and_the_factor_itself_is_not_faster() -> None:
    speedups = [4.0, 1.0, 0.5, None, None]
    assert [fast_p(speedups, p) for p in (0.0, 0.5, 1.0, 4.0)] == [0.6, 0.4, 0.2, 0.0]
    assert with_unsolved(speedups) == [4.0, 1.0, 0.5, 1.0, 1.0]


def test_a_table_worked_out_by_hand() -> None:
    found = whole(*TIMED)
    assert (found.asked, found.rows, found.judged, found.solved_count) == (5, 5, 5, 3)
    assert found.solved is not None and found.solved.value == share_interval(3, 5)
    assert found.called is not None and found.called.value.median == 0.8
    assert found.executed is not None and found.executed.value.median == 0.6
    assert found.hack is not None and found.hack.value.median == pytest.approx(0.2)
    assert found.floor is not None and (found.floor.value.median, found.floor.of) == (0.3, 3)
    assert found.memory is not None and (found.memory.value.median, found.memory.of) == (0.75, 2)
    assert found.kernels == {"passed": 3, "cheated": 1, "compile_error": 1}
    speeds = found.speed()
    assert speeds is not None and (speeds.timed, speeds.untimed) == (3, 0)
    assert {name: figure.value.median for name, figure in speeds.fast.items()} == {
        "fast_1": 0.2,
        "fast_1.2": 0.2,
        "fast_1.5": 0.2,
        "fast_2": 0.2,
    }
    assert speeds.geomean_all is not None and speeds.geomean_solved is not None
    assert speeds.geomean_all.value.median == pytest.approx(2 ** (1 / 5))
    assert speeds.geomean_all.of == 5
    assert speeds.geomean_solved.value.median == pytest.approx(2 ** (1 / 3))
    assert speeds.geomean_solved.of == 3
    assert speeds.mean_solved is not None and speeds.mean_solved.value.median == pytest.approx(5.5 / 3)
    assert len(found.speeds) == 1


def test_groups_are_told_apart_by_family_by_work_and_by_dtype() -> None:
    found = {(item.by, item.name): item for item in summaries(record(TIMED))}
    assert {name for by, name in found if by == "group"} == {"gemm", "norms"}
    assert {name for by, name in found if by == "dominant"} == {"gemm", "memory"}
    assert {name for by, name in found if by == "dtype"} == {"half", "single", "other"}
    assert found["group", "norms"].judged == 3 and found["group", "norms"].solved_count == 1
    for by in ("group", "dominant", "dtype"):
        assert sum(item.judged for (kind, _), item in found.items() if kind == by) == 5


def test_faster_by_the_estimate_and_surely_faster_are_two_figures() -> None:
    speeds = whole(row("g/a", right(speed(1.05, spread=0.2))), row("g/b", right(speed(1.5, spread=0.01)))).speed()
    assert speeds is not None
    assert speeds.fast["fast_1"].value.median == 1.0
    assert speeds.surely_fast["fast_1"].value.median == 0.5


def test_without_a_gpu_there_is_no_speed_and_no_slowness() -> None:
    found = whole(row("g/a", right(), where=CPU), row("g/b", wrong(), where=CPU))
    assert found.solved is not None and found.solved.value.median == 0.5
    assert found.speeds == () and found.floor is None and found.memory is None


def test_solved_without_a_time_stands_in_no_denominator_of_speed() -> None:
    speeds = whole(row("g/a", right(speed(2.0))), row("g/b", right()), row("g/c", wrong())).speed()
    assert speeds is not None
    assert (speeds.timed, speeds.untimed) == (1, 1)
    assert speeds.fast["fast_1"].value.median == 0.5 and speeds.fast["fast_1"].of == 2


def test_a_group_that_is_solved_and_not_timed_has_no_mean() -> None:
    rows = [row("g/a", right(speed(2.0))), row("h/b", right())]
    untimed = next(item for item in summaries(record(rows)) if item.name == "h").speed()
    assert untimed is not None and untimed.untimed == 1
    assert untimed.geomean_all is None and untimed.geomean_solved is None and untimed.fast == {}


def test_what_was_not_measured_or_cannot_be_is_counted_and_is_no_failure() -> None:
    rows = [
        row("g/a", right(speed(2.0))),
        row("g/b", lost()),
        row("g/c", wrong(), lost(index=1)),
        row("g/d", lost(), right(speed(1.5), index=1)),
        row("g/e", unusable="makes no output", needs_gpu=False),
        row("g/f", unusable="launches Triton itself", needs_gpu=True),
        row("g/g", baselines=(baseline(Against.COMPILE, 2.0),)),
    ]
    found = whole(*rows)
    assert [is_solved(item) for item in rows] == [True, None, None, True, None, None, None]
    assert (found.judged, found.solved_count, found.not_measured) == (2, 2, 2)
    assert (found.unusable, found.needs_gpu, found.no_samples) == (2, 1, 1)
    assert found.rows == found.judged + found.not_measured + found.unusable + found.no_samples


def test_a_part_of_a_benchmark_says_of_how_many_it_is() -> None:
    labels = ["gemm/a", "gemm/x", "norms/c", "norms/y", "norms/z", "scans/q"]
    found = summaries(record([TIMED[0], TIMED[2]], labels=labels))
    assert [(item.name, item.rows, item.asked) for item in found if item.by in ("", "group")] == [
        ("all", 2, 6),
        ("gemm", 1, 2),
        ("norms", 1, 3),
    ]
    assert all(item.asked is None for item in found if item.by == "dtype")


def test_nothing_at_all_has_no_figures() -> None:
    found = whole(labels=["g/a"])
    assert (found.rows, found.asked, found.judged) == (0, 1, 0)
    assert found.solved is found.executed is found.hack is None and found.pass_at == {}


def test_pass_at_k_is_of_problems_with_enough_samples() -> None:
    rows = [
        row("g/a", right(), wrong(index=1), wrong(index=2), wrong(index=3)),
        row("g/b", *(wrong(index=index) for index in range(4))),
        row("g/c", right(), lost(index=1), lost(index=2), right(index=3)),
    ]
    found = whole(*rows)
    assert {name: (figure.value.median, figure.of) for name, figure in found.pass_at.items()} == {
        "pass@1": (pytest.approx((0.25 + 0 + 1) / 3), 3),
        "pass@4": (0.5, 2),
    }
    assert found.executed is not None and found.executed.value == found.pass_at["pass@1"].value
    assert found.solved is not None and found.solved.value.median == pytest.approx(2 / 3)


def test_the_fastest_of_what_passed_stands_for_a_problem() -> None:
    slow, fast = right(speed(1.1)), right(speed(1.4), speed(0.7, against=Against.COMPILE), index=1)
    item = row("g/a", slow, fast, wrong(index=2))
    assert standing_for(item) == fast
    found = whole(item)
    against_compile = found.speed(Against.COMPILE)
    assert against_compile is not None and against_compile.fast["fast_1"].value.median == 0.0
    assert standing_for(row("g/b", lost(), wrong(index=1))) == wrong(index=1)
    assert standing_for(row("g/c")) is None


def test_hacks_are_counted_among_all_kernels_judged_on_the_way() -> None:
    searched = right(statuses={"passed": 6, "cheated": 2}, cheated=True)
    found = whole(row("g/a", searched), row("g/b", wrong(Finding.FALSE_CLOCK)), row("g/c", wrong()))
    assert found.hack is not None and found.hack.value.median == pytest.approx((0.25 + 1 + 0) / 3)


def test_where_there_was_no_kernel_there_was_no_hack_and_no_honesty_either() -> None:
    silent = wrong(Finding.NO_MODEL, kernel="", statuses={}, called=False)
    found = whole(row("g/a", silent), row("g/b", wrong(Finding.TAMPERED, statuses={})))
    assert found.hack is not None and (found.hack.value.median, found.hack.of) == (1.0, 1)
    assert found.kernels == {"cheated": 1} and found.judged == 2


def test_each_baseline_and_kind_of_time_has_figures_of_its_own() -> None:
    times = [speed(2.0, against=against, kind=kind) for against in Against for kind in Kind]
    found = whole(row("g/a", right(*times)), row("g/b", wrong()))
    assert [(item.against, item.kind) for item in found.speeds] == [(a, k) for k in Kind for a in Against]


def test_baselines_are_set_against_eager() -> None:
    rows = [
        row("g/a", baselines=(baseline(Against.EAGER, 1.0), baseline(Against.COMPILE, 4.0))),
        row("g/b", baselines=(baseline(Against.EAGER, 1.0), baseline(Against.COMPILE, 1.0))),
    ]
    (found,) = whole(*rows).baselines
    assert found.against is Against.COMPILE and found.geomean.of == 2
    assert found.geomean.value.median == pytest.approx(2.0)


def test_figures_are_the_same_every_time_and_go_into_json() -> None:
    first, second = (json.dumps(to_json(summaries(record(TIMED))), allow_nan=False) for _ in range(2))
    assert first == second
    assert math.isclose(json.loads(first)[0]["speeds"][0]["fast"]["fast_1"]["value"]["median"], 0.2)
