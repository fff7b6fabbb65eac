"""Interpolation by own kernels, to given sizes and by given factors, reads the same elements as torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import describe_limits, write
from triton_agent.tools.processes.zygotes import Nursery

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


CUBIC = """
BATCH, HEIGHT, WIDTH = 2, 6, 7


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2, mode="bicubic")
        return up + torch.tanh(self.conv(up)), F.interpolate(x, size=(9, 5), mode="bicubic", align_corners=True)


def get_inputs():
    return [torch.randn(BATCH, 3, HEIGHT, WIDTH)]
"""


@pytest.mark.slow
def test_four_neighbours_are_weighed_as_torch_does_also_behind_a_product(tmp_path: Path, nursery: Nursery) -> None:
    """Behind a product, an index that depends on the row is a vector in the lookup and a tile in the arithmetic."""
    check_passes(tmp_path, nursery, CUBIC)


TURNED = """
BATCH, HEIGHT, WIDTH = 2, 6, 9


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.localise = nn.Linear(5, 6)

    def forward(self, x, z):
        theta = self.localise(z).view(-1, 2, 3)
        grids = [F.affine_grid(theta, x.shape, align_corners=corners) for corners in (False, True)]
        return F.grid_sample(x, grids[0], align_corners=False), grids[1] * 2.0


def get_inputs():
    return [torch.randn(BATCH, 3, HEIGHT, WIDTH), torch.randn(BATCH, 5)]
"""


def test_places_that_a_matrix_says_are_computed_where_they_are_read(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, TURNED))
    assert not describe_limits(brief)
    assert write(brief, first_choice(brief)).source.count("@triton.jit") == 3


@pytest.mark.slow
def test_an_image_turned_by_a_matrix_is_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, TURNED)
