"""Grids stay within the limits of a GPU: 65535 programs along the second and the third dimension."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import evaluated

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.emit.kernel_text import MOST_ASIDE
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

TURNED = """
COUNT = {count}


class Model(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2) + 1.0


def get_inputs():
    return [torch.randn(COUNT, 24, 40)]


def get_init_inputs():
    return []
"""

PRODUCTS = """
COUNT = {count}


class Model(nn.Module):
    def forward(self, x, y):
        return torch.bmm(x, y)


def get_inputs():
    return [torch.randn(COUNT, 24, 40), torch.randn(COUNT, 40, 16)]


def get_init_inputs():
    return []
"""

LONG = """
COUNT = {count}


class Model(nn.Module):
    def forward(self, x, scale):
        return x * scale


def get_inputs():
    return [torch.randn(40, COUNT), torch.randn(COUNT)]


def get_init_inputs():
    return []
"""


DOUBLED = """
COUNT = {count}


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(COUNT)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("count, wide", [(2**30, False), (2**31 - 100, True), (2**31 + 100, True)])
def test_a_last_block_that_passes_32_bits_counts_in_64(count: int, wide: bool, tmp_path: Path) -> None:
    source = write(full_size_brief(problem(tmp_path, DOUBLED.format(count=count))), Choice()).source
    assert ("tl.program_id(0).to(tl.int64)" in source) == wide


@pytest.mark.parametrize("text, count", [(TURNED, 70_000), (PRODUCTS, 70_000), (LONG, 5_000_001)])
def test_many_of_something_lie_along_the_first_dimension_of_a_grid(text: str, count: int, tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, text.format(count=count)))
    (kernel,) = drafts_of(brief, Choice())[0].kernels
    blocks = {name: block.value for name, block in kernel.blocks.items()}
    for entry in kernel.grid[1:]:
        programs = 1
        for size, by in entry.parts:
            step = blocks[by] if isinstance(by, str) else by
            assert isinstance(step, int)
            programs *= -(-max(size) // step)
        assert programs <= MOST_ASIDE


def test_tiles_of_many_planes_are_right(tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.policy.author.emit.skeleton_points.MOST_ASIDE", 4)
    spec = problem(tmp_path, TURNED.format(count=5))
    source = write(brief_of(spec), Choice()).source
    assert "plane = tl.program_id(0) // blocks" in source and "program_id(2)" not in source, source
    verdict = evaluated(spec, source, nursery)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"


def test_few_batches_come_after_the_tiles(tmp_path: Path) -> None:
    source = write(full_size_brief(problem(tmp_path, PRODUCTS.format(count=50))), Choice()).source
    assert re.search(r"batch = tl\.program_id\(1\)", source)


def test_products_by_their_batch_first_are_right(
    tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_agent.policy.author.emit.skeleton_product.MOST_ASIDE", 1)
    spec = problem(tmp_path, PRODUCTS.format(count=3))
    source = write(brief_of(spec), Choice()).source
    assert re.search(r"batch = tl\.program_id\(0\)", source)
    verdict = evaluated(spec, source, nursery)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"
