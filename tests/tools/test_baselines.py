"""When the reference in TF32 is a different baseline from the eager reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.race.baselines import tf32_may_matter
from triton_agent.tools.settings import EvaluatorSettings

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(24, 24))
    def forward(self, x):
        return {}
def get_inputs():
    return [torch.randn(12, 24)]
"""


@pytest.mark.parametrize(
    ("written", "matters"),
    [
        ("x @ self.weight", True),
        ("(x.half() @ self.weight.half()).float()", False),
        ("(x.half() @ self.weight.half()).float() @ self.weight", True),
        ("torch.softmax(x * 2, -1)", False),
        ("x @ self.weight if x.sum().item() > 1e9 else x", True),
    ],
)
def test_tf32_matters_where_float32_is_multiplied_or_may_be(written: str, matters: bool, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM.format(written))
    facts = prepare_plan(parse_problem(str(path)), EvaluatorSettings(shapes="given")).facts
    assert tf32_may_matter(facts) is matters
