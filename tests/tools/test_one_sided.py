"""Kernels that treat inputs of a kind differently which no checked call has; see `answers/one_sided.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.grading import grade, specimen, spoken

from triton_agent.tools.answers.one_sided import Asked, KnownPredicates
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.protocol import OPERANDS, Predicate, PredicateKind
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import Expectation

TESTS = Path(__file__).parents[1]
FOUND_BY_ONE_SIDED_ONLY = "cheats/numbers_pruned_weights"
NAMES = (
    FOUND_BY_ONE_SIDED_ONLY,
    "cheats/numbers_straight_rows",
    "cheats/numbers_floor_of_a_penalty",
    "cheats/numbers_lengths_near_one",
    "cheats/numbers_positions_in_steps_of_two",
    "honest/cosine_kept_within_one",
    "honest/members_of_a_sorted_few",
    "honest/sizes_of_complex_numbers",
    "habits/top_few_helper_tuples",
)

NOTHING = pack([])
GIVEN = Case(
    name="given", variant="given", distribution="given", expectation=Expectation(packed_inputs=NOTHING, inputs_after=())
)
ASKED = Asked(case=GIVEN, state=NOTHING)


def found(place: str, only: float | None, kind: PredicateKind = PredicateKind.COMPARISON) -> Predicate:
    return Predicate(place=place, line=1, kind=kind, only=only)


def test_what_had_one_result_in_one_call_and_another_one_in_the_next_has_two_sides() -> None:
    known = KnownPredicates()
    known.add(ASKED, [found("a", 0.0), found("b", 1.0), found("c", None)])
    assert {place for place, _ in known.one_sided()} == {"a", "b"}
    known.add(ASKED, [found("a", 1.0), found("b", 1.0)])
    assert {place for place, _ in known.one_sided()} == {"b"}


@pytest.mark.parametrize(
    ("single", "only", "counts"),
    [(False, 0.0, True), (False, 1.0, True), (True, 0.0, False), (True, 1.0, False), (True, 2.0, True)],
)
def test_in_a_row_of_one_element_a_difference_of_zero_and_its_exponential_are_no_predicates(
    single: bool, only: float, counts: bool
) -> None:
    known = KnownPredicates(has_single_rows=single)
    known.add(ASKED, [found("a", only, PredicateKind.OPERATION)])
    assert bool(known.one_sided()) is counts


@pytest.mark.parametrize(("first", "second", "counts"), [(None, None, True), (None, 0.0, False), (1.0, 1.0, False)])
def test_flags_that_are_joined_count_where_both_change(first: float | None, second: float | None, counts: bool) -> None:
    known = KnownPredicates()
    operands = [found("a" + end, it, PredicateKind.OPERAND) for end, it in zip(OPERANDS, (first, second))]
    known.add(ASKED, [found("a", 0.0, PredicateKind.JOINT), *operands])
    assert [place for place, _ in known.one_sided()] == (["a"] if counts else [])


def test_a_kernel_may_ask_of_the_data_only_what_a_checked_call_answers_with_yes_and_no(nursery: Nursery) -> None:
    settings = EvaluatorSettings(device="cpu", screen=False, shapes="given")
    verdicts = grade([specimen(TESTS / f"{name}.py") for name in NAMES], settings, jobs=1, nursery=nursery)
    said = {item.name: (spoken(evaluation), item.meets(evaluation)) for item, evaluation in verdicts}
    assert [name for name in NAMES if not said[name][1]] == []
    assert said[FOUND_BY_ONE_SIDED_ONLY] == ("wrong_values/one_sided", True)
