"""Recurrent layers: one kernel for all steps of a layer in one direction, whatever their number."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.author.briefs import full_size_brief, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.writer import drafts_of
from triton_agent.tools.processes.zygotes import Nursery


def layers(made: str, forward: str, inputs: str) -> str:
    return f"""
BATCH, STEPS = 3, 4
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {made}
        self.last = nn.Linear(10, 5)
    def forward(self, {forward}

def get_inputs():
    return {inputs}
"""


KINDS = {
    "an LSTM with given states": layers(
        "nn.LSTM(7, 10, batch_first=True)",
        """x, h0, c0):
        out, _ = self.layer(x, (h0, c0))
        return self.last(out[:, -1, :])
""",
        "[torch.randn(BATCH, STEPS, 7), torch.randn(1, BATCH, 10), torch.randn(1, BATCH, 10)]",
    ),
    "an LSTM of two layers, with all its results": layers(
        "nn.LSTM(7, 10, 2)",
        """x):
        out, (h, c) = self.layer(x)
        return self.last(out), h, c
""",
        "[torch.randn(STEPS, BATCH, 7)]",
    ),
    "a GRU in both directions": layers(
        "nn.GRU(6, 5, 2, batch_first=True, bidirectional=True)",
        """x):
        out, h = self.layer(x)
        return self.last(out), h
""",
        "[torch.randn(BATCH, STEPS, 6)]",
    ),
    "a plain layer without biases, with a learned state": layers(
        "nn.RNN(6, 10, bias=False, nonlinearity='relu', bidirectional=False)",
        """x, h0):
        out, h = self.layer(x, h0.expand(1, x.shape[1], 10).contiguous())
        return torch.relu(self.last(out[-1])) + h.sum()
""",
        "[torch.randn(STEPS, BATCH, 6), torch.randn(1, 1, 10)]",
    ),
    "a wide LSTM": layers(
        "nn.LSTM(5, 150, bidirectional=True)",
        """x):
        out, (h, c) = self.layer(x)
        return out, c
""",
        "[torch.randn(STEPS, BATCH, 5)]",
    ),
    "a wide GRU without biases in half precision": layers(
        "nn.GRU(5, 270, bias=False).to(torch.bfloat16)",
        """x):
        return self.layer(x)
""",
        "[torch.randn(STEPS, BATCH, 5).bfloat16()]",
    ),
}


QUICK = ("an LSTM with given states", "a GRU in both directions")


@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_the_first_file_passes(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, KINDS[kind])


@pytest.mark.parametrize("steps", [5, 1000])
def test_a_layer_is_one_product_and_one_kernel_for_any_number_of_steps(steps: int, tmp_path: Path) -> None:
    text = KINDS["an LSTM of two layers, with all its results"].replace("STEPS = 3, 4", f"STEPS = 3, {steps}")
    (draft, *_) = drafts_of(full_size_brief(problem(tmp_path, text)), Choice())
    assert [kernel.kernel.kind for kernel in draft.kernels].count("recurrence") == 2
    assert len(draft.kernels) <= 7
