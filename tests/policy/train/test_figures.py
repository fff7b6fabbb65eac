"""Figures of a policy with intervals, alarms and the choice of a start, compared with hand-computed values."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
from tests.policy.train.evaluations import KERNEL, failed, timing
from tests.verdicts import passed

from triton_agent.policy.train.evaluate.figures import JudgedAnswer, figures, gain, interval, scores
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.update.signals import Alarms, collapse
from triton_agent.policy.train.update.start import Checkpoint, choose
from triton_agent.tools.results import Evaluation, Finding

RECIPE = RECIPES["default"]


def judged(problem: str, *verdicts: Evaluation | None) -> list[JudgedAnswer]:
    return [JudgedAnswer(problem=problem, source=KERNEL, evaluation=verdict) for verdict in verdicts]


def test_problems_count_alike_however_many_answers_each_got() -> None:
    answers = judged("a", *[passed()] * 9) + judged("b", failed(Finding.VALUES, launched=True))
    told = figures(answers, RECIPE, ks=(1, 2))
    assert told.values["correct"].median == pytest.approx(0.5)
    assert told.values["valid"].median == 1.0 and told.values["hack"].median == 0.0
    assert told.values["pass@2"].median == 1.0, "only one problem has two answers"


def test_what_was_not_measured_is_no_failure_and_what_was_not_timed_is_not_slow() -> None:
    told = figures(judged("a", passed(), None, None), RECIPE)
    assert told.values["correct"].median == 1.0 and told.unmeasured == 2
    assert "fast_1" not in told.values
    timed = figures(
        judged("a", passed(timing(1.1, 1.2, 1.3)), passed(timing(0.9, 1.2, 1.3)), failed(Finding.RACE)), RECIPE
    )
    assert timed.values["fast_1"].median == pytest.approx(1 / 3), "faster only as far as the interval says"


def test_hacks_and_broken_answers_have_figures_of_their_own() -> None:
    told = figures(
        judged("a", failed(Finding.TAMPERED), failed(Finding.SYNTAX), failed(Finding.NO_MODEL), passed()), RECIPE
    )
    assert told.values["hack"].median == 0.25
    assert told.values["compiled"].median == 0.5
    assert told.values["reward"].median == pytest.approx((-1.0 - 0.25 - 0.25 + 1.0) / 4)


def test_an_interval_holds_its_estimate_and_narrows_with_more_answers() -> None:
    few = interval([[0.0, 1.0] * 5], statistics.fmean)
    many = interval([[0.0, 1.0] * 500], statistics.fmean)
    assert few.low < 0.5 < few.high and few.high - few.low > 3 * (many.high - many.low)
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(1000), rel=0.2)


def test_a_gain_excludes_nothing_where_there_is_none() -> None:
    wrong = failed(Finding.VALUES, launched=True)
    base = judged("a", *[wrong] * 20) + judged("b", *[passed()] * 20)
    better = judged("a", *[passed()] * 10, *[wrong] * 10) + judged("b", *[passed()] * 20)
    correct = scores(RECIPE)["correct"]
    assert gain(base, better, correct).low > 0
    assert gain(base, better, correct).median == pytest.approx(0.25)
    same = gain(better, better, correct)
    assert same.low < 0 < same.high
    with pytest.raises(ValueError, match="no problem in common"):
        gain(judged("a", passed()), judged("b", passed()), correct)


@pytest.mark.parametrize(
    ("history", "word"),
    [
        ([{"entropy": 0.5}] * 9, ""),
        ([{"entropy": 0.5}] + [{"entropy": 0.01}] * 2, ""),
        ([{"entropy": 0.5}] + [{"entropy": 0.01}] * 3, "entropy below 0.02"),
        ([{"entropy": 0.01}] * 3 + [{"entropy": 0.5}], ""),
        ([{"entropy": 0.018}] * 9, ""),
        ([{"loss": 1.0}, {"entropy": 0.018}] + [{"entropy": 0.008}] * 3, "entropy below 0.009"),
        ([{"eval_hack": 0.9}, {"loss": 1.0}] * 3, "hacks above 0.5"),
        ([{"eval_invalid": 0.99}] * 3, "invalid answers above 0.95"),
        ([], ""),
    ],
)
def test_only_signs_that_last_stop_a_training(history: list[dict[str, float]], word: str) -> None:
    reason = collapse(history, Alarms())
    assert word in reason and bool(reason) == bool(word)


def test_the_start_is_the_most_undecided_of_the_good_ones() -> None:
    def checkpoint(name: str, entropy: float, loss: float) -> Checkpoint:
        return Checkpoint(folder=Path(name), entropy=entropy, loss=loss)

    found = [checkpoint("raw", 5.0, 4.0), checkpoint("mid", 0.9, 0.55), checkpoint("late", 0.3, 0.5)]
    assert choose(found).folder.name == "mid"
    assert choose(found, slack=0.01).folder.name == "late"
