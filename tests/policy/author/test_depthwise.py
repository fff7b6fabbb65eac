"""Windows over each channel by itself: several lines for each program, weights loaded once, and the order in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

_PROBLEM = """
BATCH, CHANNELS, HEIGHT, WIDTH = {sizes}


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = {conv}
        self.norm = {norm}

    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return [CHANNELS]
"""


def window(
    conv: str,
    body: str = "return self.conv(x)",
    *,
    sizes: str = "2, 3, 11, 40",
    shape: str = "BATCH, CHANNELS, HEIGHT, WIDTH",
    norm: str = "nn.Identity()",
) -> str:
    return _PROBLEM.format(conv=conv, body=body, sizes=sizes, shape=shape, norm=norm)


SEVEN = "nn.Conv2d(channels, channels, 7, padding=3, groups=channels)"
LINES = {
    "seven by seven": window(SEVEN),
    "without padding": window("nn.Conv2d(channels, channels, 5, groups=channels, bias=False)"),
    "padded in one direction": window("nn.Conv2d(channels, channels, (4, 3), padding=(3, 1), groups=channels)"),
    "lines of a sequence": window(
        "nn.Conv1d(channels, channels, 15, padding=7, groups=channels)",
        "return F.silu(self.conv(x.transpose(1, 2))).transpose(1, 2) + x",
        sizes="2, 40, 1, 13",
        shape="BATCH, WIDTH, CHANNELS",
    ),
    "means of neighbours": window("nn.AvgPool2d(5, stride=1, padding=2, count_include_pad=False)"),
    "with what is around it": window(SEVEN, "return x + torch.sigmoid(self.conv(x) * x.mean((2, 3), keepdim=True))"),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_program_computes_several_lines(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, LINES[kind]).source
    assert "groups = tl.cdiv(" in source and re.search(r"in tl\.static_range\(\d+\):", source)


OTHERS = {
    "every second place": window("nn.Conv2d(channels, channels, 7, stride=2, padding=3, groups=channels)"),
    "with gaps": window("nn.Conv2d(channels, channels, 5, dilation=2, padding=4, groups=channels)"),
    "short lines": window(SEVEN, sizes="2, 3, 40, 9"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_windows_keep_one_line(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, OTHERS[kind]).source
    assert "groups = tl.cdiv(" not in source


NORMED = window(
    SEVEN,
    "return self.norm(self.conv(x).permute(0, 2, 3, 1))",
    sizes="2, 48, 20, 40",
    norm="nn.LayerNorm(channels)",
)


def test_what_is_stored_between_kernels_lies_as_it_is_read(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, NORMED).source
    assert "tl.store(total_ptr + row * x_row_stride + line * lanes + lane, total + bias, mask=inside)" in source


IN_BLOCKS = window(
    "nn.Conv2d(channels, channels, 3, padding=1)",
    "return self.conv(F.silu(self.norm(x)))",
    sizes="2, 64, 24, 24",
    norm="nn.GroupNorm(8, channels)",
)


def test_a_long_row_is_turned_in_tiles(tmp_path: Path, nursery: Nursery) -> None:
    """A group's elements are read place by place and stored channel by channel, which no program does well by rows."""
    source = check_passes(tmp_path, nursery, IN_BLOCKS).source
    assert re.search(
        r"group_norm_silu_kernel\[\(triton\.cdiv\(channels, 64\), triton\.cdiv\(\w+, 64\), batch\)\]", source
    )


PER_TAP = window(
    "nn.Conv1d(channels, channels, 15, padding=7, groups=channels)",
    "return self.conv(torch.tanh(x))",
    sizes="2, 5, 1, 50",
    shape="BATCH, CHANNELS, WIDTH",
)


def test_a_costly_function_is_not_computed_for_each_tap(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, PER_TAP).source
    assert source.count("@triton.jit") == 2
    cheap = brief_of(problem(tmp_path, PER_TAP.replace("tanh", "relu")))
    assert write(cheap, first_choice(cheap)).source.count("@triton.jit") == 1


def in_a_loop(brief: Brief) -> Choice:
    """Return the choice in which only the taps within a line of the window are unrolled."""
    (one,) = drafts_of(brief, Choice())
    (kernel,) = one.kernels
    return Choice().with_tiles(kernel.key, next(t for t in kernel.alternatives if t.unrolled == 7 and t.lines > 1))


def test_only_the_taps_of_a_line_are_unrolled(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, LINES["seven by seven"], in_a_loop).source
    assert re.search(r"for step in range\(\d+\):\n +for column in tl\.static_range\(7\):", source)


def test_the_compiler_gets_few_taps_on_a_gpu(tmp_path: Path) -> None:
    for taps, lines in ((7, 2), (5, 4)):
        conv = f"nn.Conv2d(channels, channels, {taps}, padding={taps // 2}, groups=channels)"
        brief = full_size_brief(problem(tmp_path, window(conv, sizes="32, 192, 64, 64")))
        source = write(brief, first_choice(brief)).source
        assert f"groups = tl.cdiv(height, {lines})" in source and source.count("tl.store(") == lines
