"""Which answers are accepted where rounding decides between two integers, or how a comparison ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.truth.expectation import expect


class Quantised(torch.nn.Module):
    """Quantises so finely that float32 errors cross some of the steps, where `round` and the following cast jump."""

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.round(F.silu(gate) * up * 2e3).to(torch.int32)


def _by_another_exponential(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate / (1 + torch.exp2(gate * -1.4426950408889634)) * up * 2e3


def _inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1 << 16, generator=generator), torch.randn(1 << 16, generator=generator)]


def test_a_cast_of_what_was_rounded_leaves_open_only_what_the_rounding_does() -> None:
    inputs = _inputs()
    yard = expect(Quantised(), inputs).outputs[0].yard
    assert yard.flips.of_original > 0, "no element of the reference itself lies on the other side"
    assert yard.judged_share > 0.99
    for seed in range(8):
        units = torch.randint(-4, 5, inputs[0].shape, generator=torch.Generator().manual_seed(seed)) * 2**-23
        other = torch.round(_by_another_exponential(*inputs) * (1 + units)).to(torch.int32)
        assert int((other != yard.truth).sum()) > 0, "no element of the other kernel lies on the other side"
        assert judge(other, yard).ok


def test_an_element_that_is_off_by_a_step_away_from_the_boundary_is_wrong() -> None:
    inputs = _inputs()
    yard = expect(Quantised(), inputs).outputs[0].yard
    exact = _by_another_exponential(*(value.double() for value in inputs))
    centred = int((exact - exact.round()).abs().argmin())
    other = torch.round(_by_another_exponential(*inputs)).to(torch.int32)
    other[centred] += 1
    assert not judge(other, yard).ok


def _rows_of_near_ties() -> torch.Tensor:
    """Return rows whose two largest elements, at random places, are apart by a few roundings."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.rand(256, 64, generator=generator)
    places = torch.stack([torch.randperm(64, generator=generator)[:2] for _ in rows])
    return rows.scatter_(1, places, torch.tensor([2.0, 2.0 - 2**-20]).expand(256, 2))


@pytest.mark.parametrize(
    "positions", [lambda x: x.argmax(-1), lambda x: (-x).min(-1)[1], lambda x: x.sort(-1, descending=True)[1]]
)
def test_either_of_two_elements_within_a_few_roundings_may_come_first(
    positions: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = _rows_of_near_ties()
    yard = expect(Does(positions), [x]).outputs[0].yard
    answer = positions(x / 0.7)
    first, second = (x / 0.7).topk(2, -1)[1].T
    if answer.dim() == 1:
        assert judge(second, yard).ok and judge(answer, yard).ok
        other = (answer + 1) % 64
        assert not judge(torch.where(other == second, (other + 1) % 64, other), yard).ok
    else:
        turned = answer.clone()
        turned[:, 0], turned[:, 1] = second, first
        assert judge(turned, yard).ok and judge(answer, yard).ok
        turned[:, 20], turned[:, 30] = answer[:, 30], answer[:, 20]
        assert not judge(turned, yard).ok


class Does(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x / 0.7)


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (lambda y: torch.where(y == y, y, 0.0), torch.zeros_like),
        (lambda y: torch.where(torch.isfinite(y), y, 0.0), lambda y: y / 2),
        (lambda y: (y == y.amax(-1, keepdim=True)).float(), torch.zeros_like),
        (lambda y: y * (y.max(-1, keepdim=True).values - y <= 0), torch.zeros_like),
        (lambda y: torch.where(y < torch.topk(y, 5).values[..., -1:], 0.0, y), lambda y: y.where(y != 0, 1.0)),
    ],
)
def test_what_is_equal_by_construction_is_equal_for_every_kernel(
    function: Callable[[torch.Tensor], torch.Tensor], wrong: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.randn(16, 60, generator=torch.Generator().manual_seed(1))
    yard = expect(Does(function), [x]).outputs[0].yard
    other = function(x * (1 / torch.tensor(0.7)))
    assert judge(other, yard).ok and not judge(wrong(other), yard).ok


def test_equal_numbers_of_different_formulas_may_fall_on_either_side() -> None:
    x = torch.randn(16, 60, generator=torch.Generator().manual_seed(1))
    yard = expect(Does(lambda y: (y * 0.7 >= y.mul(7).div(10)).float()), [x]).outputs[0].yard
    assert judge(torch.zeros(16, 60), yard).ok and judge(torch.ones(16, 60), yard).ok
