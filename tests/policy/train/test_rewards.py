"""Rewards of each recipe equal a hand-computed table, and an unmeasured reward is never 0."""

from __future__ import annotations

import itertools
import math
import pickle

import pytest
from tests.policy.train.evaluations import KERNEL, failed, timing
from tests.verdicts import passed

from triton_agent.policy.train.prepare.recipes import RECIPES, grade, recipe_named
from triton_agent.policy.train.record import rewards
from triton_agent.policy.train.record.novelty import program, structure
from triton_agent.policy.train.record.rewards import Facts, Reward
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Evaluation, Finding, Interval

UNTIMED = passed()
TWICE = passed(timing(2.0, 2.5, 3.0))
EIGHTFOLD = passed(timing(16.0, 17.0, 18.0), timing(4.0, 5.0, 6.0, baseline="compile (float32)"))
NOISY = passed(timing(0.8, 1.1, 1.5))
SLOW = passed(timing(0.2, 0.22, 0.25))
WRONG = failed(Finding.VALUES, launched=True)
BROKEN = failed(Finding.COMPILE)
NO_TRITON = failed(Finding.LIBRARY_WORK)
NOTHING = failed(Finding.NO_MODEL)
CHEAT = failed(Finding.TAMPERED)
ONE = Interval(low=1.0, median=1.0, high=1.0)

TABLE: dict[str, list[tuple[Evaluation, Facts, float]]] = {
    "autotriton": [
        (TWICE, Facts(), 1.0),
        (UNTIMED, Facts(), 1.0),
        (WRONG, Facts(), 0.0),
        (NO_TRITON, Facts(), 0.0),
        (CHEAT, Facts(), 0.0),
    ],
    "tritonrl": [
        (UNTIMED, Facts(), 1.0),
        (passed(timing(1.5, 1.6, 1.7)), Facts(), 1.0 + 1.5),
        (EIGHTFOLD, Facts(), 1.0 + 2.0),
        (SLOW, Facts(), 1.0 + 0.2),
        (WRONG, Facts(), 0.0),
        (CHEAT, Facts(), 0.0),
    ],
    "kevin": [
        (TWICE, Facts(), 0.3 + 2.0),
        (EIGHTFOLD, Facts(), 0.3 + 16.0),
        (NOISY, Facts(), 0.3 + 0.8),
        (BROKEN, Facts(), 0.0),
        (CHEAT, Facts(), 0.0),
    ],
    "drkernel": [
        (TWICE, Facts(kernel_share=0.75), 1.0 + 2.0 + 0.75),
        (EIGHTFOLD, Facts(kernel_share=1.0), 1.0 + 3.0 + 1.0),
        (TWICE, Facts(), 1.0 + 2.0),
        (WRONG, Facts(kernel_share=1.0), 0.0),
        (CHEAT, Facts(), 0.0),
    ],
    "milestones": [
        (WRONG, Facts(), -1.0),
        (UNTIMED, Facts(), 1.0),
        (passed(timing(1.04, 1.2, 1.3)), Facts(), 1.0),
        (TWICE, Facts(), 2.0),
        (EIGHTFOLD, Facts(), 3.0),
        (passed(timing(2.0, 2.0, 2.0), timing(0.9, 1.0, 1.1, baseline="compile (tf32)")), Facts(), 2.0),
        (CHEAT, Facts(), -1.0),
    ],
    "drpo": [
        (UNTIMED, Facts(), 1.0),
        (TWICE, Facts(), 1.0 + math.log(2)),
        (EIGHTFOLD, Facts(), 1.0 + math.log(16)),
        (NOISY, Facts(), 1.0),
        (SLOW, Facts(), 0.0),
        (WRONG, Facts(), 0.0),
        (CHEAT, Facts(), 0.0),
    ],
    "default": [
        (UNTIMED, Facts(), 1.0),
        (TWICE, Facts(), 1.0 + 0.5 * 1.0 + 0.25),
        (EIGHTFOLD, Facts(kernel_share=0.8), 1.0 + 0.5 * 3.0 + 0.25 * 2 + 0.25 * 0.8),
        (NOISY, Facts(), 1.0),
        (SLOW, Facts(), 1.0 - 0.5),
        (WRONG, Facts(), 0.0),
        (BROKEN, Facts(source=KERNEL), 0.0),
        (BROKEN, Facts(source="class ModelNew: pass"), -0.25),
        (NO_TRITON, Facts(source=KERNEL), -0.25),
        (NOTHING, Facts(), -0.25),
        (WRONG, Facts(tokens=900, token_limit=1000), -0.5 * 0.5),
        (WRONG, Facts(tokens=700, token_limit=1000), 0.0),
        (TWICE, Facts(shown_passed=True, shown_speedup=ONE), 0.5 * 1.0),
        (SLOW, Facts(shown_passed=True, shown_speedup=ONE), 0.0),
        (UNTIMED, Facts(shown_passed=True), 0.0),
        (WRONG, Facts(shown_passed=True, shown_speedup=ONE), 0.0),
        (CHEAT, Facts(source=KERNEL, tokens=10), -1.0),
    ],
}
CASES = [(name, *case) for name, cases in TABLE.items() for case in cases]


@pytest.mark.parametrize(("name", "evaluation", "facts", "expected"), CASES)
def test_each_recipe_pays_what_was_worked_out_by_hand(
    name: str, evaluation: Evaluation, facts: Facts, expected: float
) -> None:
    reward = grade(RECIPES[name], evaluation, facts)
    assert reward.total == pytest.approx(expected, abs=1e-12)
    assert math.fsum(paid for paid in reward.parts.values() if paid is not None) == pytest.approx(expected, abs=1e-12)


def test_every_recipe_has_a_table() -> None:
    assert set(TABLE) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_hack_is_marked_and_nobody_gets_less(name: str) -> None:
    recipe = RECIPES[name]
    hack = grade(recipe, CHEAT, Facts(source=KERNEL))
    assert hack.hack and hack.total == recipe.worst and "tampered" in hack.why
    longest = Facts(tokens=99, token_limit=10)
    for other in (NOTHING, NO_TRITON, BROKEN, WRONG, SLOW, UNTIMED):
        reward = grade(recipe, other, longest).plus(rewards.REASONING, -recipe.reasoning)
        assert not reward.hack and reward.total is not None and hack.total <= reward.total


def test_a_hack_is_charged_to_plan_and_code_alike() -> None:
    for name in ("tritonrl", "default"):
        recipe = RECIPES[name]
        hack = grade(recipe, CHEAT)
        assert recipe.plan_parts is not None and recipe.code_parts is not None
        assert hack.stream(recipe.plan_parts) == hack.stream(recipe.code_parts) == recipe.worst


@pytest.mark.parametrize("name", RECIPES)
def test_what_could_not_be_measured_has_no_reward_rather_than_none_worth(name: str) -> None:
    reward = grade(RECIPES[name], None)
    assert reward.total is None and reward.stream(frozenset(rewards.PARTS)) is None and reward.why


@pytest.mark.parametrize("name", RECIPES)
def test_a_flagged_problem_pays_no_honest_answer_anything(name: str) -> None:
    flagged = Facts(problem_sound=False, kernel_share=1.0)
    assert {grade(RECIPES[name], verdict, flagged).total for verdict in (EIGHTFOLD, WRONG, NOTHING)} == {0.0}
    assert grade(RECIPES[name], CHEAT, flagged).total == RECIPES[name].worst


def test_an_unknown_part_stays_on_the_record_as_unknown() -> None:
    reward = grade(RECIPES["drkernel"], UNTIMED)
    assert reward.parts == {"correct": 1.0, "speed": None, "share": None}


def test_the_split_recipe_gives_speed_to_the_plan_and_correctness_to_the_code() -> None:
    recipe = RECIPES["tritonrl"]
    reward = grade(recipe, passed(timing(1.5, 1.6, 1.7)))
    assert recipe.plan_parts is not None and recipe.code_parts is not None
    assert (reward.stream(recipe.plan_parts), reward.stream(recipe.code_parts)) == (1.5, 1.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(2.0, 9.0, 1.0), (0.5, 2.0, 0.0), (0.9, 1.0, 0.0), (0.25, 0.5, -1.0), (0.01, 0.02, -2.0), (64.0, 64.0, 3.0)],
)
def test_noise_earns_and_costs_nothing(low: float, high: float, expected: float) -> None:
    speedup = Interval(low=low, median=(low + high) / 2, high=high)
    assert rewards.log_speed(speedup, least=-2.0, most=3.0) == pytest.approx(expected)


def test_a_wider_interval_never_pays_more() -> None:
    for recipe in ("tritonrl", "kevin", "drkernel", "milestones", "drpo", "default"):
        totals = [grade(RECIPES[recipe], passed(timing(2.0 - w, 2.0, 2.0 + w))).total for w in (0.0, 0.3, 0.8, 0.99)]
        assert all(a is not None and b is not None and a >= b for a, b in itertools.pairwise(totals))


def test_a_gain_is_what_both_measurements_support() -> None:
    shown = Interval(low=1.0, median=1.5, high=2.0)
    assert rewards.gain(Interval(low=2.0, median=2.5, high=3.0), shown, most=3.0) == 0.0, "the two may be equal"
    assert rewards.gain(Interval(low=4.0, median=5.0, high=6.0), shown, most=3.0) == 1.0


def test_only_device_time_pays_and_latency_does_not() -> None:
    assert rewards.speedup_over(passed(timing(2, 2, 2, kind="latency")), "eager") is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (KERNEL, True),
        (KERNEL.replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"), True),
        (KERNEL.replace("double[(1,)](x, x)", "return x"), False),
        (KERNEL.replace("@triton.jit", ""), False),
        (KERNEL.replace("@triton.jit", "@triton.jit(debug=True)\n@other(\n    1,\n)"), True),
        (KERNEL.replace("@triton.jit", "from triton import jit\n@jit"), True),
        (KERNEL.replace("@triton.jit", "@triton.jit\ndef other(x):\n    return x\n\n"), False),
        ("# @triton.jit double[(1,)](x)", False),
        ("def broken(:", False),
        ("(" * 5000, False),
    ],
)
def test_a_kernel_counts_only_where_it_is_defined_and_launched(source: str, expected: bool) -> None:
    assert rewards.contains_triton(source) is expected


def test_what_a_launch_shows_counts_before_the_text() -> None:
    assert rewards.launches_triton(WRONG, source="")
    assert not rewards.launches_triton(NO_TRITON, source=KERNEL)
    assert not rewards.launches_triton(failed(Finding.SYNTAX), source=KERNEL)


def test_a_reward_that_contradicts_itself_cannot_be_made() -> None:
    with pytest.raises(ValueError):
        Reward(recipe="r", total=2.0, parts={"correct": 1.0})
    with pytest.raises(ValueError):
        Reward(recipe="r", total=None, parts={"correct": None}, why="w")
    with pytest.raises(ValueError):
        Reward.of("r", {"beauty": 1.0})
    with pytest.raises(ValueError):
        Facts(kernel_share=1.5)


def test_rewards_travel_between_processes() -> None:
    reward = grade(RECIPES["default"], TWICE)
    assert pickle.loads(pickle.dumps(reward)) == reward


def test_a_recipe_is_changed_by_one_setting_for_an_ablation() -> None:
    changed = recipe_named("default,baseline=grpo,favour_difficult=no,gamma=0.5,without=rule")
    assert changed.name == "default,baseline=grpo,favour_difficult=no,gamma=0.5,without=rule"
    assert (changed.baseline, changed.favour_difficult, changed.gamma) == ("grpo", False, 0.5)
    refused = failed(Finding.NO_MODEL)
    assert grade(recipe_named("default"), refused).parts["rule"] < 0.0
    assert "rule" not in grade(changed, refused).parts and "rule" not in changed.parts
    assert recipe_named("default,without=novelty").novelty == 0.0
    assert recipe_named("default") is RECIPES["default"], "unchanged"


@pytest.mark.parametrize("text", ["default,gamma", "default,baseline=none", "default,without=luck", "default,pays=1"])
def test_a_change_of_a_recipe_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="means nothing"):
        recipe_named(text)


def test_an_unknown_recipe_is_a_usage_error_that_names_the_known() -> None:
    with pytest.raises(UsageError, match="kevin"):
        recipe_named("kevn")


def test_structure_ignores_names_numbers_and_comments_but_not_operations() -> None:
    renamed = KERNEL.replace("double", "twice").replace("(1,)", "(4,)").replace("import", "# note\nimport")
    assert structure(renamed) == structure(KERNEL)
    assert structure(KERNEL.replace("pass", "return x + y")) != structure(KERNEL)


def test_a_program_is_the_same_under_other_names_and_layout_and_no_other() -> None:
    laid_out = KERNEL.replace("double", "twice").replace("    ", "  ").replace("\nclass", "  # note\n\n\nclass")
    laid_out = laid_out.replace("  pass", '  """Double."""\n  pass')
    assert program(laid_out) == program(KERNEL)
    for changed in (("(1,)", "(2,)"), ("double[(1,)](x, x)", "double[(1,)](x, self)"), ("pass", "pass\npass")):
        assert program(KERNEL.replace(*changed)) != program(KERNEL)
    assert program("if a:\n  b()\n  c()") != program("if a:\n  b()\nc()"), "what a block holds is part of the program"
    told = 'x = """\none\n"""\ny = 1\nz = """two"""\n'
    assert program(told) != program(told.replace("y = 1", "y = 2")), "a string that ends a line begins no docstring"
