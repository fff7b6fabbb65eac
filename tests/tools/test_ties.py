"""Inputs with a few equal elements by chance are redrawn if the reference returns the position of one of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.answers.spot_checks import compare_written
from triton_agent.tools.cases.distributions import DISTRIBUTIONS
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import expect
from triton_agent.tools.truth.ties import _InAnotherOrder, hinges_on_ties, with_free_places, with_open_order

PROBLEM = """
import torch

ROWS, WIDTH = 64, 40
drawn = 0


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x, 2, dim=-1)


def get_inputs():
    global drawn
    drawn += 1
    x = torch.randn(ROWS, WIDTH)
    if drawn % 2:
        x[3, 5] = x[3, 9] = 9.0
    return [x]
"""


class Places(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.topk(x, 2, dim=-1)
        return values, places


@pytest.fixture
def spec(tmp_path: Path) -> ProblemSpec:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return parse_problem(str(tmp_path / "problem.py"))


def test_every_case_is_without_a_tie_but_those_meant_to_have_some(spec: ProblemSpec) -> None:
    plan = prepare_plan(spec, EvaluatorSettings(modes=("eval",), shapes="given"))
    (trial,) = plan.trials
    inputs = [case.expectation.packed_inputs.unpack()[0] for case in trial.cases if case.distribution in DISTRIBUTIONS]
    assert len(inputs) > 4
    for drawn in inputs:
        first, second = torch.topk(drawn[3], 2).values
        assert first != second


def test_one_tie_among_many_rows_is_found_and_distinct_elements_are_none() -> None:
    x = torch.randn(200, 30, generator=torch.Generator().manual_seed(3))
    assert not hinges_on_ties(Places(), expect(Places(), [x]))
    x[7, 4] = x[7, 20] = 9.0
    assert hinges_on_ties(Places(), expect(Places(), [x]))


def test_ties_in_every_row_are_in_the_nature_of_the_inputs() -> None:
    x = torch.randint(0, 3, (200, 30), generator=torch.Generator().manual_seed(3)).float()
    assert not hinges_on_ties(Places(), expect(Places(), [x]))


def test_outputs_that_are_floats_say_nothing_of_places() -> None:
    x = torch.full((4, 4), 2.0)
    model = torch.nn.Softmax(dim=-1)
    assert not hinges_on_ties(model, expect(model, [x]))


def test_each_of_some_equal_elements_may_be_named_and_none_twice() -> None:
    x = torch.randn(20, 30, generator=torch.Generator().manual_seed(3))
    x[:, 4] = x[:, 20] = x[:, 25] = 9.0
    yard = with_free_places(Places(), expect(Places(), [x])).outputs[1].yard
    right = torch.tensor([[25, 4]]).expand(20, 2).contiguous()
    assert judge(right, yard).ok
    for wrong in ([4, 4], [4, 5], [4, 30], [-1, 4]):
        assert not judge(torch.tensor([wrong]).expand(20, 2).contiguous(), yard).ok


class Load(torch.nn.Module):
    """How often each column is among the two best of a row. Negative numbers are all zero, so equal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        best = torch.relu(x).topk(2, dim=-1).indices
        return torch.nn.functional.one_hot(best, x.shape[-1]).sum((0, 1)).float()


def one_positive(rows: int, width: int) -> torch.Tensor:
    """Return rows with the largest number in the last column and nothing else above zero."""
    x = -torch.rand(rows, width, generator=torch.Generator().manual_seed(3)) - 0.1
    x[:, -1] = 1.0
    return x


def test_at_full_size_any_order_of_equal_elements_is_accepted_and_no_other_place() -> None:
    x = torch.randn(50, 40, generator=torch.Generator().manual_seed(3))
    x[:10, 5] = x[:10, 9] = 9.0
    expectation = expect(Places(), [x])
    outputs = with_open_order(lambda: list(Places()(x)), expectation.outputs)
    case = Case(name="", variant="", distribution="", expectation=dataclasses.replace(expectation, outputs=outputs))
    values, places = Places()(x)
    turned, wrong = places.clone(), places.clone()
    turned[:10] = places[:10].flip(1)
    wrong[20:24] = 39 - places[20:24]
    for answer in (places, turned):
        compare_written(case, [(values, answer)] * 3, case)
    with pytest.raises(Failed, match="8 of 80 elements"):
        compare_written(case, [(values, wrong)] * 3, case)


def test_what_is_computed_from_places_is_free_where_these_are() -> None:
    x = one_positive(40, 20)
    yard = with_free_places(Load(), expect(Load(), [x])).outputs[0].yard
    for second in (0, 7, 18):
        load = torch.zeros(20)
        load[second] = load[-1] = 40.0
        assert judge(load, yard).ok
    load[-1] = 39.0
    assert not judge(load, yard).ok, "the largest number is not equal to others"


class Underflowing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).topk(2).indices.flip(-1)


def test_numbers_that_another_exponential_takes_for_zero_count_as_equal() -> None:
    x = 300.0 * one_positive(40, 20)
    assert not bool((torch.softmax(x.double(), -1) == 0).any()) and bool((torch.softmax(x, -1) == 0).any())
    yard = with_free_places(Underflowing(), expect(Underflowing(), [x])).outputs[0].yard
    assert judge(torch.tensor([[0, 19]]).expand(40, 2).contiguous(), yard).ok
    assert not judge(torch.tensor([[19, 0]]).expand(40, 2).contiguous(), yard).ok


class Stable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort(stable=True).indices


class First(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(-1)


@pytest.mark.parametrize("model", [Stable(), First()], ids=["stable sort", "first of the largest"])
def test_where_torch_promises_an_order_no_other_is_right(model: torch.nn.Module) -> None:
    x = torch.zeros(4, 6)
    yard = with_free_places(model, expect(model, [x])).outputs[0].yard
    assert judge(yard.original, yard).ok
    assert not judge(5 - yard.original, yard).ok


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_equal_numbers_are_rotated_and_others_stay_in_order(share: float) -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[1.0, 2.0, 2.0, 2.0, nan, inf, inf, 0.0, -0.0, -inf]])
    with _InAnotherOrder(share):
        values, places = x.sort()
    assert torch.equal(x.gather(-1, places).nan_to_num(9.0), values.nan_to_num(9.0))
    shift = round(share * 2)
    expected = [0, 1, 2][-shift:] + [0, 1, 2][:-shift] if shift else [0, 1, 2]
    assert (places[0, 4:7] - 1).tolist() == expected
