"""What an author is shown of a problem."""

from __future__ import annotations

import ast
from pathlib import Path
from unittest.mock import Mock

from triton_agent.memory.observation import ProblemView
from triton_agent.tools.problem.problem import parse_problem

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x): return x

def get_inputs(): return [torch.rand(2)]
"""


def test_a_byte_order_mark_is_no_part_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM, encoding="utf-8-sig")
    view = ProblemView.of(parse_problem(str(path)), Mock(gpu="", scaled="", notes=()))
    assert ast.parse(view.source).body
