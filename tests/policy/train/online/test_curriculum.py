"""The curriculum draws problems with mixed results more often, and still draws every problem."""

from __future__ import annotations

from collections import Counter

from triton_agent.policy.train.online.curriculum import PassRate, choose

NAMES = [f"p{number}" for number in range(20)]


def drawn(rates: dict[str, PassRate], times: int = 300) -> Counter[str]:
    found: Counter[str] = Counter()
    for update in range(times):
        found.update(choose(NAMES, rates, count=4, answers=8, seed=1, update=update))
    return found


def test_problems_that_are_sometimes_solved_are_drawn_most_and_none_is_forgotten() -> None:
    settled = PassRate(passed=500, measured=500)
    hopeless = PassRate(passed=0, measured=500)
    rates = {name: settled if place % 2 else hopeless for place, name in enumerate(NAMES)}
    rates |= {"p0": PassRate(passed=50, measured=100), "p1": PassRate(passed=50, measured=100)}
    found = drawn(rates)
    others = [found[name] for name in NAMES[2:]]
    assert min(found["p0"], found["p1"]) > 3 * max(others) and min(others) > 0


def test_the_same_update_of_the_same_seed_draws_the_same_different_problems() -> None:
    first, again = (choose(NAMES, {}, count=5, answers=8, seed=3, update=7) for _ in range(2))
    assert first == again and len(set(first)) == 5
    assert choose(NAMES, {}, count=5, answers=8, seed=3, update=8) != first
    assert choose(NAMES, {}, count=50, answers=8, seed=3, update=7) == NAMES


def test_later_answers_count_more_and_unmeasured_updates_count_nothing() -> None:
    rate = PassRate().after(0, 8).after(8, 8)
    assert rate.passed / rate.measured > 0.5
    assert rate.after(0, 0) == rate
