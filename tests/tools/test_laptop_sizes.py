"""Modules with sizes too large for the interpreter are scaled down to sizes that it can run, if possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_agent.tools.checker import prepare
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.reference.footprint import FULL_SIZE, INTERPRETER
from triton_agent.tools.reference.peak_memory import predicted_peak
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.scaling import FIXED_PARAMETERS_AT_MOST, scaled_for_interpreter

OWN = """
import torch
from torch import nn

class Wide(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.up = nn.Linear(width, width)
    def forward(self, x):
        return torch.relu(self.up(x))

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
    def forward(self, x):
        return torch.relu(self.conv(x))

class Attention(nn.Module):
    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, steps, width))

class Halved(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width, bias=False)
        self.down = nn.Linear(width, width, bias=False)
        self.down.weight = self.up.weight
        self.half()
    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))

class Kept(nn.Module):
    def forward(self, x):
        y = torch.exp(x)
        z = y + 1
        del y
        return z * 2
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def problem(own: Path, name: str, shape: str, init: str | None = None) -> ProblemSpec:
    return parse_problem(f"{own}:{name}", init=init, inputs=(f"f32[{shape}]",))


@pytest.mark.parametrize(
    ("name", "shape", "kept"),
    [("Wide", "4096,1024", "1024]"), ("Attention", "2,4096,256", "256]")],
)
def test_parameters_that_no_size_changes_stay_and_the_rest_is_scaled_down(
    own: Path, name: str, shape: str, kept: str
) -> None:
    found, limits = scaled_for_interpreter(problem(own, name, shape), 0)
    assert found is not None and "inputs 4096" in found.variant.constants
    assert found.sentence.startswith(f"scaled down: f32[{shape}] -> f32[")
    assert kept in found.sentence.split(" -> ")[1]
    assert INTERPRETER.elements_at_most < limits.elements_at_most < INTERPRETER.elements_at_most + (1 << 21)


@pytest.mark.parametrize(("name", "shape", "init"), [("Conv", "8,3,224,224", None), ("Wide", "64,4096", "4096")])
def test_what_can_be_scaled_down_whole_keeps_the_interpreters_own_limits(
    own: Path, name: str, shape: str, init: str | None
) -> None:
    found, limits = scaled_for_interpreter(problem(own, name, shape, init), 0)
    assert found is not None and limits == INTERPRETER
    assert ("in the constructor's arguments" in found.sentence) == (init is not None)


def test_more_parameters_than_the_interpreter_can_do_are_not_tried(own: Path) -> None:
    own.write_text(OWN.replace("width=1024", "width=8192"))
    assert FIXED_PARAMETERS_AT_MOST < 8192**2
    found, limits = scaled_for_interpreter(problem(own, "Wide", "4,8192"), 0)
    assert found is None and limits == INTERPRETER


def test_peak_counts_what_is_alive_at_one_time_and_takes_no_memory(own: Path) -> None:
    size = 4 * 65536 * 65536
    found = predicted_peak(load(problem(own, "Kept", "65536,65536")))
    assert (found.input_bytes, found.parameter_bytes, found.peak_bytes) == (size, 0, 3 * size)


def test_a_constructor_that_casts_its_parameters_is_predicted_too(own: Path) -> None:
    """On fake tensors such a cast fails, so the parameters are made for real and the call takes no memory."""
    found = predicted_peak(load(parse_problem(f"{own}:Halved", inputs=["f16[4194304,1024]"])))
    given = 2 * 4194304 * 1024
    assert found.input_bytes == given and found.parameter_bytes == 2 * (1024 * 1024 + 2 * 1024)
    assert 3 * given <= found.peak_bytes <= 4 * given


@pytest.mark.parametrize(
    ("layer", "shape", "copied"),
    [
        ("Conv2d(8, 16, 3, padding=1)", "4,8,256,256", ("input",)),
        ("Conv2d(8, 16, 1)", "4,8,256,256", ()),
        ("Conv2d(8, 8, 3, padding=1, groups=8)", "4,8,256,256", ()),
        ("Conv3d(8, 16, 3, padding=1)", "1,8,64,64,64", ("input", "output")),
        ("ConvTranspose2d(8, 16, 2, stride=2)", "4,8,256,256", ("input", "output")),
    ],
)
def test_peak_counts_the_copies_that_cudnn_makes_for_convolutions(
    own: Path, layer: str, shape: str, copied: tuple[str, ...]
) -> None:
    own.write_text(f"import torch\nclass One(torch.nn.{layer.partition('(')[0]}):\n    pass\n")
    spec = parse_problem(f"{own}:One", init=layer.partition("(")[2][:-1], inputs=[f"f32[{shape}]"])
    found = predicted_peak(load(spec))
    model, (given,) = load(spec).make_model(0), load(spec).make_inputs(0)
    size_of = {"input": given.nbytes, "output": model(given).nbytes}
    expected = sum(size_of.values()) + found.parameter_bytes + sum(size_of[name] for name in copied)
    assert found.peak_bytes == expected


def test_authors_are_shown_the_graph_at_the_sizes_as_given_where_a_cpu_can_run_it(own: Path) -> None:
    """The head width is 16 at all scaled sizes but 64 as given, so an author must not write it as a constant."""
    spec = parse_problem(f"{own}:Attention", init="256, 4", inputs=["f32[8,128,256]"])
    call, *others = prepare._near_given_sizes(spec, train=False)
    assert call.graph.sources()["x0"].shape == (8, 128, 256) and not others
    huge = parse_problem(f"{own}:Wide", init="8192", inputs=["f32[64,512,8192]"])
    smaller, given = [call.graph.sources()["x0"].numel for call in prepare._near_given_sizes(huge, train=False)]
    assert smaller <= FULL_SIZE.elements_at_most < given == 64 * 512 * 8192, "the given sizes on fake tensors"


def test_a_constructor_that_casts_its_parameters_is_shown_as_given(own: Path) -> None:
    huge = parse_problem(f"{own}:Halved", init="8192", inputs=["f16[64,512,8192]"])
    smaller, given = [call.graph.sources()["x0"].numel for call in prepare._near_given_sizes(huge, train=False)]
    assert smaller < given == 64 * 512 * 8192
