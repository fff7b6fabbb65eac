"""Padding a tensor with its own elements is one own kernel, at every end and in every number of dimensions."""

from __future__ import annotations

from pathlib import Path

from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.writer import describe_limits
from triton_agent.tools.processes.zygotes import Nursery

PADDED = """
BATCH, CHANNELS, SIZE = 2, 3, 7


class Model(nn.Module):
    def forward(self, x, y):
        mirrored = F.pad(x, (2, 3, 0, 1), mode="reflect")
        repeated = F.pad(x, (0, 4, 2, 1), mode="replicate") * 2
        deep = F.pad(x[None], (1, 1, 0, 2, 1, 0), mode="replicate")
        return mirrored, repeated, F.pad(y, (3, 0), mode="reflect"), deep


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE), torch.randn(BATCH, CHANNELS, 2 * SIZE)]


def get_init_inputs():
    return []
"""


def test_elements_outside_are_those_that_torch_puts_there(tmp_path: Path, nursery: Nursery) -> None:
    assert describe_limits(check_passes(tmp_path, nursery, PADDED).brief) == []
