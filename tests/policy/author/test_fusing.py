"""Fusion of former separate kernels: short reductions, rows read by other kernels, values stored along the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.processes.zygotes import Nursery

MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("taps", torch.tensor([0.25, 0.5, 0.25]))

    def forward(self, {arguments}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""

IMAGE, ROWS, HALVES = ("x", "torch.randn(3, 4, 18, 21)"), ("x", "torch.randn(6, 12, 33)"), ("x", "torch.randn(6, 40)")
FEW = ("x", "torch.randn(150, 8)")
STATE = ("state, q, k", "torch.randn(3, 20, 24), torch.randn(3, 20), torch.randn(3, 20)")
BODIES = {
    "pooled": (IMAGE, "return F.max_pool2d(x, 2) * 2 - F.avg_pool2d(x, 3, 1, 1)[..., ::2, ::2][..., :9, :10]", 1),
    "pooled twice": (IMAGE, "return F.avg_pool2d(F.max_pool2d(x, 3, 2, 1, dilation=2), 3, 1, 1) + 1", 2),
    "padded and summed": (IMAGE, "return x - F.pad(x, (1, 1)).unfold(-1, 3, 1).mul(self.taps).sum(-1)", 1),
    "pooled rows": (IMAGE, "return F.avg_pool2d(x, 2).mean((2, 3))", 1),
    "stacked": (ROWS, "return torch.stack([x, x.exp(), x.sigmoid()]).amin(0) + (self.taps ** 2).sum()", 1),
    "used widely": (
        ROWS,
        "return x.unflatten(1, (3, -1)).sum(1).sum(-1)[:, None] * torch.ones(6, 9, 4, device=x.device)",
        2,
    ),
    "other rows": (
        HALVES,
        "a, b = x.chunk(2)\n        return (a - b) * b.std(1, keepdim=True) / a.std(1, keepdim=True)",
        1,
    ),
    "stored and summed": (ROWS, "y = torch.relu(x) * 2\n        return y, y.sum(-1)", 1),
    "stored and summed across": (
        STATE,
        "state = 0.9 * state + k[..., None]\n        return (q[..., None] * state).sum(-2), state",
        1,
    ),
    "share of a few": (
        FEW,
        "found = x.softmax(-1).topk(2, -1).values\n        return found / found.sum(-1, keepdim=True)",
        1,
    ),
    "computed beside a sum": (ROWS, "return x * 2 + self.taps[0], (x - x.exp()).sum(-1)", 1),
    "computed beside sums across": (ROWS, "return x * 2 + self.taps[0], (x - x.exp()).sum(0)", 2),
    "computed beside one long row": (HALVES, "return x * 2 + self.taps[0], (x - x.exp()).sum()", 1),
    "joined in place": (ROWS, "return torch.cat([x.amax(-1), x.mean(-1) * 2, x[..., 3]], 1)", 2),
    "joined and scaled": (ROWS, "return torch.stack([x.sum(-1), x.std(-1)], 1) * self.taps[1] + 1", 1),
    "joined and returned": (ROWS, "y = x.mean(-1)\n        return torch.cat([y, y.exp()], 1), y, x.new_ones(2)", 2),
    "joined twice over": (
        IMAGE,
        "y = torch.cat([F.max_pool2d(x, 5, 1, 2), x], 1)\n        return torch.cat([y.mT, y.mT.amax(1, True)], 1)",
        3,
    ),
    "stored and joined": (ROWS, "y = torch.softmax(x, -1)\n        return y, (y * y.log()).sum(-1), y.mT + 1.0", 2),
}
"""The input, the body of the forward, and the expected number of kernels."""


def module(kind: str) -> str:
    (arguments, inputs), body, _ = BODIES[kind]
    return MODULE.format(arguments=arguments, inputs=inputs, body=body)


@pytest.mark.parametrize("kind", BODIES)
def test_one_kernel_takes_it_in_and_is_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, module(kind)).source
    assert source.count("@triton.jit\ndef ") - source.count("def take_") == BODIES[kind][-1], source


def test_a_window_asks_only_where_it_may_leave_the_image(tmp_path: Path) -> None:
    source = write(brief_of(problem(tmp_path, module("padded and summed"))), Choice()).source
    masks = [line for line in source.splitlines() if "mask=" in line and "tl.load(x_ptr" in line]
    assert sum("& (" in mask for mask in masks) == 2, source


LARGE = """
class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("shape", "body", "kernels"),
    [
        ("64, 32, 128, 128", "y = F.max_pool2d(x, 2)\n        return y.sum((2, 3)), torch.softmax(y, 1)", 2),
        ("8192, 128", "y = torch.relu(x)\n        return y, y.sum(0)", 3),
        ("8192, 128", "return x * 2, x.exp().sum(1)", 1),
        ("8192, 128", "return x * 2, x.exp().sum()", 3),
    ],
)
def test_what_is_long_is_computed_once_and_in_parts(shape: str, body: str, kernels: int, tmp_path: Path) -> None:
    """A large window that two kernels read is stored. A reduction that is split into parts stores no elements."""
    source = write(full_size_brief(problem(tmp_path, LARGE.format(shape=shape, body=body))), Choice()).source
    assert source.count("_kernel[") == kernels, source


TWO_STATES = """
BATCH, SIZE = 2, 20
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.tensor([[[0.25, -0.5, 0.25]]]))
    def spread(self, x):
        return F.conv1d(F.pad(x, (1, 1), mode="circular"), self.kernel)
    def forward(self, u, v):
        for _ in range(3):
            reacted = u * v
            u, v = u + self.spread(u) - reacted, v + self.spread(v) + reacted
        return torch.cat([u, v], dim=1)
def get_inputs():
    return [torch.rand(BATCH, 1, SIZE), torch.rand(BATCH, 1, SIZE)]
"""


def test_two_kernels_never_wait_for_each_other(tmp_path: Path, nursery: Nursery) -> None:
    """A kernel that stores an earlier value along the way waits for its other loads, too."""
    check_passes(tmp_path, nursery, TWO_STATES)


def test_a_stencil_of_a_stencil_stores_what_it_would_compute_at_many_places(tmp_path: Path) -> None:
    """Each element of three steps depends on 49 places, each of which is one of nine pieces of a padded image."""
    text = TWO_STATES.replace("[[[0.25, -0.5, 0.25]]]", "[[[[0.0, 0.2, 0.0], [0.2, -0.8, 0.2], [0.0, 0.2, 0.0]]]]")
    text = text.replace("conv1d", "conv2d").replace("(1, 1)", "(1, 1, 1, 1)").replace("1, SIZE)", "1, SIZE, SIZE)")
    source = write(brief_of(problem(tmp_path, text)), Choice()).source
    assert len(source) < 50_000
