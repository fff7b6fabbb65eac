"""Random rounding gives float32 values, is exact where float32 arithmetic is exact, and is unbiased."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.results import Finding
from triton_agent.tools.truth.expectation import NUDGES, expect
from triton_agent.tools.truth.random_rounding import Nudge, RandomRounding, round_in_place
from triton_agent.tools.truth.truth import run_lifted
from triton_agent.tools.truth.yardstick import WIDE, Yardstick


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, as in the checker: two threads that share a busy core wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def yard_of(function: Any, *inputs: torch.Tensor) -> Yardstick:
    return expect(Function(function), list(inputs)).outputs[0].yard


def rounded(function: Any, *inputs: torch.Tensor, draw: int = 0) -> Any:
    found = run_lifted(Function(function), list(inputs), nudge=Nudge(relative=0.0, draw=draw, everywhere=True))
    assert found is not None
    return found[0]


# -- single roundings ----------------------------------------------------------------------------------------------


def test_values_go_to_either_neighbour_and_are_right_on_average() -> None:
    torch.manual_seed(0)
    values = torch.randn(100_000, dtype=torch.float64)
    errors = []
    for draw in range(3):
        moved = values.clone()
        round_in_place(moved, draw)
        assert torch.equal(moved.float().double(), moved)
        spacing = torch.exp2(torch.floor(torch.log2(values.abs()))) * 2.0**-23
        errors.append((moved - values) / spacing)
        assert float(errors[-1].abs().max()) <= 1.0
        assert abs(float(errors[-1].mean())) < 0.01
    assert float(torch.corrcoef(torch.stack(errors)).triu(1).abs().max()) < 0.02


def test_what_lies_on_the_grid_or_is_not_finite_stays() -> None:
    values = torch.tensor([0.0, -0.0, 1.0, 0.1, -3e38, 1e-30, math.inf, -math.inf, math.nan]).double()
    moved = values.clone()
    round_in_place(moved, 3)
    assert torch.equal(moved.view(torch.int64), values.view(torch.int64))
    masks = torch.tensor([torch.finfo(torch.float64).min, torch.finfo(torch.float64).max], dtype=torch.float64)
    round_in_place(masks, 3)
    assert torch.isfinite(masks).all()


def test_equal_values_go_the_same_way() -> None:
    moved = torch.full((50, 3), 0.1, dtype=torch.float64).t()
    round_in_place(moved, 1)
    assert len(moved.unique()) == 1


# -- whole modules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.transpose(0, 1).relu().flip(0).cumsum(0).round() * 2,
        lambda x: torch.cat([x, -x]).sort(-1).values.amax(0),
        lambda x: torch.where(x > 1, x, 0.5).index_select(0, torch.tensor([3, 1])).abs().sum(-1),
        lambda x: x.sum((0, 1), keepdim=True) + x.mean() * 3.0,
        lambda x: x @ x.t(),
        lambda x: x / 4.0 + x / torch.full((16,), 0.5) + (0 * x) / 3.0 + x / torch.tensor(-2),
    ],
)
def test_exact_arithmetic_errs_by_nothing(function: Any) -> None:
    """The inputs are small integers, whose sums, products and halves are exact in float32."""
    x = torch.randint(-9, 9, (8, 16), generator=torch.Generator().manual_seed(0)).float()
    assert torch.equal(rounded(function, x), function(x.double()))


@pytest.mark.parametrize("function", [lambda x: x / x, lambda x: (3 * x) / 3.0, lambda x: (0 * x + 1).mean(0)])
def test_quotients_may_be_next_to_what_they_are_exactly(function: Any) -> None:
    """A GPU may divide by multiplying with the reciprocal, so an error of that size is allowed, and no larger one."""
    x = torch.randint(1, 9, (6, 16), generator=torch.Generator().manual_seed(0)).float()
    off = (rounded(function, x) / function(x.double()) - 1).abs()
    assert 0 < float(off.max()) <= 2.0**-22


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.log_softmax(x, -1),
        lambda x: F.layer_norm(x, (24,)),
        lambda x: F.batch_norm(x, torch.zeros(24), torch.ones(24), training=True),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: F.linear(x, x, x[:, 0]),
        lambda x: torch.var_mean(x, -1),
        lambda x: x.std() * x.var((0, 1), keepdim=True) * torch.std_mean(x, correction=0)[0] * x.std(0),
        lambda x: torch.complex(x, x).var(-1),
        lambda x: x.logsumexp((0, 1), keepdim=True) * x.logsumexp(0) * torch.baddbmm(x[None], x[None], x[None, :24]),
        lambda x: x.mean(-1, keepdim=True) * x.sum(),
        lambda x: torch.fft.rfft(x).abs(),
    ],
    ids=[
        "log-softmax",
        "layer norm",
        "batch norm",
        "attention",
        "linear",
        "variance",
        "deviation",
        "complex variance",
        "logsumexp",
        "sums",
        "complex",
    ],
)
def test_results_err_by_a_few_roundings_and_differ_from_draw_to_draw(function: Any) -> None:
    x = torch.randn(32, 24, generator=torch.Generator().manual_seed(0))
    truth = run_lifted(Function(function), [x])
    assert truth is not None
    first = [value[0] if isinstance(value, tuple) else value for value in (truth[0], *draws(function, x))]
    for moved in first[1:]:
        assert 1e-9 < float((moved - first[0]).norm() / first[0].norm()) < 1e-6
    assert not torch.equal(first[1], first[2])


def draws(function: Any, x: torch.Tensor) -> list[Any]:
    return [rounded(function, x, draw=draw) for draw in range(2)]


# -- what it is for --------------------------------------------------------------------------------------------------


def divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    ours, theirs = F.log_softmax(student.float() / 2.5, -1), F.log_softmax(teacher.float() / 2.5, -1)
    return (theirs.exp() * (theirs - ours)).sum(-1)


def by_hand(student: torch.Tensor, teacher: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Compute as on a GPU, where a logarithm may be off by four units in the last place, equally for all its users."""

    def log(x: torch.Tensor) -> torch.Tensor:
        off = (2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1) * 2.0**-22
        return (torch.log2(x.double()) * (1 + off)).float() * math.log(2)

    ours, theirs = (x.float() / 2.5 - (x.float() / 2.5).amax(-1, keepdim=True) for x in (student, teacher))
    ours, theirs = (x - log(x.exp().sum(-1, keepdim=True)) for x in (ours, theirs))
    return (theirs.exp() * (theirs - ours)).sum(-1)


def test_a_logarithm_that_a_whole_row_shares_may_err_as_on_a_gpu() -> None:
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        teacher = 3 * torch.randn(16, 1000, generator=generator)
        student = (teacher + torch.randn(16, 1000, generator=generator)).half()
        yard = yard_of(divergence, student, teacher.half())
        assert judge(by_hand(student, teacher.half(), generator), yard).ok, seed
        halved = divergence((student / 2.5).half() * 2.5, (teacher.half() / 2.5).half() * 2.5)
        assert not judge(halved, yard).ok, seed


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention with one product after another, unlike any library."""
    scores = torch.zeros(*q.shape[:-1], k.shape[-2])
    for i in range(q.shape[-1]):
        scores = scores + q[..., i, None] * k[..., None, :, i]
    share = torch.exp((scores - scores.amax(-1, keepdim=True)) * q.shape[-1] ** -0.5)
    return share @ v / share.sum(-1, keepdim=True)


def test_scores_that_are_large_and_nearly_equal_may_err_at_their_own_size() -> None:
    """Two keys have the same large element. Rounding of inputs changes equal values equally, so the changes cancel."""
    for seed in range(12):
        q, k, v = torch.randn(3, 40, 20, generator=torch.Generator().manual_seed(seed))
        q[5, 0] = q[5, 19] = k[7, 0] = k[9, 19] = v[7, 3] = 100.0
        k[9, 1:19] = k[7, 1:19] + 0.01 * k[9, 1:19]
        k[9, 0], k[7, 19] = k[7, 19], k[9, 0]
        yard = yard_of(F.scaled_dot_product_attention, q, k, v)
        assert judge(attention(q, k, v), yard).ok, seed


@pytest.mark.parametrize("complex_", [False, True])
def test_an_exponential_may_be_a_power_of_two_of_a_rounded_product(complex_: bool) -> None:
    """A GPU's fast exponential errs by 1.3e-6 of exp(23), more than eight units in the last place."""
    x = torch.tensor([23.0, 21.7, -3.0, 0.4]).repeat(4)
    x = torch.complex(x, torch.zeros_like(x)) if complex_ else x
    power = torch.exp2(x.real * torch.tensor(math.log2(math.e)))
    answer = torch.complex(power, torch.zeros_like(power)) if complex_ else power
    assert float(((power.double() - x.real.double().exp()) / x.real.double().exp()).abs().max()) > 1.2e-6
    yard = yard_of(torch.exp, x)
    assert judge(answer, yard).ok
    assert not judge(answer * (1 + 1e-4), yard).ok


def test_distances_of_equal_points_may_err_as_their_squares_do() -> None:
    """Torch's sum may cancel to exactly zero where another order of summation leaves the root of a rounding error."""

    def nearest(x: torch.Tensor) -> torch.Tensor:
        return (torch.cdist(x, x) + 1e6 * torch.eye(len(x), dtype=x.dtype)).amin(1).mean()

    def by_columns(x: torch.Tensor) -> torch.Tensor:
        squares, product = (x * x).sum(1), torch.zeros(len(x), len(x))
        for column in x.T.flip(0):
            product = product + column[:, None] * column
        distances = (squares[:, None] + squares - 2 * product).clamp_min(0).sqrt()
        return (distances + 1e6 * torch.eye(len(x))).amin(1).mean()

    for seed in range(6):
        x = torch.randn(32, 16, generator=torch.Generator().manual_seed(seed))
        assert not judge(by_columns(x.half().float()), yard_of(nearest, x)).ok, seed
        x[1], x[31] = x[0], x[30]
        assert judge(by_columns(x), yard_of(nearest, x)).ok, seed


@pytest.mark.parametrize("number", [1.2, 1.1296, 1.2013])
def test_running_products_of_whole_numbers_err_as_in_a_tree(number: float) -> None:
    """Torch accumulates a running product on a CPU in float64; in a tree of float32 products rounding errors add up."""
    x = torch.full((72,), number)
    total, truth = x, x.double().cumprod(-1)
    for reach in (1, 2, 4, 8, 16, 32, 64):
        total = torch.cat([total[:reach], total[reach:] * total[:-reach]])
    drawn = []
    for draw in range(8):
        with torch.no_grad(), RandomRounding(draw):
            drawn.append(float(((x.double().cumprod(-1) - truth) / truth).abs().max()))
    assert 16 * 2**-24 < float(((total - truth) / truth).abs().max()) < WIDE.factor["max"] * max(drawn) < 1e-4


def added_one_by_one(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply as a kernel does that adds the terms of an element in float32, one after another."""
    total = torch.zeros(len(x), len(weight))
    for k in range(x.shape[1]):
        total = (total.double() + x[:, k, None].double() * weight[None, :, k].double()).float()
    return total


def test_a_long_product_of_a_single_row_strays_as_one_whose_terms_are_added_one_by_one() -> None:
    """A library splits such a sum, and errs five times less than an honest kernel."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(1, 1024, generator=generator), torch.randn(512, 1024, generator=generator)
    truth = F.linear(x.double(), weight.double())
    honest = float((added_one_by_one(x, weight) - truth).norm())
    for draw in range(2):
        assert 0.7 < float((rounded(F.linear, x, weight, draw=draw) - truth).norm()) / honest < 1.5
    whole, wholes = x.mul(8).round(), weight.mul(8).round()
    assert torch.equal(rounded(F.linear, whole, wholes), F.linear(whole.double(), wholes.double()))


def test_terms_that_cancel_in_a_sum_leave_errors_of_their_size() -> None:
    """An honest tree of additions meets the large terms far apart, and loses the low bits of what lies between."""
    x = torch.rand(64, 96, generator=torch.Generator().manual_seed(0))
    x[:, 3], x[:, 4] = 1e6, -1e6
    truth = x.double().sum(-1)
    tree = x.view(64, 2, 48)
    honest = (tree[:, 0] + tree[:, 1]).double().sum(-1) - truth
    for draw in range(2):
        strayed = rounded(lambda x: x.sum(-1), x, draw=draw) - truth
        assert 0.5 < float(strayed.norm() / honest.norm()) < 4.0
    whole = x.mul(8).round()
    assert torch.equal(rounded(lambda x: x.sum(-1), whole), whole.double().sum(-1))
    x[:, 3], x[:, 4] = 1.0, -1.0
    ordinary = rounded(lambda x: x.sum(-1), x) - x.double().sum(-1)
    assert float(ordinary.abs().max()) < 1e-5


def test_steps_from_minus_one_to_one_err_near_zero_as_much_as_at_the_ends() -> None:
    """torch's middle of seven is 3e-8 in float32 and 5e-17 in float64; a kernel's is 0."""

    def grid(theta: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, [1, 1, 3, 7], align_corners=False)

    theta = torch.tensor([[[1e18, 0.25, 0.5], [0.75, -1e14, 0.25]]])
    yard = yard_of(grid, theta)
    x, y = ((2.0 * torch.arange(n).float() + 1.0) / n - 1.0 for n in (7, 3))
    got = torch.stack([theta[0, i, 0] * x + theta[0, i, 1] * y[:, None] + theta[0, i, 2] for i in range(2)], dim=-1)[
        None
    ]
    assert judge(grid(theta), yard).ok and judge(got, yard).ok
    got[0, 1, 3, 0] += 1e12
    assert not judge(got, yard).ok


def _product_of_pairs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1]


def test_one_of_two_products_that_cancel_may_be_exact() -> None:
    """A GPU adds a product without rounding it, so a difference of two equal products is not zero there."""
    x, y = (torch.randn(16, 40, 1).expand(16, 40, 2) for _ in range(2))
    yard = yard_of(_product_of_pairs, x, y)
    product = x[..., 0] * y[..., 0]
    residue = (x[..., 0].double() * y[..., 0].double() - product.double()).float()
    assert not torch.equal(residue, torch.zeros_like(residue))
    assert judge(residue, yard).ok and judge(-residue, yard).ok and judge(torch.zeros_like(residue), yard).ok
    assert not judge(100 * residue, yard).ok and not judge(product - product.bfloat16().float(), yard).ok
    exact = yard_of(_product_of_pairs, x.round(), y.round())
    assert not judge(100 * residue, exact).ok, "products of small whole numbers have no rounding errors"


@pytest.mark.parametrize("product", [F.linear, lambda x, weight, bias: F.conv1d(x[..., None], weight[..., None], bias)])
def test_operands_of_a_product_may_lose_their_last_bit(product: Any) -> None:
    """The product with -1 and the bias cancel, but for that bit, which `tf32x3` drops."""

    def layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return product(x.sign(), weight, bias)  # type: ignore[no-any-return]

    x, weight = torch.tensor([[-0.7, 0.0]] * 4), torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    weight[2] = torch.tensor([8886111.0, 1.0])
    bias = weight[:, 0]
    yard = expect(Function(layer), [x, weight, bias], draws=NUDGES).outputs[0].yard
    got = layer(x, weight, bias)
    assert got[0, 2] == 0
    got[0, 2] = 1.0
    assert judge(got, yard).ok
    got[0, 2] = 64.0
    assert not judge(got, yard).ok


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_that_adds_one_by_one_has_room_and_tf32_has_none(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(1, 512, generator=generator), torch.randn(1024, 512, generator=generator)
    yard = yard_of(F.linear, x, weight)
    got = added_one_by_one(x, weight)
    assert judge(got, yard).ok
    assert judge(yard.truth + 2 * (got.double() - yard.truth), yard).ok
    cut = [((part.view(torch.int32) + 0x1000) >> 13 << 13).view(torch.float32) for part in (x, weight)]
    assert judge(F.linear(*cut), yard).finding is Finding.PRECISION


def test_an_original_that_computes_in_float64_is_not_to_be_replaced_by_float32() -> None:
    x = 100 + torch.randn(64, 500, generator=torch.Generator().manual_seed(0))

    def spread(t: torch.Tensor) -> torch.Tensor:
        wide = t.double()
        return ((wide * wide).mean(-1) - wide.mean(-1) ** 2).float()

    yard = yard_of(spread, x)
    assert judge(spread(x), yard).ok
    narrow = (x * x).mean(-1) - x.mean(-1) ** 2
    assert judge(narrow, yard).finding is Finding.PRECISION
    assert judge(narrow, yard_of(lambda t: (t * t).mean(-1) - t.mean(-1) ** 2, x)).ok


class _Frequencies(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4, 4, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3, 6, dtype=torch.cfloat)
        made[:, :4] = torch.fft.rfft(x)[:, :4] @ self.weight
        return torch.fft.irfft(made, n=x.shape[-1])


def test_complex_parameters_and_constants_are_lifted_like_real_ones() -> None:
    """Otherwise the reference itself would be the truth, and every other answer would seem inaccurate."""
    found = run_lifted(_Frequencies(), [torch.randn(3, 10)])
    assert found is not None and found[0].dtype == torch.float64
    assert found[1].weight.dtype == torch.complex128


def attention_with_scores_computed_twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as Triton may compile it: exponentials and their row sum use scores from two orders of summation."""
    products = q[..., :, None, :] * k[..., None, :, :]
    once, again = (
        x * torch.tensor(q.shape[-1] ** -0.5) for x in (products.sum(-1), products.flip(-1).cumsum(-1)[..., -1])
    )
    peak = once.amax(-1, keepdim=True)
    return (torch.exp(again - peak) / torch.exp(once - peak).sum(-1, keepdim=True)) @ v


def test_large_scores_may_be_computed_twice_but_not_in_lower_precision() -> None:
    for seed in range(30):
        torch.manual_seed(seed)
        q, k, v = torch.randn(3, 1, 1, 30, 23)
        for x in (q, k, v):
            x[..., -1, :] = -x[..., -1, :].abs()
            x[..., -1, -1] = -100 * (1 - torch.rand(()) / 2)
        yard = yard_of(F.scaled_dot_product_attention, q, k, v)
        right = judge(attention_with_scores_computed_twice(q, k, v), yard)
        assert right.ok, (seed, right)
        for dtype in (torch.bfloat16, torch.float16):
            narrow = [x.to(dtype).float() for x in (q, k, v)]
            assert not judge(attention_with_scores_computed_twice(*narrow), yard).ok
