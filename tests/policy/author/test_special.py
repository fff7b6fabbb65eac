"""Rarer element-wise functions, and numbers in place of tensors, are fused into the kernel that uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.writer import describe_limits
from triton_agent.tools.processes.zygotes import Nursery

SPECIAL = """
ROWS, COLUMNS = 5, 13


class Model(nn.Module):
    def forward(self, x, y):
        share = torch.sigmoid(y)
        masked = x.masked_fill(y > 0, -torch.inf)
        return (
            torch.sinc(x) * torch.deg2rad(y) + torch.rad2deg(x),
            torch.logit(share) + torch.logit(x, 1e-3),
            torch.logaddexp(masked, masked) - torch.logaddexp2(x, y),
            torch.isneginf(masked) | torch.isposinf(x),
            torch.special.entr(share) + torch.special.xlog1py(x, share) * torch.special.ndtr(x),
            F.rrelu(x) * torch.log(torch.tensor(2.0)),
        )


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]
"""

QUANTISED = """
ROWS, COLUMNS = 5, 13


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("scale", torch.rand(columns) * 0.1 + 0.01)
        self.register_buffer("zero", torch.randint(-3, 4, (columns,), dtype=torch.int32))

    def forward(self, x):
        return torch.fake_quantize_per_channel_affine(x, self.scale, self.zero, 1, -128, 127)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
"""


@pytest.mark.parametrize("text", [SPECIAL, QUANTISED], ids=["functions", "to a grid"])
def test_rarer_functions_are_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    """The logarithm of the sum of two zeros is minus infinity, not NaN."""
    check_passes(tmp_path, nursery, text)


@pytest.mark.parametrize("text", [SPECIAL, QUANTISED], ids=["functions", "to a grid"])
def test_none_of_them_is_left_to_torch(text: str, tmp_path: Path) -> None:
    assert not describe_limits(brief_of(problem(tmp_path, text)))
