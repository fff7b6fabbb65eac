"""Own kernels for sorting, running reductions and buckets; equal elements keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes, plain

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import describe_limits, write
from triton_agent.tools.processes.zygotes import Nursery

STABLE = plain(
    "half = (x * 4).round().half()\n"
    "        up, first = torch.sort(half, dim=-1, stable=True)\n"
    "        down, last = torch.sort((x * 3).to(torch.int32), dim=0, descending=True, stable=True)\n"
    "        return up, first, down, last, x.flip(1).argsort(dim=0, stable=True)"
)

PICKED = plain(
    "y = torch.cat((x, x[:, :1].sqrt()), 1)\n"
    "        return x[:4].median(), y.median(1).values, x.kthvalue(3, dim=0).values, x.topk(9, sorted=True).values, "
    "x.quantile(0.25, dim=1), y.sort(-1, descending=True).values"
)

BEST = plain("best = x.topk(2, dim=-1)\n        return best.values[:, 0] - best.values[:, 1], best.indices[:, 0]")

RUNNING = plain("return torch.logcumsumexp(x * 30, 1), x.cummax(0).values, x.cummin(1)[0], (x * 0.1 + 1).cumprod(-1)")

LONG = """
ROWS, COLUMNS = 3, 9000


class Model(nn.Module):
    def forward(self, x):
        return torch.logcumsumexp(x, 1), x.cummax(1).values, x.cumsum(1)[:, :20] + x.sum(1, keepdim=True)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""

BUCKETS = """
ROWS, BOUNDS = 40, 9


class Model(nn.Module):
    def __init__(self, bounds):
        super().__init__()
        self.register_buffer("bounds", torch.linspace(-2.0, 2.0, bounds))

    def forward(self, x):
        rounded = (x * 2).round() / 2
        return torch.bucketize(rounded, self.bounds), torch.searchsorted(self.bounds, rounded, right=True)


def get_inputs():
    return [torch.randn(ROWS, 3)]


def get_init_inputs():
    return [BOUNDS]
"""

REDUCED = """
BATCH, HEIGHT = 2, 9


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 16, 2, groups=2)

    def forward(self, x):
        total = self.conv(x).cumsum(1)
        return total * torch.rsqrt(total.square().mean(1, keepdim=True) + 1e-5)


def get_inputs():
    return [torch.randn(BATCH, 4, HEIGHT, 7)]
"""

PLACES = plain(
    "a, b = torch.cummax((x * 2).round(), 1)\n"
    "        c, d = x.cummin(0)\n"
    "        e, f = x.half().cummax(1)\n"
    "        return a, b, c, d, e, f, torch.zeros(x.shape[1]).long().scatter_add_(0, b[0], b[0] + 1)"
)

HALF = """
BATCH, LENGTH = 5, 24
KEPT = LENGTH // 2


class Model(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        best = x.topk(self.kept, dim=1)
        return best.values * 2, best.indices.sort(dim=1).values


def get_inputs():
    return [torch.randn(BATCH, LENGTH)]


def get_init_inputs():
    return [KEPT]
"""

KINDS = {
    "where the largest so far is": PLACES,
    "running totals that are reduced": REDUCED,
    "equal elements, with where they were": STABLE,
    "one of those in order": PICKED,
    "the best two, with where they were": BEST,
    "the best half": HALF,
    "running totals": RUNNING,
    "running totals of long rows, and the first of them": LONG,
    "bounds": BUCKETS,
}
QUICK = (
    "one of those in order",
    "the best two, with where they were",
    "the best half",
    "running totals",
    "running totals that are reduced",
)


@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_what_goes_by_order_is_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, KINDS[kind])


def test_a_long_running_total_is_stored_before_it_is_reduced(tmp_path: Path) -> None:
    """In a loop over a row, the maximum of a cumulative sum is known only after the last step."""
    text = """
BATCH, LENGTH = 3, 40000
class Model(nn.Module):
    def forward(self, x):
        total = torch.cumsum(x, -1)
        return total / total.amax(-1, keepdim=True)
def get_inputs():
    return [torch.rand(BATCH, LENGTH)]
"""
    brief = full_size_brief(problem(tmp_path, text))
    assert write(brief, first_choice(brief)).source.count("_kernel(") == 2


def test_one_of_those_in_order_is_taken_where_they_are_put_in_order(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, plain("return x.median(1).values * 2")))
    assert write(brief, first_choice(brief)).source.count("_kernel(") == 1


def test_a_number_of_the_best_that_changes_with_the_sizes_is_not_left_to_torch(tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, HALF), grown=True)
    assert not describe_limits(brief)
    assert "torch.ops" not in write(brief, first_choice(brief)).source


def test_which_of_equals_comes_first_is_left_to_torch_where_it_is_its_own_choice(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, plain("return x.sort(1).indices * 2, x.sort(0).values")))
    (limit,) = describe_limits(brief)
    assert "order of equal elements is not defined" in limit
