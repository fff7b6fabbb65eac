"""Plan gains: a plan is worth what it adds to the likelihood of right code; records hold every part of a reward."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.policy.train.evaluations import KERNEL, failed
from tests.policy.train.logged import attempt, grading
from tests.verdicts import passed

from triton_agent.policy.train.prepare.credit import TokenRole, assign
from triton_agent.policy.train.prepare.recipes import RECIPES, unpaid
from triton_agent.policy.train.record.trajectories import Knowledge, TrainingSample, collect
from triton_agent.policy.train.update.plan_gains import paid, plan_gains
from triton_agent.runs.train.data import soundness
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Evaluation, Finding

DEFAULT = RECIPES["default"]


def letters(tokens: Sequence[int]) -> str:
    return "".join(map(chr, tokens))


def answered(*answers: tuple[str, str, Evaluation]) -> tuple[TrainingSample, ...]:
    """Return samples whose answers consist of a plan and code, with verdicts."""
    records = []
    for number, (plan, code, verdict) in enumerate(answers):
        tokens = tuple(map(ord, plan + code))
        made = attempt(f"r{number}", 0, token_ids=tokens, log_probabilities=(-1.0,) * len(tokens), source=code or None)
        records.append((made, (grading(made.key, verdict),)))
    return collect(records, DEFAULT, Knowledge(decode=letters)).samples


def likes_good_plans(samples: Sequence[TrainingSample], temperature: float) -> list[list[float]]:
    """Score answers like a policy to which code after a plan with "good" is more likely by half a nat per token."""
    return [[-1.0 + 0.5 * ("good" in letters(one.numbers.load().prompt_ids))] * len(one.roles) for one in samples]


def test_a_plan_is_worth_what_it_adds_to_the_likelihood_of_right_code() -> None:
    wrong = failed(Finding.VALUES)
    samples = answered(
        ("good ", "xyz", passed()), ("bad ", "abc", passed()), ("good ", "uvw", wrong), ("", "mno", passed())
    )
    gains = plan_gains(samples, likes_good_plans)
    assert gains == pytest.approx({"r0/0.0": 0.5, "r1/0.0": 0.0, "r2/0.0": 0.5}), "one without a plan has no gain"
    parts = [sample.turn.reward.parts for sample in paid(samples, DEFAULT, gains)]
    assert parts[0]["reasoning"] == pytest.approx(0.1 * math.tanh(0.5)) and parts[1]["reasoning"] == 0.0
    assert "reasoning" not in parts[3]


def test_right_code_is_scored_alone_and_after_the_plan() -> None:
    seen = []

    def rescore(samples: Sequence[TrainingSample], temperature: float) -> list[list[float]]:
        seen.extend(
            (letters(one.numbers.load().prompt_ids[2:]), letters(one.numbers.load().token_ids)) for one in samples
        )
        return [[0.0] * len(one.roles) for one in samples]

    plan_gains(answered(("plan ", "right", passed()), ("other ", "wrong", failed(Finding.VALUES))), rescore)
    assert seen == [("plan ", "right"), ("", "right"), ("other ", "right"), ("", "right")]


def test_without_a_right_answer_plans_have_no_worth() -> None:
    assert plan_gains(answered(("good ", "x", failed(Finding.VALUES))), lambda samples, temperature: []) == {}


def test_an_answer_without_a_plan_weighs_no_more_than_one_with() -> None:
    wrong = failed(Finding.VALUES)
    samples = answered(
        ("plan ", "one(1)", passed()), ("plan ", "two(2)", wrong), ("", "three(3)", passed()), ("", "four(4)", wrong)
    )
    found = assign([sample.turn for sample in samples], DEFAULT).advantages
    assert found["r0/0.0"].code == pytest.approx(found["r2/0.0"].code)
    assert found["r1/0.0"].code == pytest.approx(found["r3/0.0"].code)
    assert TokenRole.PLAN not in samples[2].roles


def test_speed_reaches_the_code_that_is_fast() -> None:
    assert DEFAULT.code_parts is not None and {"speed", "gain", "milestone", "share"} <= DEFAULT.code_parts


def test_reports_of_check_problem_reach_the_rewards(tmp_path: Path) -> None:
    one, two = ({"problem": {"digest": name}, "sound": name == "q"} for name in "pq")
    (tmp_path / "both.json").write_text(json.dumps(one) + "\n" + json.dumps(two, indent=1))
    sound = soundness([str(tmp_path / "both.json")])
    assert sound == {"p": False, "q": True}
    made = attempt("a", 0, token_ids=(5,), source=KERNEL)
    flagged = collect([(made, (grading(made.key, passed()),))], DEFAULT, Knowledge(sound=sound)).samples[0]
    assert flagged.turn.reward.total == 0.0 and "check-problem" in flagged.turn.reward.why
    (tmp_path / "broken.json").write_text("{}")
    for name in ("broken.json", "missing.json"):
        with pytest.raises(UsageError, match="--problem-reports"):
            soundness([str(tmp_path / name)])


def test_a_recipe_says_which_of_its_parts_nothing_was_measured_for() -> None:
    rewards = [sample.turn.reward for sample in answered(("p ", "x", passed()), ("p ", "y", failed(Finding.VALUES)))]
    lacking = unpaid(DEFAULT, rewards)
    assert {"speed", "share", "reasoning", "gain", "overlong"} <= set(lacking)
    assert {"correct", "rule"}.isdisjoint(lacking)
    regraded = [dataclasses.replace(reward, recipe="kevin") for reward in rewards]
    assert unpaid(RECIPES["kevin"], regraded) == ["speed"]
