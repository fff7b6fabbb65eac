"""Inputs times powers of two, as far as the reference stays what it is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.cases.magnitudes import (
    FAR_DOWN,
    FAR_UP,
    NEAR_ZERO,
    UNEVEN,
    VANISHING,
    Powers,
    degree,
    follows,
    room,
    scaled,
)
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.cases.trials import make_trial
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.settings import EvaluatorSettings

KINDS = (FAR_DOWN, FAR_UP, UNEVEN, VANISHING)


def cases_of(folder: Path, forward: str, inputs: str, layer: str = "") -> dict[str, Case]:
    """Return the cases with other magnitudes that such a reference gets, by what is multiplied."""
    path = folder / "problem.py"
    path.write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {layer or 'pass'}\n"
        f"    def forward(self, x, y=None): return {forward}\ndef get_inputs(): return [{inputs}]\n"
    )
    settings = EvaluatorSettings(target=None, device="cpu", modes=("eval",))
    trial, _ = make_trial(load(parse_problem(str(path))), "small", settings, [], main=True)
    return {case.name.removeprefix("small / "): case for case in trial.cases if case.distribution in KINDS}


def test_powers_of_two_keep_all_digits_and_may_exceed_what_float32_holds() -> None:
    x = torch.randn(100)
    assert torch.equal(scaled(scaled(x, -64), 64), x)
    assert torch.equal(scaled(torch.full((3,), 2.0**-100), 200), torch.full((3,), 2.0**100))


def test_room_ends_before_the_range_of_the_dtype_does() -> None:
    assert room(torch.tensor([1.0, -4.0]), 1) == 122 and room(torch.tensor([1.0]), -1) == 102
    assert room(torch.tensor([4.0]).half(), 1) == 10 and room(torch.tensor([1.0]).half(), -1, guard_bits=2) == 12
    assert room(torch.tensor([torch.finfo(torch.float32).min, 1.0]), 1) < 0, "such a number stands for a mask"
    assert room(torch.zeros(4), -1) > 200 < room(torch.tensor([math.inf]), 1), "neither changes"


def test_answers_follow_if_they_are_a_power_of_two_of_others() -> None:
    x = torch.randn(50)
    assert degree(x * 8, x) == 3 and follows(x * 8, x, 3) and not follows(x * 8, x, 2)
    assert not follows(x.tanh(), x, 0) and not follows(torch.where(x > 1, math.inf, x), x, 0)
    assert follows(x.argsort(), x.argsort(), 0) and not follows(x.argsort() + 1, x.argsort(), 0)
    assert follows(scaled(x, 90), x, 90) and not follows(torch.zeros(50), x, -300)


def test_all_inputs_or_one_of_them_grow_and_shrink_in_place() -> None:
    linear, x, y = torch.nn.Linear(3, 2), torch.ones(2), torch.ones(2)
    weight, bias = linear.weight.detach().clone(), linear.bias.detach().clone()
    Powers(first=1, others=-1, matrices=2).times(3).put([x, y, torch.ones(2, dtype=torch.int64)], linear)
    assert x.tolist() == [8, 8] and y.tolist() == [0.125, 0.125]
    assert torch.equal(linear.weight, 64 * weight) and torch.equal(linear.bias, bias)


def test_a_copy_goes_far_and_a_product_half_as_far(tmp_path: Path) -> None:
    copied = cases_of(tmp_path, "torch.cat([x, y])", "torch.randn(6, 8), torch.randn(6, 8)")
    assert set(copied) == {"inputs times 2**-56", "inputs times 2**56"}
    product = cases_of(tmp_path, "x @ y", "torch.randn(6, 8), torch.randn(8, 6)")
    assert {case.distribution for case in product.values()} == set(KINDS)
    assert {"inputs times 2**24", "inputs times 2**-24"} < set(product)
    assert any(name.startswith("first input times 2**-") for name in product)


def test_one_operand_of_float16_comes_within_a_factor_of_sixteen_of_its_end(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, "x @ y", "torch.randn(30, 80).half(), torch.randn(80, 30).half()")
    assert {case.distribution for case in cases.values()} == {UNEVEN} and len(cases) == 2
    for case in cases.values():
        largest = max(float(it.abs().max()) for it in case.expectation.inputs_after)
        assert 65504 / 16 < largest <= 65504 / 8


def test_parameters_count_as_inputs(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, "self.layer(x)", "torch.randn(6, 8)", "self.layer = nn.Linear(8, 4)")
    assert {case.distribution for case in cases.values()} == {FAR_DOWN, FAR_UP, UNEVEN}
    assert "inputs times 2**56, parameter vectors times 2**56" in cases, "a bias grows with what it is added to"


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("x.tanh() * 0.001", "torch.randn(6, 8)"),
        ("x.clamp(-1, 1)", "torch.randn(6, 8)"),
        ("torch.softmax(x, -1)", "torch.randn(6, 8)"),
        ("x.long().cumsum(0)", "torch.randn(6, 8)"),
        ("x + 1", "torch.randint(0, 9, (6, 8))"),
    ],
)
def test_what_is_not_homogeneous_gets_no_such_cases(tmp_path: Path, forward: str, inputs: str) -> None:
    assert not cases_of(tmp_path, forward, inputs)


def test_a_norm_with_an_epsilon_only_grows_and_its_squares_stay_in_range(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, "nn.functional.layer_norm(x, (64,))", "torch.randn(6, 64)")
    assert set(cases) == {"inputs times 2**24"}


def test_where_all_products_vanish_any_number_near_zero_is_right(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, "x @ y", "torch.randn(6, 8), torch.randn(8, 6)")
    (yard,) = (output.yard for output in cases["inputs times 2**-84"].expectation.outputs)
    assert all(judge(torch.full((6, 6), value), yard).ok for value in (0.0, -0.0, 1e-40, NEAR_ZERO / 2))
    assert not any(judge(torch.full((6, 6), value), yard).ok for value in (1e-3, -1e28, math.nan, math.inf))
