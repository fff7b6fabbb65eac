"""Own kernels for diagonals, distances between rows, rotations and slice assignments."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes, plain

from triton_agent.policy.author.writer import describe_limits
from triton_agent.tools.processes.zygotes import Nursery

SQUARES = """
BATCH, SIZE = 3, 7


class Model(nn.Module):
    def forward(self, x, row):
        plain = x[0] - torch.eye(x.shape[1], dtype=x.dtype)
        moved = torch.diag_embed(row, offset=1), torch.diag(row[0], -2), x.diagonal(-1, 1, 2), torch.diag(x[1], 1)
        return plain, plain.trace(), *moved, torch.rot90(x, 1, (1, 2)), torch.rot90(x, -1, (2, 0)), torch.roll(x, 5)


def get_inputs():
    return [torch.randn(BATCH, SIZE, SIZE), torch.randn(BATCH, SIZE)]


def get_init_inputs():
    return []
"""

DISTANCES = """
ROWS, OTHERS, WIDTH = 40, 9, 6


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.forms = nn.Bilinear(width, width, 5)
        self.linear = torch.nn.utils.parametrizations.weight_norm(nn.Linear(width, 4))

    def forward(self, x, y):
        few = [torch.cdist(x[None, :9], y[None], p=p) for p in (1.0, 2.0, 3.0, float("inf"))]
        crossed = torch.linalg.cross(x[:, :3], x[:, 3:6])
        return torch.cdist(x, y), *few, self.forms(x[:9], y), self.linear(x), crossed


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(OTHERS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""

WRITES = plain(
    "y = x.clone()\n"
    "        y[:, 1::3] = x[:, 1::3].exp()\n"
    "        y[2:5, ::2] *= 2\n"
    "        y[y < -1] = 0.0\n"
    "        z = torch.zeros_like(x)\n"
    "        z[:, [3, -1]] = x[:, :2]\n"
    "        z[torch.arange(len(x)), x.argmax(1)] = 7.0\n"
    "        z[0] = y[1]\n"
    "        return y, z"
)

DIAGONALS = """
BATCH = 2
SIZE = 7
WIDTH = 9


class Model(nn.Module):
    def forward(self, x, y):
        filled = x[0].clone().fill_diagonal_(0.5)
        raised = x.clone()
        raised.diagonal(dim1=-2, dim2=-1).add_(0.5)
        wide = torch.relu(y).clone()
        wide.diagonal().copy_(x[0].diagonal())
        tall = torch.zeros_like(y.t().contiguous())
        tall.diagonal().copy_(x[0].diagonal())
        turned = torch.relu(y.t()).clone()
        turned.diagonal().copy_(x[0].diagonal())
        turned[2] = 4.0
        square = x[0].t().exp()
        square[1, 2:] = 3.0
        blocks = torch.block_diag(x[0], y * 2, x[0, 0])
        return filled, raised, wide, tall, turned, square, blocks, torch.addr(y, x[0, 0], y[1], beta=0.5)


def get_inputs():
    return [torch.randn(BATCH, SIZE, SIZE), torch.randn(SIZE, WIDTH)]
"""

KINDS = {"diagonals": DIAGONALS, "squares": SQUARES, "distances and forms": DISTANCES, "writes into parts": WRITES}


@pytest.mark.parametrize(
    "kind", ["squares", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "squares")]
)
def test_the_first_file_is_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, KINDS[kind])


def test_nothing_of_it_is_left_to_torch(tmp_path: Path) -> None:
    for text in KINDS.values():
        assert [limit for limit in describe_limits(brief_of(problem(tmp_path, text))) if "torch" in limit] == []
