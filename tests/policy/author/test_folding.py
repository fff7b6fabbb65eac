"""Own kernels for unfold, fold, max pooling with indices, and max unpooling."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import describe_limits, write
from triton_agent.tools.processes.zygotes import Nursery

FOLDED = """
BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 8, 10


class Model(nn.Module):
    def forward(self, x):
        size = x.shape[-2:]
        columns = F.unfold(x, (3, 2), padding=1, stride=2)
        patches = F.unfold(x, 2, stride=2)
        spread = F.fold(F.unfold(x, 3, dilation=2, padding=2).tanh(), size, 3, dilation=2, padding=2)
        made = F.fold(columns * 0.5, size, (3, 2), padding=1, stride=2)
        return columns, made, F.fold(patches, size, 2, stride=2), spread


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]
"""
UNPOOLED = """
BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 8, 10


class Model(nn.Module):
    def forward(self, x):
        y, place = F.max_pool2d(x, 2, return_indices=True)
        z, other = F.max_pool2d(x, (3, 2), stride=(2, 1), padding=1, dilation=(2, 1), return_indices=True)
        w, deep = F.max_pool3d(x.unsqueeze(1), 2, return_indices=True)
        line, along = F.max_pool1d(x.flatten(1, 2), 3, return_indices=True)
        return F.max_unpool2d(y * 2, place, 2), z, other, w, deep, line, along


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]
"""
SIDE_BY_SIDE = """
BATCH = 2


class Model(nn.Module):
    def forward(self, x):
        return F.fold(F.unfold(x, 4, stride=4).relu(), (8, 12), 4, stride=4)


def get_inputs():
    return [torch.randn(BATCH, 3, 8, 12)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [FOLDED, UNPOOLED, SIDE_BY_SIDE])
def test_what_is_folded_and_unpooled_is_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, text)


@pytest.mark.parametrize("text", [FOLDED, UNPOOLED])
def test_nothing_of_it_is_left_to_torch(text: str, tmp_path: Path) -> None:
    assert not [limit for limit in describe_limits(brief_of(problem(tmp_path, text))) if "stays" in limit]


def test_windows_side_by_side_are_moved_and_nothing_is_added_up(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, SIDE_BY_SIDE))
    source = write(brief, first_choice(brief)).source
    assert source.count("@triton.jit") == 1 and "total" not in source
