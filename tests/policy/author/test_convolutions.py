"""All forms of convolution: tap by tap over contiguous channels, or channel by channel when there are few channels."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.processes.zygotes import Nursery

LAYER = """
BATCH = 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, x):
        return {around}


def get_inputs():
    return [torch.randn(BATCH, {shape}){options}]


def get_init_inputs():
    return []
"""

BLOCK = """
BATCH, CHANNELS, SIZE = 2, 20, 6


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(2 * channels)
        self.second = nn.Conv2d(2 * channels, channels, 3, padding=1)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(y) + x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
"""

FORMS = {
    "padded": ("nn.Conv2d(20, 12, 3, padding=1)", "20, 7, 5"),
    "strided_and_dilated": ("nn.Conv2d(17, 6, 3, stride=2, padding=2, dilation=2)", "17, 9, 8"),
    "without_padding": ("nn.Conv2d(18, 5, (2, 3))", "18, 5, 6"),
    "single_tap": ("nn.Conv2d(33, 7, 1)", "33, 5, 4"),
    "grouped": ("nn.Conv2d(48, 9, 3, padding=1, groups=3)", "48, 4, 5"),
    "few_channels": ("nn.Conv2d(3, 8, 3, stride=2, padding=1)", "3, 9, 9"),
    "depthwise": ("nn.Conv2d(5, 5, 3, padding=1, groups=5)", "5, 6, 7"),
    "transposed": ("nn.ConvTranspose2d(18, 6, 4, stride=2, padding=1)", "18, 3, 4"),
    "transposed_unevenly": ("nn.ConvTranspose2d(18, 6, 3, stride=2, padding=1, output_padding=1)", "18, 3, 4"),
    "transposed_with_gaps": ("nn.ConvTranspose1d(5, 6, 2, stride=3)", "5, 7"),
    "one_dimension": ("nn.Conv1d(19, 7, 5, padding=4, dilation=2)", "19, 21"),
    "three_dimensions": ("nn.Conv3d(16, 4, 3, padding=1)", "16, 3, 4, 3"),
}


def layer(name: str, around: str = "self.layer(x)", options: str = "") -> str:
    made, shape = FORMS[name]
    return LAYER.format(layer=made, shape=shape, around=around, options=options)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_passes(name: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, layer(name))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_passes(dtype: str, tmp_path: Path, nursery: Nursery) -> None:
    text = layer("padded", options=f".to(torch.{dtype})").replace(
        "= nn.Conv2d(20, 12, 3, padding=1)", f"= nn.Conv2d(20, 12, 3, padding=1).to(torch.{dtype})"
    )
    check_passes(tmp_path, nursery, text)


@pytest.mark.ci
@pytest.mark.slow
def test_a_block_of_two_convolutions_with_a_shortcut_passes(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, BLOCK)


def test_steps_go_tap_by_tap_through_channels_that_lie_side_by_side(tmp_path: Path) -> None:
    source = write(brief := brief_of(problem(tmp_path, layer("padded"))), first_choice(brief)).source
    assert "for step in range(0, 3 * blocks)" in source, "three taps and their channels lie side by side"
    assert 'weight_by_taps(self, "layer.weight", self.layer.weight)' in source
    assert "k[None, :] * " not in source and "k[:, None] * " not in source, "elements of a step lie apart"


FEW_CHANNELS_BY_ARGUMENT = """
    CHANNELS = 9
    class Model(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.layer = nn.Conv3d(channels, 12, 3, padding=1)
        def forward(self, x):
            return self.layer(x)
    def get_inputs():
        return [torch.randn(2, CHANNELS, 4, 6, 8)]
    def get_init_inputs():
        return [CHANNELS]
"""


def test_few_channels_lie_side_by_side_however_many_they_are(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, FEW_CHANNELS_BY_ARGUMENT).source
    assert "wide_channels = -(-channels // 4) * 4" in source


def test_strides_that_decide_the_width_of_loads_are_known_to_the_compiler(tmp_path: Path) -> None:
    """Rows of 36 numbers can be loaded four at a time, which the compiler knows of multiples of 16 by itself only."""
    linear = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    linear += "        self.layer = nn.Linear(36, 32)\n    def forward(self, x):\n        return self.layer(x)\n"
    spec = problem(tmp_path, f"{linear}def get_inputs():\n    return [torch.randn(64, 36)]\n")
    source = write(brief := brief_of(spec), first_choice(brief)).source
    assert "    inner: tl.constexpr,\n" in source and "    rows: tl.constexpr,\n" not in source


def test_what_lies_between_two_convolutions_is_laid_out_by_the_first(tmp_path: Path) -> None:
    """Only the input of the block is copied. The first convolution stores its result in the layout that the second
    reads.
    """
    text = BLOCK.replace("self.norm(self.first(x))", "self.first(x)")
    source = write(brief := brief_of(problem(tmp_path, text)), first_choice(brief)).source
    assert source.count("@triton.jit") == 3
    assert source.count("for step in range(") == 2


def test_float32_is_multiplied_as_torch_does_on_a_gpu(tmp_path: Path) -> None:
    """By default cuDNN computes float32 convolutions in TF32, while other float32 products stay exact."""
    brief = dataclasses.replace(brief_of(problem(tmp_path, layer("padded"))), device="cuda")
    assert 'input_precision="tf32")' in write(brief, first_choice(brief)).source
    exact = dataclasses.replace(first_choice(brief), exact=True)
    assert 'input_precision="ieee")' in write(brief, exact).source


PATCHES = """
BATCH, SIZE, WIDTH = 2, 12, 20


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.norm(torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1))


def get_inputs():
    return [torch.randn(BATCH, 3, SIZE, SIZE)]


def get_init_inputs():
    return [WIDTH]
"""

GROUPS_OF_FEW = """
BATCH, SIZE = 2, 10


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(20, 24, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(6, 24)

    def forward(self, x):
        return F.max_pool2d(torch.tanh(self.norm(self.convolution(x))), 2)


def get_inputs():
    return [torch.randn(BATCH, 20, SIZE, SIZE)]


def get_init_inputs():
    return []
"""


def test_what_a_norm_over_channels_reads_lies_channel_by_channel(tmp_path: Path, nursery: Nursery) -> None:
    """The rows of patches, as in a vision transformer, would else be gathered element by element."""
    source = check_passes(tmp_path, nursery, PATCHES).source
    assert re.search(r"tl\.store\(\s*total_ptr \+ m\[:, None\] \* columns \+ n\[None, :\],", source), source


def test_what_a_norm_of_a_few_channels_reads_lies_pixel_by_pixel(tmp_path: Path, nursery: Nursery) -> None:
    """Four channels fill a quarter of a memory line, so four programs would read each."""
    source = check_passes(tmp_path, nursery, GROUPS_OF_FEW, Choice(chained=False)).source
    assert re.search(r"tl\.store\(\s*product_ptr \+ m\[:, None\] \+ \w+\[None, :\],", source), source
