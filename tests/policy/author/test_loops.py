"""Loops over steps in Python: one kernel goes through all of them, where the steps are alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.test_author import check_passes

from triton_agent.tools.processes.zygotes import Nursery

_PROBLEM = """
STEPS, ROWS, WIDTH = {steps}, 5, 40


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(0.1 * torch.randn({width}))

    def forward(self, x, state):
{body}


def get_inputs():
    return [torch.randn({shape}), torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
"""


def loop(body: str, *, steps: int = 13, shape: str = "STEPS, ROWS, WIDTH", width: str = "WIDTH") -> str:
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    return _PROBLEM.format(body=lines, steps=steps, shape=shape, width=width)


AVERAGE = """
keep = torch.sigmoid(self.rate)
found = []
for now in x:
    state = keep * state + (1 - keep) * now
    found.append(state)
return torch.stack(found)
"""
BACKWARDS = """
gone = x[-1]
found = [gone]
for step in reversed(range(len(x) - 1)):
    gone = x[step] + 0.9 * torch.tanh(gone) * (x[step] > 0)
    found.append(gone)
return torch.stack(found[::-1]) + state
"""
SUMMED = """
found = []
for step in range(x.shape[1]):
    state = torch.exp(-self.rate.abs()) * state + x[:, step]
    found.append((state * x[:, step]).sum(-1))
return torch.stack(found, dim=1), state
"""
JOINED = """
found = []
for step in range(x.shape[1]):
    state = torch.maximum(state * 0.5, x[:, step])
    found.append(state[:, None])
return torch.cat(found, dim=1)
"""
HALF_A_STEP = """
found = []
for now in x.half():
    state = (state.half() * 0.75 + now).float()
    found.append(state)
return torch.stack(found)
"""

LOOPS = {
    "an average": loop(AVERAGE),
    "an average of few steps": loop(AVERAGE, steps=9),
    "an average of rounds without a rest": loop(AVERAGE, steps=16),
    "backwards, from the last value": loop(BACKWARDS),
    "sums of each state, and the last one": loop(SUMMED, shape="ROWS, STEPS, WIDTH"),
    "states that are joined": loop(JOINED, shape="ROWS, STEPS, WIDTH"),
    "states in half precision between steps": loop(HALF_A_STEP),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_over_steps_is_one_kernel(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, LOOPS[kind]).source
    assert "    for column in range(" in source or "    for start in range(0, " in source
    assert source.count("@triton.jit") <= 3


UNLIKE = {
    "a single element for each step": """
total, found = state[0, 0], []
for now in x[:, 0, 0]:
    total = total * 0.5 + now
    found.append(total)
return torch.stack(found)
""",
    "each step knows its number": """
found = []
for step in range(13):
    state = state * 0.5 + x[step] * step
    found.append(state)
return torch.stack(found)
""",
    "steps in another order": """
found = []
for step in [0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10, 11]:
    state = torch.tanh(state + x[step])
    found.append(state)
return torch.stack(found)
""",
    "the state of two steps before": """
earlier, found = x[0], []
for now in x:
    earlier, state = state, torch.tanh(state * 0.5 + earlier + now)
    found.append(state)
return torch.stack(found)
""",
    "a step gives what lies before its state": """
found = []
for now in x:
    sum = state + now
    state = torch.tanh(sum)
    found.append(sum)
return torch.stack(found)
""",
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_other_loops_stay_unrolled(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, loop(UNLIKE[kind])).source
    assert "for column in range(" not in source
