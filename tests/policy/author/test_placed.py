"""Writes, maxima and sums at many indices change exactly the indexed elements."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import describe_limits, write
from triton_agent.tools.processes.zygotes import Nursery

PLACED = """
ROWS, PLACES, WIDTH = 24, 12, 6


class Model(nn.Module):
    def forward(self, x, y, places, rows, columns):
        put = x.clone()
        put[places] = y * 2
        added = torch.zeros_like(x).index_put((places, places % 5), y[:, 0], accumulate=True)
        largest = torch.zeros_like(x).scatter_reduce(0, rows.expand_as(y), y, "amax", include_self=False)
        smallest = x.scatter_reduce(0, rows.expand_as(y), y, "amin")
        marked = x.scatter(1, columns, 9.0)
        return put, added, largest, smallest, marked, x.index_copy(0, places, y).relu(), x.index_fill(0, places, -1.0)


def get_inputs():
    places, rows = torch.randperm(ROWS)[:PLACES], torch.randint(0, ROWS, (PLACES, 1))
    return [torch.randn(ROWS, WIDTH), torch.randn(PLACES, WIDTH), places, rows, torch.randint(0, 6, (ROWS, 9))]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_many_places_are_written_to(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, PLACED)


def test_nothing_at_many_places_is_left_to_torch(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, PLACED))
    assert [limit for limit in describe_limits(brief) if "torch" in limit] == []
    source = write(brief, first_choice(brief)).source
    assert "tl.atomic_max(" in source and "tl.atomic_min(" in source and ".clone(" not in source
