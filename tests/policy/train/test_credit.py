"""Credit equals a brute-force computation for random trees and groups."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence

import pytest

from triton_agent.policy.train.prepare.credit import (
    Advantage,
    Credit,
    TokenRole,
    Turn,
    assign,
    compared,
    group_weights,
    returns,
)
from triton_agent.policy.train.prepare.recipes import RECIPES, Recipe
from triton_agent.policy.train.record.rewards import Reward
from triton_agent.tools.results import Status

SEEDS = range(25)


def reward(code: float | None, plan: float = 0.0, **rest: bool) -> Reward:
    if code is None:
        return Reward.unmeasured("by hand", "the clock was stopped")
    return Reward.of("by hand", {"correct": code, "speed": plan}, **rest)


def turn(key: str, value: float | None, number: int = 0, parent: str | None = None, **rest: object) -> Turn:
    return Turn(key=key, group="g", number=number, parent=parent, reward=reward(value), **rest)  # type: ignore[arg-type]


def recipe(**changes: object) -> Recipe:
    return dataclasses.replace(RECIPES["autotriton"], **changes)  # type: ignore[arg-type]


def paths(draw: random.Random, *, groups: int = 3, most_turns: int = 4) -> list[Turn]:
    """Draw several trajectories for each of several problems, as unbranched paths of different lengths."""
    found = []
    for g in range(groups):
        for i in range(draw.randint(2, 5)):
            parent, before = None, 0.0
            for t in range(draw.randint(1, most_turns)):
                key, after = f"g{g}/{i}.{t}", max(before, draw.random())
                paid = reward(draw.choice([0.0, 1.0, draw.random()]), draw.random(), passed=draw.random() < 0.5)
                made = {"reward": paid, "progress_before": before, "progress_after": after}
                found.append(Turn(key=key, group=f"g{g}", number=t, parent=parent, **made))
                parent, before = key, after
    return found


def rewards_along(turns: Sequence[Turn], key: str) -> list[float]:
    """Return the rewards of a turn and of all later turns of its trajectory."""
    trajectory, _, number = key.rpartition(".")
    later = sorted((t for t in turns if t.key.rpartition(".")[0] == trajectory), key=lambda t: t.number)
    return [t.reward.total or 0.0 for t in later if t.number >= int(number)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_return_is_the_discounted_sum_along_its_path(seed: int) -> None:
    draw = random.Random(seed)
    turns = paths(draw)
    gamma = draw.choice([0.0, 0.4, 1.0, draw.random()])
    found = returns(turns, gamma, lambda paid: paid.total)
    for one in turns:
        expected = sum(gamma**i * paid for i, paid in enumerate(rewards_along(turns, one.key)))
        assert found[one.key] == pytest.approx(expected, abs=1e-12)


def test_a_branching_turn_is_worth_the_mean_of_what_came_of_it() -> None:
    turns = [turn("a", 0.1), turn("b", 1.0, 1, "a"), turn("c", 0.0, 1, "a"), turn("d", 0.8, 2, "c")]
    found = returns(turns, 0.5, lambda paid: paid.total)
    assert found["a"] == pytest.approx(0.1 + 0.5 * (1.0 + 0.5 * 0.8) / 2)


def test_a_later_turn_is_discounted_for_the_turns_of_other_authors_between_as_well() -> None:
    assert returns([turn("a", 0.1), turn("b", 1.0, 2, "a")], 0.5, lambda paid: paid.total)["a"] == pytest.approx(0.35)


def test_what_was_not_measured_is_left_out_and_counts_as_nothing_else() -> None:
    turns = [turn("a", 0.1), turn("b", None, 1, "a"), turn("c", 1.0, 1, "a"), turn("x", 0.3), turn("y", None, 1, "x")]
    found = returns(turns, 0.5, lambda paid: paid.total)
    assert found["b"] is None and found["y"] is None
    assert found["a"] == pytest.approx(0.1 + 0.5 * 1.0), "the one sibling that was measured speaks for the turn"
    assert found["x"] is None, "all that came of it is unknown, and so is its return"
    assert returns(turns, 0.0, lambda paid: paid.total)["x"] == 0.3


def shaping(turns: Sequence[Turn], key: str, gamma: float) -> list[tuple[float, float]]:
    """Return reward and shaping, gamma x potential after - potential before, of a turn and its later turns."""
    trajectory, _, number = key.rpartition(".")
    own = [t for t in turns if t.key.rpartition(".")[0] == trajectory and t.number >= int(number)]
    after = [*(t.progress_after for t in own[:-1]), 0.0]
    return [(t.reward.total or 0.0, gamma * potential - t.progress_before) for t, potential in zip(own, after)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shaped_return_is_the_discounted_sum_of_shaped_rewards(seed: int) -> None:
    draw = random.Random(seed)
    turns = paths(draw)
    gamma, td_lambda = draw.random(), draw.choice([0.0, 1.0, draw.random()])
    shaped = returns(turns, gamma, lambda paid: paid.total, shaped=True, td_lambda=td_lambda)
    for one in turns:
        steps = shaping(turns, one.key, gamma)
        expected = sum((gamma * td_lambda) ** i * (paid + added) for i, (paid, added) in enumerate(steps))
        assert shaped[one.key] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_shaping_cancels_in_the_sum_over_an_episode(seed: int) -> None:
    """With lambda 0 a turn is credited with its reward and shaping only. Discounted, these add up to the rewards."""
    draw = random.Random(seed)
    turns = paths(draw)
    gamma = draw.random()
    credit = returns(turns, gamma, lambda paid: paid.total, shaped=True, td_lambda=0.0)
    plain = returns(turns, gamma, lambda paid: paid.total)
    for first in [t for t in turns if t.parent is None]:
        episode = [t for t in turns if t.key.rpartition(".")[0] == first.key.rpartition(".")[0]]
        assert any(credit[t.key] != t.reward.total for t in episode) or len(episode) == 1
        total = sum(gamma**t.number * (credit[t.key] or 0.0) for t in episode)
        assert total == pytest.approx(plain[first.key], abs=1e-12)


def advanced(key: str, number: int, before: float, after: float, **rest: object) -> Turn:
    return turn(key, 0.0, number, progress_before=before, progress_after=after, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize("searched", [False, True])
def test_a_turn_is_credited_with_the_progress_that_it_made(searched: bool) -> None:
    """Four chains are equally bad. One gets nearer to a right answer in its first turn, and one begins nearer."""
    turns = [
        advanced("nearer.0", 0, 0.0, 0.2, searched=searched),
        advanced("stays.0", 0, 0.0, 0.0, searched=searched),
        advanced("begins.0", 0, 0.2, 0.2, searched=searched),
        turn("nearer.1", 0.0, 1, "nearer.0", progress_before=0.2, progress_after=0.2, searched=searched),
        turn("stays.1", 0.0, 1, "stays.0", searched=searched),
        turn("begins.1", 0.0, 1, "begins.0", progress_before=0.2, progress_after=0.2, searched=searched),
    ]
    found = returns(turns, 1.0, lambda paid: paid.total, shaped=True, td_lambda=0.0)
    assert found["nearer.0"] == 0.2
    assert found["stays.0"] == 0.0 == found["begins.0"], "what was there before is not earned again"
    if not searched:
        baseline = returns(turns, 1.0, lambda paid: paid.total, shaped=True)
        assert baseline["nearer.0"] == baseline["stays.0"] == 0.0, "with lambda 1 what a turn did makes no difference"


def test_progress_among_equal_results_teaches_nothing() -> None:
    shaped = recipe(potentials={Status.WRONG_VALUES: 0.2}, td_lambda=0.5, gamma=0.4, scope="turn")
    turns = [
        advanced("a.0", 0, 0.0, 0.2),
        advanced("b.0", 0, 0.0, 0.0),
        turn("a.1", 0.0, 1, "a.0", progress_before=0.2, progress_after=0.2),
        turn("b.1", 0.0, 1, "b.0"),
    ]
    assert assign(turns, shaped).advantages == {}
    found = assign([*turns, turn("c.0", 1.0)], shaped).advantages
    assert set(found) == {"a.0", "b.0", "c.0"}
    assert found["c.0"].code > found["a.0"].code > found["b.0"].code


@pytest.mark.parametrize("seed", SEEDS)
def test_baselines_equal_their_definitions(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.uniform(-2, 2) for _ in range(draw.randint(2, 9))]
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    for i, value in enumerate(values):
        others = statistics.mean(values[:i] + values[i + 1 :])
        assert compared(values, "grpo")[i] == pytest.approx((value - mean) / (deviation + 1e-4), abs=1e-9)
        assert compared(values, "dr_grpo")[i] == pytest.approx(value - mean, abs=1e-12)
        assert compared(values, "trloo")[i] == pytest.approx(value - others, abs=1e-12)


def brute_force(turns: Sequence[Turn], chosen: Recipe) -> dict[str, float]:
    """Compute the advantages of recipes with one stream in a deliberately different way."""
    gains = {t.key: sum(chosen.gamma**i * r for i, r in enumerate(rewards_along(turns, t.key))) for t in turns}
    found = {}
    for one in turns:
        rivals = [t for t in turns if t.group == one.group and (chosen.scope == "group" or t.number == one.number)]
        own = [gains[t.key] for t in rivals]
        if len(rivals) < 2 or max(own) == min(own):
            continue
        if chosen.baseline == "trloo":
            found[one.key] = gains[one.key] - statistics.mean(gains[t.key] for t in rivals if t.key != one.key)
        else:
            scale = statistics.stdev(own) + 1e-4 if chosen.baseline == "grpo" else 1.0
            found[one.key] = (gains[one.key] - statistics.mean(own)) / scale
    return found


@pytest.mark.parametrize("baseline", ["grpo", "trloo", "dr_grpo"])
@pytest.mark.parametrize("scope", ["group", "turn"])
@pytest.mark.parametrize("seed", SEEDS)
def test_advantages_equal_a_brute_force_computation(seed: int, scope: str, baseline: str) -> None:
    draw = random.Random(seed)
    turns = paths(draw)
    chosen = recipe(gamma=0.4, scope=scope, baseline=baseline)
    expected = brute_force(turns, chosen)
    draw.shuffle(turns)
    credit = assign(turns, chosen)
    assert set(credit.advantages) == set(expected)
    for key, advantage in credit.advantages.items():
        assert advantage.plan == advantage.code == pytest.approx(expected[key], abs=1e-9)
    assert len(credit.advantages) + sum(credit.left_out.values()) == len(turns)


@pytest.mark.parametrize("seed", SEEDS)
def test_plan_and_code_get_the_advantages_of_their_own_rewards(seed: int) -> None:
    draw = random.Random(seed)
    turns = paths(draw)
    split = recipe(
        gamma=0.7, alpha=0.1, plan_parts=frozenset({"speed"}), code_parts=frozenset({"correct"}), baseline="trloo"
    )
    credit = assign(turns, split)
    for part, name in (("speed", "plan"), ("correct", "code")):
        alone = [
            dataclasses.replace(
                t, reward=dataclasses.replace(t.reward, total=t.reward.parts[part], parts={part: t.reward.parts[part]})
            )
            for t in turns
        ]
        expected = assign(alone, recipe(gamma=0.7, baseline="trloo")).advantages
        for one in turns:
            if name == "plan":
                assert credit.advantages[one.key].plan == pytest.approx(0.1 * expected[one.key].code, abs=1e-12)
            else:
                assert credit.advantages[one.key].code == pytest.approx(expected[one.key].code, abs=1e-12)


def test_plan_and_code_tokens_get_exactly_their_advantages_and_feedback_none() -> None:
    plan, code, feedback = TokenRole.PLAN, TokenRole.CODE, TokenRole.FEEDBACK
    spread = Advantage(plan=0.25, code=-1.5).of(bytes([plan, plan, code, feedback, feedback, code]))
    assert spread == [0.25, 0.25, -1.5, 0.0, 0.0, -1.5]


def test_groups_in_which_nothing_differs_are_dropped_and_counted() -> None:
    turns = [turn("a", 1.0), turn("b", 1.0)]
    turns += [dataclasses.replace(turn("c", 1.0), group="h"), dataclasses.replace(turn("d", 0.0), group="h")]
    turns += [dataclasses.replace(turn("e", 1.0), group="i"), dataclasses.replace(turn("f", None), group="i")]
    credit = assign(turns, recipe())
    assert set(credit.advantages) == {"c", "d"}
    assert (credit.flat_groups, credit.groups) == (1, 3)
    assert credit.left_out == {
        "all turns of the group had equal returns": 2,
        "no other turn to compare with": 1,
        "not measured": 1,
    }


def test_a_turn_that_was_not_timed_is_not_compared_with_turns_that_were() -> None:
    timed = Reward.of("r", {"correct": 1.0, "speed": 0.5})
    untimed = Reward.of("r", {"correct": 1.0, "speed": None})
    wrong = Reward.of("r", {"correct": 0.0})
    turns = [dataclasses.replace(turn(k, 0.0), reward=r) for k, r in (("a", timed), ("b", untimed), ("c", wrong))]
    assert set(assign(turns, recipe()).advantages) == {"a", "c"}
    assert set(assign(turns[1:], recipe()).advantages) == {"b", "c"}, "where nothing was timed, correctness is compared"


def test_a_profile_that_only_the_fastest_got_decides_neither_who_is_trained_on_nor_what_is_paid() -> None:
    profiled = Reward.of("r", {"correct": 1.0, "share": 0.9})
    bare = Reward.of("r", {"correct": 1.0, "share": None})
    wrong = Reward.of("r", {"correct": 0.0})
    turns = [dataclasses.replace(turn(k, 0.0), reward=r) for k, r in zip("abcd", (profiled, bare, bare, wrong))]
    found = assign(turns, recipe()).advantages
    assert found["a"] == found["b"] == found["c"] and found["d"].code < 0.0


def test_a_turn_before_one_that_was_not_timed_is_not_compared_by_half_a_return() -> None:
    timed = Reward.of("r", {"correct": 1.0, "speed": 0.5})
    untimed = Reward.of("r", {"correct": 1.0, "speed": None})
    turns = [turn("a", 0.0), turn("b", 0.3), turn("c", 0.0)]
    turns += [
        dataclasses.replace(turn(f"{k}1", 0.0, 1, k), reward=paid) for k, paid in zip("abc", (timed, timed, untimed))
    ]
    credit = assign(turns, recipe())
    assert set(credit.advantages) == {"a", "b", "a1", "b1"}
    assert credit.left_out == {"lacks a measurement that other turns of its group have": 1, "not measured": 1}


def test_improvements_are_compared_with_improvements_if_the_recipe_says_so() -> None:
    turns = [turn("a", 1.0), turn("b", 0.0), turn("c", 0.4, improves=True), turn("d", 0.2, improves=True)]
    apart = assign(turns, recipe(baseline="dr_grpo", compare_starts=True)).advantages
    assert [apart[key].code for key in "abcd"] == pytest.approx([0.5, -0.5, 0.1, -0.1])
    together = assign(turns, recipe(baseline="dr_grpo")).advantages
    assert [together[key].code for key in "abcd"] == pytest.approx([0.6, -0.4, 0.0, -0.2])


def test_a_turn_without_tokens_counts_in_returns_and_is_no_rival() -> None:
    turns = [turn("a", 0.0), turn("a1", 1.0, 1, "a", sampled=False), turn("b", 0.0), turn("b1", 1.0, 1, "b")]
    turns += [turn("c", 0.0)]
    found = assign(turns, recipe(scope="turn", baseline="trloo")).advantages
    assert found["a"].code == found["b"].code == pytest.approx(0.5) and found["c"].code == pytest.approx(-1.0)
    assert set(found) == {"a", "b", "c"}


@pytest.mark.parametrize("seed", SEEDS)
def test_balanced_groups_weigh_the_same_whatever_their_size_and_difficult_ones_more(seed: int) -> None:
    turns = paths(random.Random(seed))
    balanced = group_weights(turns, recipe(balance_groups=True))
    sums: dict[str, float] = defaultdict(float)
    for one in turns:
        sums[one.group] += balanced[one.group]
    assert max(sums.values()) == pytest.approx(min(sums.values()))
    assert math.fsum(balanced[t.group] for t in turns) == pytest.approx(len(turns))
    rates = {g: statistics.mean(t.reward.passed for t in turns if t.group == g) for g in sums}
    hard = group_weights(turns, recipe(favour_difficult=True))
    ranked = sorted(sums, key=lambda g: rates[g])
    assert all(hard[a] >= hard[b] - 1e-12 for a, b in itertools.pairwise(ranked))
    assert group_weights(turns, recipe()) == dict.fromkeys(sums, 1.0)


def test_a_turn_cannot_set_out_from_a_later_one() -> None:
    with pytest.raises(ValueError, match="not an earlier turn"):
        returns([turn("a", 0.0, 1, "b"), turn("b", 0.0, 1)], 1.0, lambda paid: paid.total)


WORKER = """
import json, os, random, sys
sys.path.insert(0, os.getcwd())
from torch import distributed
from tests.policy.train.test_credit import paths
from triton_agent.policy.train.prepare.gathering import assign_together
from triton_agent.policy.train.prepare.recipes import RECIPES

rank, size, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if size > 1:
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
turns = paths(random.Random(5), groups=6)
random.Random(9).shuffle(turns)
answer = {}
for name, recipe in RECIPES.items():
    credit = assign_together(turns[rank::size], recipe)
    answer[name] = {key: [a.plan.hex(), a.code.hex()] for key, a in credit.advantages.items()}
print(json.dumps(answer), flush=True)
if size > 1:
    distributed.destroy_process_group()
    os._exit(0)  # Python's end may abort a process over a thread of the group
"""


def test_two_processes_that_share_the_turns_give_each_the_advantage_that_one_process_gives(free_port: int) -> None:
    def start(rank: int, size: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, str(rank), str(size), str(free_port)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    workers = [start(0, 2), start(1, 2), start(0, 1)]
    try:
        first, second, alone = (json.loads(worker.communicate(timeout=120)[0]) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
    for name in RECIPES:
        assert first[name].keys().isdisjoint(second[name].keys())
        assert {**first[name], **second[name]} == alone[name] and alone[name], "to the last bit"


def test_credit_of_nothing_is_nothing() -> None:
    assert assign([], recipe()) == Credit(advantages={}, left_out={}, flat_groups=0, groups=0)
