"""What is proposed next is found without planning what nobody will measure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.policy import builtin
from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import Feedback, neighbours

TWO_KERNELS = """
ROWS, WIDTH = 6, 40


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""


def test_on_a_cpu_nothing_is_planned_around_other_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed there, so other numbers lead nowhere. For a large model they took minutes."""
    spec = problem(tmp_path, TWO_KERNELS)
    brief = brief_of(spec)
    view = ProblemView(
        digest=spec.digest,
        name=spec.name,
        spec=spec.to_json(),
        source=brief.source,
        fingerprint=brief.graphs[0].fingerprint(),
        graphs=tuple(graph.to_json() for graph in brief.graphs),
        device="cpu",
        hardware=(),
    )
    seen = Observation(problem=view, rules=Rules(), turn=0, seed=0, budget=BudgetLeft())
    asked: list[Choice] = []

    def noted(brief: Brief, choice: Choice, feedback: Feedback) -> list[Choice]:
        asked.append(choice)
        return neighbours(brief, choice, feedback)

    monkeypatch.setattr(builtin, "neighbours", noted)
    assert len(asyncio.run(builtin.Builtin().propose(seen))) == 1 and not asked
    assert asyncio.run(builtin.Builtin().propose(seen, 8)) and asked
    assert not any(choice.tiles for choice in asked)
