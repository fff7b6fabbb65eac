"""Products that load their tiles by tensor descriptors, with aligned and with unaligned operands."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import LINEAR, check_passes
from tests.policy.author.test_products import ADAPTER, GATED, JOINED, PACKED

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import Feedback, first_choice, neighbours
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

BOTH_STORED_FIRST = """
INNER, ROWS, COLUMNS = 40, 24, 48


class Model(nn.Module):
    def forward(self, x, y):
        return torch.mm(x.t(), y) * 0.5


def get_inputs():
    return [torch.randn(INNER, ROWS).half(), torch.randn(INNER, COLUMNS).half()]


def get_init_inputs():
    return []
"""

WITH_ITSELF = """
ROWS, WIDTH = 40, 48


class Model(nn.Module):
    def forward(self, x):
        return (x @ x.t()).float() + x.float().sum(1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).to(torch.bfloat16)]


def get_init_inputs():
    return []
"""

HEADS = """
BATCH, LENGTH, HEADS, WIDTH = 2, 12, 4, 16


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width * heads, width * heads, bias=False, dtype=torch.bfloat16)

    def forward(self, x, bias):
        batch, length, _ = x.shape
        return self.project(x).view(batch, length, self.heads, -1).transpose(1, 2) + bias


def get_inputs():
    x, bias = torch.randn(BATCH, LENGTH, HEADS * WIDTH), torch.randn(BATCH, HEADS, LENGTH, WIDTH)
    return [x.to(torch.bfloat16), bias.to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HEADS]
"""

ODD = """
ROWS, INNER, COLUMNS = 24, 36, 40


class Model(nn.Module):
    def forward(self, x, y):
        return x @ y


def get_inputs():
    return [torch.randn(ROWS, INNER).half(), torch.randn(INNER, COLUMNS).half()]


def get_init_inputs():
    return []
"""
BATCHED = """
BATCH, ROWS, INNER, COLUMNS = 3, 24, 32, 40


class Model(nn.Module):
    def __init__(self, batch, inner, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(batch, inner, columns).half())
        self.bias = nn.Parameter(torch.randn(batch, 1, columns).half())

    def forward(self, x, y):
        return torch.relu(torch.baddbmm(self.bias, x, self.weight)) @ y.transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, ROWS, INNER).half(), torch.randn(BATCH, ROWS, COLUMNS).half()]


def get_init_inputs():
    return [BATCH, INNER, COLUMNS]
"""
SMALL = Tiles(rows=16, columns=32, inner=16, warps=4, stages=2, described=True)


def products(brief: Brief, choice: Choice) -> list[KernelText]:
    return [kernel for draft in drafts_of(brief, choice) for kernel in draft.kernels if kernel.kernel.kind == "product"]


def all_described(brief: Brief) -> Choice:
    """Return a choice of small tiles, so that the loop over tiles runs more than once."""
    choice = JOINED
    for kernel in products(brief, choice):
        choice = choice.with_tiles(kernel.key, SMALL)
    return choice


@pytest.mark.parametrize("text", [LINEAR, WITH_ITSELF, pytest.param(HEADS, marks=pytest.mark.slow)])
def test_a_described_product_is_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes_described(tmp_path, nursery, text)


@pytest.mark.slow
@pytest.mark.parametrize("text", [BOTH_STORED_FIRST, ADAPTER, PACKED, GATED])
def test_more_described_products_are_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes_described(tmp_path, nursery, text)


def test_batched_products_are_described(tmp_path: Path, nursery: Nursery) -> None:
    """A descriptor pads every matrix of a batch with zeros; it does not read into the next matrix."""
    brief = brief_of(problem(tmp_path, BATCHED))
    source = write(brief, all_described(brief)).source
    assert ".load([batch, tile_m * BLOCK_M, start]).reshape(BLOCK_M, BLOCK_K)\n" in source
    assert ".load([batch, start, tile_n * BLOCK_N]).reshape(BLOCK_K, BLOCK_N)\n" in source
    assert ".load([batch, tile_n * BLOCK_N, start]).reshape(BLOCK_N, BLOCK_K).T\n" in source
    assert len(re.findall(r"_matrix\.store\(\s*\[batch, ", source)) == 2 and "tl.program_id(1)" not in source
    check_passes_described(tmp_path, nursery, BATCHED)


def test_a_wide_tile_of_a_batch_is_stored_by_pointers(tmp_path: Path) -> None:
    """As a batched descriptor tile it would be converted to another layout in shared memory, which is too small for
    it.
    """
    brief = brief_of(problem(tmp_path, BATCHED))
    choice = first_choice(brief)
    for kernel in products(brief, choice):
        choice = choice.with_tiles(kernel.key, dataclasses.replace(SMALL, columns=256))
    source = write(brief, choice).source
    assert "_matrix.load([batch" in source and "_matrix.store(" not in source


def test_batches_that_lie_within_each_other_are_not_described(tmp_path: Path) -> None:
    text = BATCHED.replace("baddbmm(self.bias, x,", "baddbmm(self.bias, x.transpose(0, 1).reshape(3, -1, 32),")
    text = text.replace("@ y.transpose(1, 2)", "").replace(
        "torch.randn(BATCH, ROWS, INNER)", "torch.randn(ROWS, BATCH, INNER)"
    )
    brief = brief_of(problem(tmp_path, text))
    assert not any(kernel.tiles.described for kernel in products(brief, all_described(brief)))


def check_passes_described(folder: Path, nursery: Nursery, text: str) -> None:
    answer = check_passes(folder, nursery, text, all_described)
    assert "_matrix.load([" in answer.source and "by tensor descriptors" in answer.plan


def test_what_is_stored_across_is_turned_around(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, BOTH_STORED_FIRST))
    source = write(brief, all_described(brief)).source
    assert "x = x_matrix.load([start, tile_m * BLOCK_M]).T" in source
    assert re.search(r"y = y_matrix\.load\(\[start, tile_n \* BLOCK_N\]\)$", source, re.MULTILINE)


def test_a_result_that_is_no_matrix_is_stored_by_pointers(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, HEADS))
    source = write(brief, all_described(brief)).source
    assert "x_matrix.load([" in source and ".store([" not in source.replace("tl.store(", "")


def test_rows_that_are_not_aligned_are_not_described(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, ODD))
    (kernel,) = products(brief, all_described(brief))
    assert not kernel.tiles.described and "TensorDescriptor" not in write(brief, all_described(brief)).source


def test_descriptors_that_fail_become_pointers_first(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, LINEAR))
    choice = all_described(brief)
    (kernel,) = products(brief, choice)
    found = neighbours(brief, dataclasses.replace(choice, exact=True, merge=False), Feedback(status="compile_error"))
    assert found[0].tiles_of(kernel.key) == dataclasses.replace(SMALL, described=False)
