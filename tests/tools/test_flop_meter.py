"""Floating-point operations are counted as torch counts them, but without importing torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from triton_agent.tools.reference.flop_meter import FlopMeter, attention_flops

X = torch.randn(2, 4, 8, 8)
ROWS = torch.randn(6, 8)

CALLS: dict[str, Callable[[], object]] = {
    "linear": lambda: nn.Linear(8, 5)(ROWS),
    "product": lambda: ROWS @ ROWS.T,
    "batched": lambda: torch.bmm(X[0], X[0]),
    "einsum": lambda: torch.einsum("bchw,bcwk->bchk", X, X),
    "convolution": lambda: nn.Conv2d(4, 6, 3, padding=1)(X),
    "transposed": lambda: nn.ConvTranspose2d(4, 6, 3)(X),
    "attention": lambda: nn.functional.scaled_dot_product_attention(X, X, X),
    "recurrent": lambda: nn.LSTM(8, 3)(ROWS),
    "elementwise": lambda: torch.softmax(ROWS * 2, -1),
}
UNCOUNTED = {"attention", "recurrent", "elementwise"}
"""Kinds for whose CPU operators torch has no formula."""


@pytest.mark.parametrize("guard", (torch.no_grad, torch.inference_mode), ids=("no_grad", "inference_mode"))
@pytest.mark.parametrize("name", CALLS)
def test_the_count_is_torchs_own(name: str, guard: Callable[[], torch.no_grad]) -> None:
    with guard():
        with FlopCounterMode(display=False) as torchs:
            CALLS[name]()
        with FlopMeter() as ours:
            CALLS[name]()
    assert ours.flops == torchs.get_total_flops()
    assert ours.flops > 0 or name in UNCOUNTED


def test_attention_counts_as_two_products_for_every_head_of_the_queries() -> None:
    query, keys = torch.randn(2, 6, 5, 8), torch.randn(2, 3, 7, 8)
    with FlopCounterMode(display=False) as torchs:
        torch.bmm(query.reshape(12, 5, 8), torch.randn(12, 8, 7)) @ torch.randn(12, 7, 8)
    assert attention_flops(query, keys, keys, 0.0, True) == torchs.get_total_flops()


def test_nested_tensors_go_through() -> None:
    rows = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)
    with torch.no_grad(), FlopMeter():
        assert nn.functional.relu(rows).size(0) == 2


PREPARE = """
import sys
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.checker.prepare import prepare_plan
plan = prepare_plan(parse_problem(sys.argv[1]), EvaluatorSettings())
assert plan.facts["graphs"] and len(plan.trials) > 1
print("torch._dynamo" in sys.modules)
"""


def test_a_small_problem_is_read_without_torchs_compiler(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(
        "import torch\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.linear = torch.nn.Linear(24, 16)\n"
        "    def forward(self, x):\n        return self.linear(x).relu()\n"
        "def get_inputs():\n    return [torch.randn(12, 24)]\n"
    )
    done = subprocess.run([sys.executable, "-c", PREPARE, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
