"""Masked-out elements are not read, and the remaining loads stay as wide as before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.processes.zygotes import Nursery

SQUARES = """
COUNT, SIZE = 3, 40


class Model(nn.Module):
    def forward(self, x, lengths):
        place = torch.arange(x.shape[-1], device=x.device)
        distance = place[:, None] - place[None, :]
        {body}


def get_inputs():
    return [torch.randn(COUNT, SIZE, SIZE), torch.randint(1, SIZE, (COUNT,))]


def get_init_inputs():
    return []
"""

NEAR = "return torch.softmax(x.masked_fill((distance < 0) | (distance > 5), float('-inf')), dim=-1)"
FAR = "return torch.where(2 * place[None, :] - place[:, None] >= 7, x, 0.5)"
SHORT = "return torch.where(place[:, None] < lengths[:, None, None], x, 0.0).sum(dim=1)"
USED = "return torch.where(distance > 2, x, 0.0) + x"


def source_of(folder: Path, body: str) -> str:
    return write(brief_of(problem(folder, SQUARES.format(body=body))), Choice()).source


def masks_of(source: str) -> list[str]:
    loads = re.findall(r"tl\.load\(\s*x_ptr.*?mask=(.*?)(?:, other|,?\s*\)\n|\)\.)", source, re.S)
    return [" ".join(mask.split()) for mask in loads]


@pytest.mark.parametrize("body", [NEAR, FAR])
def test_neighbours_that_are_read_together_share_an_answer(body: str, tmp_path: Path, nursery: Nursery) -> None:
    """A mask that changes between neighbouring elements would split a wide load into single elements."""
    source = check_passes(tmp_path, nursery, SQUARES.format(body=body)).source
    (mask,) = masks_of(source)
    assert "group" in mask and "// 8 * 8" in source, source
    assert not re.search(r"distance|shifted|is_", mask), mask


def test_rows_beyond_a_length_are_not_read(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, SQUARES.format(body=SHORT)).source
    (mask,) = masks_of(source)
    assert "inside & " in mask and "group" not in source, source


def test_what_is_used_elsewhere_is_read_everywhere(tmp_path: Path) -> None:
    assert masks_of(source_of(tmp_path, USED)) == ["inside"]


NIBBLES = """
ROWS, COLUMNS = 24, 40


class Model(nn.Module):
    def forward(self, packed, x):
        steps = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)
        return steps.float() * x


def get_inputs():
    return [torch.randint(0, 256, (ROWS, COLUMNS), dtype=torch.uint8), torch.randn(ROWS, 2 * COLUMNS)]


def get_init_inputs():
    return []
"""


def test_what_pieces_share_is_read_once_for_all(tmp_path: Path, nursery: Nursery) -> None:
    """Both halves of a byte come from one load, whose mask is constant over neighbouring elements."""
    source = check_passes(tmp_path, nursery, NIBBLES).source
    (mask,) = re.findall(r"tl\.load\(packed_ptr.*?mask=(.*?)\)", source)
    assert mask == "inside", source


OUTSIDE = """
ROWS, COLUMNS = 3, 40


class Model(nn.Module):
    def forward(self, x):
        return F.pad(x, (1, 1, 2, 0))[0] + F.pad(x, (2, 0))[:, 1].sum()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""


def test_a_place_outside_of_a_tensor_is_not_read(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, OUTSIDE)
