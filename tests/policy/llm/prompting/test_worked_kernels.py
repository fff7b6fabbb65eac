"""The judge passes every worked kernel that prompts show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triton_agent.policy.llm.prompting.sections import WORKED
from triton_agent.policy.llm.prompting.wording import templates
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Status
from triton_agent.tools.settings import EvaluatorSettings

HEAD = "import torch\nimport torch.nn as nn\n\n"
PROBLEMS = {
    "worked_pointwise": """
class Model(nn.Module):
    def __init__(self, scale, shift):
        super().__init__()
        self.scale, self.shift = scale, shift

    def forward(self, x):
        return torch.relu(x) * self.scale + self.shift


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [1.5, -0.25]
""",
    "worked_rows": """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
""",
    "worked_products": """
class Model(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.linear = nn.Linear(depth, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS, 72]
""",
}


def test_every_worked_kernel_has_a_problem() -> None:
    assert set(PROBLEMS) == set(WORKED.values()) == {name for name in templates() if name.startswith("worked_")}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_worked_kernel_passes(name: str, nursery: Nursery, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(f"{HEAD}ROWS = 33\nCOLUMNS = 100\n{PROBLEMS[name]}")
    source = re.search(r"```python\n(.*?)```", templates()[name].template, re.DOTALL).group(1)  # type: ignore[union-attr]
    settings = EvaluatorSettings(target=None, total_timeout_s=240)
    with Evaluator(parse_problem(str(tmp_path / "problem.py")), settings, nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(source)
    assert verdict.status is Status.PASSED, verdict.message
