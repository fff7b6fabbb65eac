"""Losses of torch are decomposed, with their weights, ignored classes and reductions."""

from __future__ import annotations

from pathlib import Path

from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.writer import describe_limits
from triton_agent.tools.processes.zygotes import Nursery

MARGINS = """
ROWS, CLASSES = 7, 9


class Model(nn.Module):
    def forward(self, x, target, weight):
        each = F.multi_margin_loss(x, target, reduction="none")
        return each, F.multi_margin_loss(x, target, p=2, margin=0.5, weight=weight)


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,)), torch.rand(CLASSES)]
"""


def test_margins_between_classes_are_right(tmp_path: Path, nursery: Nursery) -> None:
    assert not describe_limits(check_passes(tmp_path, nursery, MARGINS).brief)
