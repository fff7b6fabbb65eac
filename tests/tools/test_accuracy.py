"""The yardstick accepts honest float32, and refuses lower precision, missing elements and lost small values."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.results import Finding
from triton_agent.tools.truth.expectation import expect
from triton_agent.tools.truth.yardstick import Yardstick


def yard_of(function: object, *inputs: torch.Tensor) -> Yardstick:
    """Make the yardstick of a function as the checker does."""

    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)  # type: ignore[operator]

    return expect(Model(), list(inputs)).outputs[0].yard


@pytest.fixture
def product() -> tuple[Yardstick, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    a, b = torch.randn(70, 300), torch.randn(300, 50)
    return yard_of(torch.matmul, a, b), a, b


def test_another_order_of_summation_passes(product: tuple[Yardstick, torch.Tensor, torch.Tensor]) -> None:
    yard, a, b = product
    blocks = sum(a[:, i : i + 17] @ b[i : i + 17] for i in range(0, 300, 17))
    one_by_one = torch.zeros(70, 50)
    for k in range(300):
        one_by_one += a[:, k, None] * b[None, k]
    assert judge(torch.as_tensor(blocks), yard).ok
    assert judge(one_by_one, yard).ok


@pytest.mark.parametrize("bits", [13, 16, 10])
def test_truncated_operands_are_imprecise(product: tuple[Yardstick, torch.Tensor, torch.Tensor], bits: int) -> None:
    """Removing 13 bits of float32 leaves TF32, 16 leave bfloat16, 10 leave a little more than float16."""
    yard, a, b = product

    def cut(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) >> bits << bits).view(torch.float32)

    judgement = judge(cut(a) @ cut(b), yard)
    assert judgement.finding is Finding.PRECISION


def test_half_precision_accumulation_is_imprecise_and_one_rounding_is_not() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    yard = yard_of(torch.matmul, a, b)
    assert judge((a.float() @ b.float()).half(), yard).ok
    total = torch.zeros(64, 64, dtype=torch.half)
    for k in range(0, 256, 16):
        total += (a[:, k : k + 16].float() @ b[k : k + 16].float()).half()
    assert judge(total, yard).finding is Finding.PRECISION


def lane_sums(x: torch.Tensor, lanes: int) -> torch.Tensor:
    """Sum rows as a kernel does: into a vector of partial sums, which are then added pairwise."""
    parts = x.reshape(len(x), -1, lanes)
    total = torch.zeros(len(x), lanes)
    for step in range(parts.shape[1]):
        total = total + parts[:, step]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


@pytest.mark.parametrize(
    ("exact", "mine"),
    [
        (lambda x: x.sum(-1), lambda x: lane_sums(x, 128)),
        (lambda x: (x**3).mean(), lambda x: lane_sums((x * x * x).reshape(1, -1), 128)[0] / x.numel()),
        (lambda x: x * x.sum(-1, keepdim=True), lambda x: x * lane_sums(x, 128)[:, None]),
    ],
    ids=["one sum", "a loss", "a sum that all elements share"],
)
def test_a_sum_is_not_refused_because_the_original_was_lucky(exact: Any, mine: Any) -> None:
    for seed in range(40):
        x = torch.randn(1, 16384, generator=torch.Generator().manual_seed(seed))
        assert judge(mine(x), yard_of(exact, x)).ok, seed


def moved_average(average: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Sum one element after another in float32; torch on a CPU sums differently."""
    total = torch.zeros(len(rows))
    for column in rows.T:
        total += column
    return average * 0.9 + total / rows.shape[1] * 0.1


@pytest.mark.parametrize("seed", range(6))
def test_a_buffer_in_which_large_values_cancel_may_be_summed_up_in_another_order(seed: int) -> None:
    """A buffer's limits come from random rounding, like those of an output, not from the reference's error alone."""
    torch.manual_seed(seed)
    norm = torch.nn.BatchNorm2d(6).train()
    rows = torch.randn(6, 64)
    rows[:, ::8] *= 100
    norm.running_mean.normal_()
    norm.running_mean[2] = -rows[2].mean() / 9 * (1 + 1e-5)
    after = {output.name: output.yard for output in expect(norm, [rows.view(1, 6, 8, 8)]).state_after}
    assert judge(moved_average(norm.running_mean, rows), after["buffer running_mean"]).ok
    assert not judge(moved_average(norm.running_mean, rows * (1 + 1e-4)), after["buffer running_mean"]).ok


def test_a_single_sum_of_half_precision_numbers_is_still_seen() -> None:
    seen = 0
    for seed in range(20):
        x = torch.randn(1, 16384, generator=torch.Generator().manual_seed(seed))
        seen += not judge(lane_sums(x.half().float(), 128), yard_of(lambda t: t.sum(-1), x)).ok
    assert seen >= 18


def test_one_wrong_element_of_a_million_is_seen() -> None:
    x = torch.randn(1000, 1000)
    yard = yard_of(torch.tanh, x)
    answer = torch.tanh(x)
    answer[517, 3] += 1e-4
    assert judge(answer, yard).finding is Finding.VALUES
    assert "(517, 3)" in judge(answer, yard).detail


def test_the_author_is_told_where_the_wrong_elements_are(product: tuple[Yardstick, torch.Tensor, torch.Tensor]) -> None:
    yard, a, b = product
    tail, scattered = a @ b, a @ b
    tail[:, 48:] = 0.0
    scattered[::3, ::7] = 5.0
    assert judge(tail, yard).detail.endswith("; all in 48 to 49 of dim 1")
    assert "all in" not in judge(scattered, yard).detail


def test_small_values_lost_behind_large_ones_are_seen() -> None:
    x = torch.randn(64, 64)
    x[:, 0] = 12.0
    yard = yard_of(lambda t: torch.softmax(t, -1), x)
    flushed = torch.softmax(x, -1)
    flushed[flushed < 1e-4] = 0.0
    assert not judge(flushed, yard).ok


def test_exp_of_large_arguments_may_err_as_the_rounding_of_its_argument_does() -> None:
    x = torch.randn(4096) * 10
    yard = yard_of(torch.exp, x)
    assert judge(torch.exp2(x * 1.4426950408889634), yard).ok


def test_a_function_that_is_exact_may_be_computed_with_another_rounding() -> None:
    x, y, z = torch.randn(3, 5000)
    yard = yard_of(lambda a, b, c: a * b + c, x, y, z)
    fused = (x.double() * y.double() + z.double()).float()
    assert judge(fused, yard).ok


def test_nan_and_infinity_have_to_be_where_the_original_has_them() -> None:
    x = torch.tensor([1.0, -1.0, 0.0, math.inf, 4.0])
    yard = yard_of(torch.log, x)
    right = torch.log(x)
    assert judge(right, yard).ok
    assert judge(right.nan_to_num(0.0), yard).finding is Finding.NON_FINITE
    spread = right.clone()
    spread[4] = math.nan
    assert judge(spread, yard).finding is Finding.NON_FINITE


def test_what_overflows_in_the_original_may_be_finite_where_the_truth_is() -> None:
    x = torch.full((8,), 300.0, dtype=torch.half)
    yard = yard_of(lambda t: (t * t) / 1000, x)
    assert torch.isinf(yard.original).all()
    assert judge((x.float() * x.float() / 1000).half(), yard).ok
    assert judge(yard.original, yard).ok
    assert not judge(torch.zeros(8, dtype=torch.half), yard).ok


def test_integers_have_to_be_exact_unless_rounding_decides() -> None:
    x = torch.randint(-1000, 1000, (500,))
    exact = yard_of(lambda t: t * 3, x)
    off = x * 3
    off[7] += 1
    assert judge(x * 3, exact).ok
    assert judge(off, exact).finding is Finding.VALUES
    y = torch.randn(100_000) * 50
    rounded = yard_of(lambda t: torch.round(t * 0.3).to(torch.int8), y)
    assert judge(torch.round(y * 0.3).to(torch.int8), rounded).ok
    assert not judge(torch.round(y * 0.3001).to(torch.int8), rounded).ok


def gated(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x @ w) * (y @ v)


def test_a_kernel_that_rounds_elsewhere_is_not_refused_because_the_original_was_lucky() -> None:
    for seed in range(200, 250):
        chance = torch.Generator().manual_seed(seed)
        shapes = ((24, 32), 1.0), ((24, 32), 1.0), ((32, 40), 0.17), ((32, 40), 0.17)
        given = [(torch.randn(shape, generator=chance) * scale).half() for shape, scale in shapes]
        x, y, w, v = (tensor.float() for tensor in given)
        mine = (torch.nn.functional.silu(x @ w).half().float() * (y @ v)).half()
        assert judge(mine, yard_of(gated, *given)).ok, seed


@pytest.mark.parametrize(("large", "off", "passes"), [(50, 1, True), (50, 50, True), (100_000, 100_000, False)])
def test_a_few_large_elements_may_share_the_roundings_of_several_values(large: int, off: int, passes: bool) -> None:
    """The reference is exact there by chance, and rounds twice elsewhere."""
    chance = torch.Generator().manual_seed(0)
    x, a, b = (torch.rand(100_000, generator=chance) + 0.5 for _ in range(3))
    x[large:] *= 1e-4
    x[:large], a[: min(large, 1000)], b[: min(large, 1000)] = 1.0, 1.0, 1.0
    given = [tensor.bfloat16() for tensor in (x, a, b)]
    yard = yard_of(lambda x, a, b: (x * a) * b, *given)
    answer = yard.original.clone()
    answer[:off] *= 1.0 + torch.finfo(torch.bfloat16).eps * (1 if off > 1 else 2)
    assert judge(answer, yard).ok is passes


def test_float64_is_held_to_float64() -> None:
    x = torch.randn(100, dtype=torch.float64)
    yard = yard_of(torch.sin, x)
    assert judge(torch.sin(x), yard).ok
    assert not judge(torch.sin(x.float()).double(), yard).ok


def test_empty_outputs_agree() -> None:
    yard = yard_of(torch.relu, torch.empty(0, 4))
    assert judge(torch.empty(0, 4), yard).ok


def test_half_precision_is_seen_where_a_cube_is_far_smaller_than_as_given() -> None:
    x = 0.01 * torch.randn(40, 100, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Module()
    model.forward = lambda x: x * x * x  # type: ignore[method-assign]
    yard = expect(model, [x], scales={"out": 3.9}).outputs[0].yard
    rough = (64 * x).half().float() / 64
    assert judge(x * (x * x), yard).ok
    assert judge(rough * rough * rough, yard).finding is Finding.PRECISION


def test_an_error_that_does_not_shrink_with_a_linear_answer_is_let_pass() -> None:
    x = 0.01 * torch.randn(40, 100, generator=torch.Generator().manual_seed(0))
    yard = expect(torch.nn.Tanh(), [x], scales={"out": 0.63}).outputs[0].yard
    assert judge(2 * torch.sigmoid(2 * x) - 1, yard).ok


def test_flags_are_zero_or_one() -> None:
    x = torch.randn(40, 100, generator=torch.Generator().manual_seed(0))
    yard = yard_of(lambda x: x > 0, x)
    assert judge((x > 0).to(torch.uint8).view(torch.bool), yard).ok
    assert judge((2 * (x > 0)).to(torch.uint8).view(torch.bool), yard).finding is Finding.VALUES


def test_an_element_with_an_infinity_in_its_sum_may_be_anything_but_finite() -> None:
    unbounded = torch.tensor([True, False])
    yard = dataclasses.replace(yard_of(torch.neg, torch.tensor([math.nan, -1.0])), unbounded=unbounded)
    for value in (math.nan, math.inf, -math.inf):
        assert judge(torch.tensor([value, 1.0]), yard).ok
    assert judge(torch.tensor([2.0, 1.0]), yard).finding is Finding.NON_FINITE
    assert judge(torch.tensor([math.inf, math.inf]), yard).finding is Finding.NON_FINITE


def test_where_only_the_truth_is_finite_a_rounding_error_of_the_largest_element_is_allowed() -> None:
    """The entropy of a softmax with one share near 1: the logarithm of that share is zero in float32."""
    yard = yard_of(torch.neg, torch.tensor([5.5e-10, -1.0]))
    yard = dataclasses.replace(yard, original=torch.tensor([math.nan, 1.0]))
    for value in (-5.3e-10, math.nan):
        assert judge(torch.tensor([value, 1.0]), yard).ok
    for value in (-1e-6, math.inf):
        assert judge(torch.tensor([value, 1.0]), yard).finding is Finding.NON_FINITE
