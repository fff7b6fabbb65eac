"""Regression tests for faults found in users' files, each with the smallest module that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes, plain

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.processes.zygotes import Nursery

SHORT_ROWS = """
BATCH, WIDTH = 3, 40


class Model(nn.Module):
    def forward(self, x):
        place = torch.arange(5, device=x.device)[:, None]
        decay = 0.9 ** place.to(x.dtype)
        return torch.cumsum(x / decay, 1) * decay / torch.sqrt((place + 1).to(x.dtype))


def get_inputs():
    return [torch.randn(BATCH, 5, WIDTH)]


def get_init_inputs():
    return []
"""

HEADS = """
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 24, 3


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.packed = nn.Linear(width, 3 * width, bias=False).to(torch.{dtype})

    def forward(self, x):
        query, key, value = self.packed(x).chunk(3, dim=-1)
        return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (query, key, value)]


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH).to(torch.{dtype})]


def get_init_inputs():
    return [WIDTH]
"""

UNROLLED = """
BATCH, STEPS, WIDTH = 3, 4, 18


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x):
        state, states = x.new_zeros(x.shape[0], x.shape[2]), []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return torch.stack(states, 1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""

LARGEST = {
    "subtracted": "return torch.relu(x - x.amax(-1, keepdim=True))",
    "pooled": "return F.max_pool1d(x, 3, padding=1)",
    "pooled_evenly": "return F.adaptive_max_pool1d(x, 5)",
    "smallest": "return x.amin(0)",
}


def test_positions_in_short_rows_are_computed_with(tmp_path: Path, nursery: Nursery) -> None:
    """A Python loop counts the elements of a short row, and its counter is a plain int in the interpreter."""
    source = check_passes(tmp_path, nursery, SHORT_ROWS).source
    assert "for column in range(" in source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_heads_of_a_packed_projection_have_its_dtype(dtype: str, tmp_path: Path, nursery: Nursery) -> None:
    """A product whose result is read only through views is stored in the dtype that the operator returns."""
    text = HEADS.replace("{dtype}", dtype)
    source = check_passes(tmp_path, nursery, text).source
    assert "torch.float32" not in source


def test_the_inputs_of_all_steps_of_a_cell_are_multiplied_at_once(tmp_path: Path, nursery: Nursery) -> None:
    apart = Choice(chained=False)
    source = check_passes(tmp_path, nursery, UNROLLED, apart).source
    launches = source[source.index("class ModelNew") :]
    assert launches.count("self.cell.weight_ih,") == 1 and launches.count("self.cell.weight_hh,") == 4


@pytest.mark.parametrize("name", LARGEST)
def test_nan_comes_out_of_maxima(name: str, tmp_path: Path, nursery: Nursery) -> None:
    text = plain(LARGEST[name])
    source = check_passes(tmp_path, nursery, text).source
    assert "tl.max(" not in source and "tl.min(" not in source, source
    assert "PropagateNan.ALL" in source


def test_a_softmax_takes_the_plain_maximum(tmp_path: Path) -> None:
    """The sum of exponentials is NaN anyway, and a maximum that propagates NaN is slower."""
    source = write(
        brief := brief_of(problem(tmp_path, plain("return torch.softmax(x, -1)"))), first_choice(brief)
    ).source
    assert "tl.max(" in source and "PropagateNan" not in source
