"""Kernels that take one element after another: products with few columns, scans along rows beside each other, and
windows of many taps. Results of a transposed convolution that are neighbours in memory are computed side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.policy.author.briefs import full_size_brief, on_target
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.tile.product_tiles import SHARED_BYTES, shared_bytes
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery

SUITE = Path(__file__).parents[3] / "benchmarks" / "problems"

_PROBLEM = """
{sizes}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {layer}

    def forward(self, x):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def text(body: str, *, layer: str = "", sizes: str = "BATCH, HEIGHT, WIDTH = 2, 7, 9", inputs: str = "") -> str:
    inputs = inputs or "torch.randn(BATCH, 8, HEIGHT, WIDTH)"
    return _PROBLEM.format(body=body, layer=layer or "pass", sizes=sizes, inputs=inputs)


def on_a_gpu(path: Path) -> Brief:
    """Return the brief that an H200 gives at full size."""
    brief = on_target(full_size_brief(parse_problem(str(path))), "cuda:90")
    return dataclasses.replace(brief, allow_library=False)


def cut(kind: str, tiles: Tiles) -> Callable[[Brief], Choice]:
    """Return a function that gives every kernel of this kind these tiles."""

    def choice(brief: Brief) -> Choice:
        made = first_choice(brief)
        for draft in drafts_of(brief, made):
            for kernel in draft.kernels:
                if kernel.kernel.kind == kind:
                    made = made.with_tiles(kernel.key, tiles)
        return made

    return choice


HALF = "torch.randn(BATCH, 8, HEIGHT, WIDTH).half()"
GROUPED = {
    "with its input added": text(
        "return torch.relu(self.conv(x) + x)", layer="self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=2)"
    ),
    "half precision": text(
        "return self.conv(x)", layer="self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=2).half()", inputs=HALF
    ),
    "a stride": text(
        "return self.conv(x)", layer="self.conv = nn.Conv2d(8, 12, 3, stride=(2, 1), groups=2, bias=False)"
    ),
    "one tap": text("return self.conv(x)", layer="self.conv = nn.Conv2d(8, 8, 1, groups=4)"),
    "along a sequence": text(
        "return self.conv(x.flatten(2))", layer="self.conv = nn.Conv1d(8, 8, 5, dilation=2, padding=4, groups=4)"
    ),
}


@pytest.mark.parametrize("kind", GROUPED)
def test_few_channels_are_multiplied_one_by_one(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    choice = cut("product", Tiles(rows=64, columns=8, inner=1, warps=4))
    source = check_passes(tmp_path, nursery, GROUPED[kind], choice).source
    assert "tl.dot" not in source and "for k in tl.static_range(" in source, source


def test_a_grouped_convolution_of_a_gpu_takes_single_elements() -> None:
    brief = on_a_gpu(SUITE / "convolutions" / "grouped_conv_residual.py")
    source = write(brief, first_choice(brief)).source
    assert "for tap in range(9):" in source and "tl.dot" not in source


SEQUENCE = "torch.randn(BATCH, LENGTH, WIDTH)"
SCANS = {
    "sums": "return x.cumsum(1) * 0.5",
    "logarithms": "return torch.logcumsumexp(x - F.logsigmoid(x).cumsum(1), dim=1)",
    "largest so far": "return x.cummax(1).values - x",
    "products along the first dimension": "return torch.sigmoid(x).cumprod(0)",
}


@pytest.mark.parametrize(("kind", "length"), [*((kind, 13) for kind in SCANS), ("logarithms", 3)])
def test_scans_go_step_by_step_where_rows_are_beside_each_other(
    kind: str, length: int, tmp_path: Path, nursery: Nursery
) -> None:
    choice = cut("rows", Tiles(rows=32, columns=1, looped=True, warps=1))
    sizes = f"BATCH, LENGTH, WIDTH = {length}, {length}, 21"
    written = text(SCANS[kind], sizes=sizes, inputs=SEQUENCE)
    source = check_passes(tmp_path, nursery, written, choice).source
    assert "for start in range(0, " in source and "tl.cumsum" not in source and "associative_scan" not in source


def test_costly_scans_of_many_rows_go_step_by_step_on_a_gpu() -> None:
    brief = on_a_gpu(SUITE / "scans" / "log_space_recurrence.py")
    assert "associative_scan" not in write(brief, first_choice(brief)).source


def test_a_window_of_many_taps_is_read_tap_by_tap(tmp_path: Path, nursery: Nursery) -> None:
    body = "return torch.sigmoid(self.conv(torch.stack([x.amax(1), x.mean(1)], 1)))"
    written = text(body, layer="self.conv = nn.Conv2d(2, 1, 7, padding=3)", sizes="BATCH, HEIGHT, WIDTH = 2, 11, 12")
    assert "for column in range(98):" in check_passes(tmp_path, nursery, written).source


LAYERS = {
    "a stride of eight": "self.conv = nn.ConvTranspose1d(8, 4, 16, stride=8, padding=4).to(torch.bfloat16)",
    "without padding": "self.conv = nn.ConvTranspose1d(8, 4, 4, stride=4, bias=False).to(torch.bfloat16)",
}


@pytest.mark.parametrize("kind", LAYERS)
def test_results_between_the_elements_of_the_input_are_computed_side_by_side(
    kind: str, tmp_path: Path, nursery: Nursery
) -> None:
    written = text(
        "return F.leaky_relu(self.conv(F.leaky_relu(x.flatten(2))))",
        layer=LAYERS[kind],
        inputs="torch.randn(BATCH, 8, HEIGHT, WIDTH).to(torch.bfloat16)",
    )
    check_passes(tmp_path, nursery, written)


def test_tiles_that_pointers_store_leave_room_for_the_stages_of_a_persistent_kernel() -> None:
    brief = on_a_gpu(SUITE / "blocks_language" / "dense_mixture_of_experts.py")
    found = [
        tiles
        for draft in drafts_of(brief, first_choice(brief))
        for kernel in draft.kernels
        if kernel.kernel.kind == "product"
        for tiles in (kernel.tiles, *kernel.alternatives)
        if tiles.described
    ]
    assert found
    assert all(shared_bytes(tiles) + 4 * tiles.rows * tiles.columns <= SHARED_BYTES for tiles in found)
