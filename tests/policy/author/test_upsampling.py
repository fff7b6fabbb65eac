"""Sizes are changed by interpolation in own kernels, by factors as by sizes, and each element is where torch has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.writer import describe_limits
from triton_agent.tools.isolate.processes import Nursery

INTERPOLATED = """
BATCH, CHANNELS, SIZE = 2, 3, 6


class Model(nn.Module):
    def forward(self, x, y):
        odd = F.interpolate(x, size=(9, 5), mode="bilinear", align_corners=False)
        corners = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        nearest = F.interpolate(x, scale_factor=1.5, mode="nearest")
        exact = F.interpolate(x, size=(7, 4), mode="nearest-exact") * 2
        line = F.interpolate(y, scale_factor=2.5, mode="linear", align_corners=False) + 1
        return odd, corners, nearest, exact, line, F.interpolate(x[None], scale_factor=(1, 2, 2), mode="trilinear")[0]


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE), torch.randn(BATCH, CHANNELS, 2 * SIZE)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_interpolated_elements_are_those_of_torch(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, INTERPOLATED)


def test_no_interpolation_is_left_to_torch(tmp_path: Path) -> None:
    assert describe_limits(brief_of(problem(tmp_path, INTERPOLATED))) == []
