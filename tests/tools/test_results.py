"""An inconsistent evaluation cannot be constructed."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests import verdicts

from triton_agent.tools.results import DECISIONS, Finding, Interval, Status, asked_as, baseline_name, to_json

RIGHT = verdicts.right()
PASSED = verdicts.passed()


def test_every_finding_has_exactly_one_status_and_every_status_but_passed_a_finding() -> None:
    assert set(DECISIONS) == set(Finding)
    assert {decision.status for decision in DECISIONS.values()} == set(Status) - {Status.PASSED}


@pytest.mark.parametrize(
    "change",
    [
        {"finding": Finding.VALUES},
        {"status": Status.TIMEOUT},
        {"status": Status.TIMEOUT, "finding": Finding.VALUES, "message": "m"},
        {"status": Status.WRONG_VALUES, "finding": Finding.VALUES, "message": ""},
        {"message": "passed, but"},
        {"accuracy": ()},
        {"accuracy": (dataclasses.replace(RIGHT, ok=False),)},
    ],
)
def test_illegal_combinations_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        dataclasses.replace(PASSED, **change)  # type: ignore[arg-type]


def test_only_what_passed_can_be_timed() -> None:
    timing = verdicts.timing()
    assert dataclasses.replace(PASSED, timings=(timing,)).timings
    with pytest.raises(ValueError):
        verdicts.failed(Finding.TOO_SLOW, timings=(timing,))


@pytest.mark.parametrize(
    ("baseline", "asked", "opponent"),
    [
        ("eager", "eager", "eager"),
        ("eager (float32 matmul, tf32 convolution)", "eager", "eager"),
        ("tf32-eager (tf32 matmul, tf32 convolution)", "tf32-eager", "tf32"),
        ("compile-max-autotune (autocast bfloat16)", "compile-max-autotune", "compile"),
    ],
)
def test_a_baseline_is_known_by_what_it_was_asked_for_as_and_by_its_opponent(
    baseline: str, asked: str, opponent: str
) -> None:
    assert (asked_as(baseline), baseline_name(baseline)) == (asked, opponent)


def test_an_interval_contains_its_median_and_an_error_is_a_number() -> None:
    with pytest.raises(ValueError):
        Interval(median=1.0, low=1.1, high=1.2)
    with pytest.raises(ValueError):
        dataclasses.replace(RIGHT, error=float("nan"))
    with pytest.raises(ValueError):
        dataclasses.replace(RIGHT, error=1.0)


def test_the_json_of_an_evaluation_is_strict_json() -> None:
    wrong = dataclasses.replace(RIGHT, ok=False, error=float("inf"))
    evaluation = dataclasses.replace(
        PASSED, status=Status.WRONG_VALUES, finding=Finding.NON_FINITE, message="m", accuracy=(wrong,)
    )
    text = json.dumps(to_json(evaluation), allow_nan=False)
    assert json.loads(text)["accuracy"][0]["error"] == "inf"


@pytest.mark.parametrize(("old", "now"), [("device", Finding.DTYPE), ("stale_output", Finding.RETAINED_INPUT)])
def test_a_finding_of_an_old_store_is_read_as_the_one_that_took_its_place(old: str, now: Finding) -> None:
    assert Finding(old) is now
    with pytest.raises(ValueError, match="no_such_finding"):
        Finding("no_such_finding")
