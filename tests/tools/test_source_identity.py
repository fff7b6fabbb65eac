"""Files that differ only in names and layout have the same identity; any change of behaviour gives another one."""

from __future__ import annotations

import pytest

from triton_agent.tools.candidate.identity import structure_of

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "# a comment\n" + text,
        lambda text: '"""A docstring."""\n' + text,
        lambda text: text.replace("    ", "  "),
        lambda text: text.replace("scale", "double"),
        lambda text: text.replace("BLOCK", "WIDTH"),
        lambda text: text.replace("x_ptr", "source").replace("at", "where").replace("(self, x)", "(self, x)"),
    ],
)
def test_names_comments_and_layout_do_not_count(change) -> None:
    assert structure_of(change(KERNEL)) == structure_of(KERNEL)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("128", "256"),
        lambda text: text.replace("* 2.0", "* 3.0"),
        lambda text: text.replace("at < n", "at <= n"),
        lambda text: text.replace("tl.load(x_ptr", "tl.load(y_ptr"),
        lambda text: text.replace("empty_like", "zeros_like"),
        lambda text: text.replace("ModelNew", "Model"),
    ],
)
def test_what_runs_counts(change) -> None:
    assert structure_of(change(KERNEL)) != structure_of(KERNEL)


def test_what_is_no_file_is_known_by_its_text() -> None:
    assert structure_of("def (") == structure_of("def (")
    assert structure_of("def (") != structure_of("def [")
    assert structure_of("x = '\ud800'") == structure_of("x = '\ud800'")
