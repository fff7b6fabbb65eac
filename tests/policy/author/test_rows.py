"""Long rows are walked through as seldom as can be, and few rows keep a GPU busy; what comes out stays right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author import kernel_plan, partition
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.isolate.processes import Nursery

LONG = """
ROWS, COLUMNS = 5, 20000


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [3 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""

BODIES = {
    "norm": ("return F.layer_norm(x, x.shape[1:])", 2),
    "variance and mean": ("return x.var(1), x.mean(1)", 1),
    "softmax": ("return torch.softmax(x / 2.0, dim=1)", 2),
    "logarithm of a sum": ("return torch.logsumexp(x, 1), x.amin(1)", 1),
    "entropy": ("share = F.log_softmax(x, 1)\n        return -(share.exp() * share).sum(1)", 2),
}
"""What is computed of a long row, and how many walks through it that takes."""


@pytest.mark.parametrize("kind", BODIES)
def test_a_long_row_is_walked_through_as_seldom_as_can_be(kind: str, tmp_path: Path) -> None:
    body, walks = BODIES[kind]
    brief = brief_of(problem(tmp_path, LONG.format(body=body)))
    source = write(brief, first_choice(brief)).source
    assert source.count("for start in range") == walks, source


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
def test_sums_in_one_walk_are_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, LONG.format(body=BODIES[kind][0]))


ACROSS = """
BATCH, CHANNELS, SIZE = 2, 80, 9


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1), x.mean((2, 3)) + 1.0


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_rows_beside_each_other_are_kept_whole(tmp_path: Path, nursery: Nursery) -> None:
    """A softmax over channels reads its input once."""
    brief = brief_of(problem(tmp_path, ACROSS))
    source = write(brief, first_choice(brief)).source
    assert "for start" not in source
    check_passes(tmp_path, nursery, ACROSS)


FEW_ACROSS = """
TOKENS, EXPERTS = 3000, 64


class Model(nn.Module):
    def forward(self, x):
        return x.mean(0)


def get_inputs():
    return [torch.randn(TOKENS, EXPERTS)]


def get_init_inputs():
    return []
"""


def test_a_sum_over_many_rows_has_many_programs(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, FEW_ACROSS))
    source = write(brief, first_choice(brief)).source
    assert "mean_parts_kernel[" in source


def test_what_is_divided_by_is_a_constant_of_the_kernel(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, ACROSS))
    source = write(brief, first_choice(brief)).source
    divisors = set(re.findall(r"(?://|%) ([a-z]\w*)", source.split("class ModelNew")[0]))
    assert divisors and all(f"{name}: tl.constexpr" in source for name in divisors)


BOTH_WAYS = """
SIZE = 48


class Model(nn.Module):
    def forward(self, x):
        products = x @ x.t()
        return products.logsumexp(0) + products.logsumexp(1)


def get_inputs():
    return [torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
"""


def test_rows_and_columns_of_a_square_are_reduced_apart(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, BOTH_WAYS))
    (draft,) = drafts_of(brief, first_choice(brief))
    assert [kernel.kernel.kind for kernel in draft.kernels].count("rows") == 2


@pytest.mark.slow
def test_rows_and_columns_of_a_square_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, BOTH_WAYS)


WRITTEN_OUT = """
ROWS, COLUMNS = 160, 24


class Model(nn.Module):
    def forward(self, x, y):
        found, state = [], x
        for _ in range(20):
            state = 0.9 * state + y
            found.append((state * x).sum(-1))
        return tuple(found)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""


def test_steps_written_out_become_one_kernel_without_planning_it_anew_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []

    class Counted(kernel_plan.Attempt):
        def kernel(self) -> kernel_plan.Kernel:
            planned.append(len(self.roots))
            return super().kernel()

    monkeypatch.setattr(partition, "Attempt", Counted)
    brief = brief_of(problem(tmp_path, WRITTEN_OUT))
    (draft,) = drafts_of(brief, first_choice(brief))
    assert [len(kernel.kernel.roots) for kernel in draft.kernels] == [20]
    assert sum(planned) <= 3 * 20


ORDERED = """
ROWS, COLUMNS = 5, 21


class Model(nn.Module):
    def forward(self, x, places):
        return torch.gather(x, 1, places.sort(dim=1)[0]), places.sort(dim=0)[0] + 1


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randint(0, COLUMNS, (ROWS, COLUMNS))]


def get_init_inputs():
    return []
"""


def test_whole_numbers_are_put_in_order_by_an_own_kernel(tmp_path: Path, nursery: Nursery) -> None:
    brief = brief_of(problem(tmp_path, ORDERED))
    source = write(brief, first_choice(brief)).source
    assert source.count("tl.sort(") == 2 and "aten.sort" not in source, source
    check_passes(tmp_path, nursery, ORDERED)
