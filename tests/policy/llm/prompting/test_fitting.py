"""Fitting parts into a budget follows their ranks and is deterministic."""

from __future__ import annotations

import pickle

import pytest

from triton_agent.policy.llm.prompting.counting import RememberedCount
from triton_agent.policy.llm.prompting.fitting import JOINT_TOKENS, Fitted, PartForm, PromptPart, PromptTooLong, fit
from triton_agent.tools.errors import UsageError


def part(name: str, *lengths: tuple[int, int], needed: bool = False) -> PromptPart:
    """Return a part with a form for each (rank, length)."""
    forms = tuple(PartForm(rank=rank, write=lambda length=length: name * length) for rank, length in lengths)
    return PromptPart(name=name, forms=forms, needed=needed)


PARTS = (part("a", (0, 5), (30, 50), needed=True), part("b", (10, 10), (40, 100)), part("c", (20, 20)))


def lengths(budget: int) -> list[str]:
    return [f"{text[0]}{len(text)}" for text in fit(PARTS, budget, len).texts]


def test_all_is_shown_at_full_length_where_it_fits() -> None:
    whole = fit(PARTS, 50 + 100 + 20 + 3 * JOINT_TOKENS, len)
    assert whole == Fitted(texts=("a" * 50, "b" * 100, "c" * 20), tokens=182, shortened=())


@pytest.mark.parametrize(
    ("budget", "shown"),
    [
        (181, ["a50", "b10", "c20"]),
        (91, ["a5", "b10", "c20"]),
        (46, ["a5", "b10"]),
        (22, ["a5"]),
    ],
)
def test_ranks_are_served_in_order_and_what_is_too_long_is_passed_over(budget: int, shown: list[str]) -> None:
    assert lengths(budget) == shown


def test_no_budget_is_ever_exceeded() -> None:
    for budget in range(9, 200):
        fitted = fit(PARTS, budget, len)
        assert len("\n\n".join(fitted.texts)) <= fitted.tokens <= budget
        assert fitted == fit(PARTS, budget, len)


def test_less_than_the_shortest_is_refused_with_a_remedy() -> None:
    with pytest.raises(PromptTooLong, match="takes 9 tokens, more than the 8 allowed") as caught:
        fit(PARTS, 8, len)
    assert isinstance(caught.value, UsageError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert caught.value.remedy


def test_a_text_is_counted_once_and_the_oldest_are_forgotten() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    remembered = RememberedCount(count, most=3)
    assert [remembered(text) for text in ("a", "bb", "a", "\ud800", "a", "bb")] == [1, 2, 1, 1, 1, 2]
    assert asked == ["a", "bb", "\ud800"]
    assert remembered("dddd") == 4
    assert len(remembered) == 3
    assert remembered("\ud800") == 1
    assert asked == ["a", "bb", "\ud800", "dddd", "\ud800"], "the one not used for the longest time was forgotten"
