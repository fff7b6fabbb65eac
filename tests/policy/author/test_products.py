"""What lies between two products is stored as late and as small as can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import Feedback, first_choice, neighbours
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.isolate.processes import Nursery

ADAPTER = """
ROWS, INPUTS, OUTPUTS, RANK = 24, 48, 40, 16


class Model(nn.Module):
    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, dtype=torch.float16)
        self.down = nn.Linear(inputs, rank, bias=False, dtype=torch.float16)
        self.up = nn.Linear(rank, outputs, bias=False, dtype=torch.float16)

    def forward(self, x):
        return torch.relu(self.base(x) + 2.0 * self.up(self.down(x)))


def get_inputs():
    return [torch.randn(ROWS, INPUTS).half()]


def get_init_inputs():
    return [INPUTS, OUTPUTS, RANK]
"""

GATED = """
ROWS, WIDTH, HIDDEN = 24, 32, 40


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, dtype=torch.float16)
        self.up = nn.Linear(width, hidden, bias=False, dtype=torch.float16)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, HIDDEN]
"""


CHANNELS_LAST = """
SIZE, CHANNELS = 20, 24


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(torch.einsum("ikd,jkd->ijd", torch.sigmoid(x), x * 2.0))


def get_inputs():
    return [torch.randn(SIZE, SIZE, CHANNELS)]


def get_init_inputs():
    return [CHANNELS]
"""


def test_products_counted_by_the_innermost_dimension_lie_one_behind_another(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, CHANNELS_LAST))
    (draft,) = drafts_of(brief, first_choice(brief))
    (product,) = (kernel.kernel for kernel in draft.kernels if kernel.kernel.kind == "product")
    one = (1,) * draft.program.width
    loads = [node.index for node in product.nodes if node.kind == "load" and node.index is not None]
    assert len(loads) == 2
    for index in [*loads, product.roots[0].index]:
        assert all(index.coefficient(axis) != one for axis in product.batch)


@pytest.mark.slow
def test_products_that_lie_otherwise_in_memory_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, CHANNELS_LAST)


@pytest.mark.parametrize("text", [ADAPTER, GATED])
def test_a_product_that_meets_another_is_stored_in_the_dtype_of_its_operator(text: str, tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, text))
    (draft,) = drafts_of(brief, first_choice(brief))
    stored = {draft.program.stored_dtype(root.value) for kernel in draft.kernels for root in kernel.kernel.roots}
    assert stored == {"float16"}


def test_what_follows_a_product_until_the_next_one_is_done_with_it(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, GATED))
    (draft,) = drafts_of(brief, first_choice(brief))
    assert [kernel.name for kernel in draft.kernels] == ["matmul_silu_kernel", "matmul_mul_kernel"]


@pytest.mark.slow
@pytest.mark.parametrize("text", [ADAPTER, GATED])
def test_two_products_that_meet_are_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, text)


def test_several_products_try_the_next_idea_together(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, GATED))
    choice = first_choice(brief)
    (draft,) = drafts_of(brief, choice)
    first = neighbours(brief, choice, Feedback())[0]
    assert {key for key, _ in first.tiles} == {kernel.key for kernel in draft.kernels}
    assert write(brief, first).source != write(brief, choice).source
