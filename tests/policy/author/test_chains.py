"""Chains of small matrix products in one kernel."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import Feedback, neighbours
from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

MODULE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}

    def forward(self, {arguments}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""

ROWS = ("x", "torch.randn(37, 24)")
STEPS = ("x", "torch.randn(5, 4, 12)")
PARTS = {
    "layers": (
        "self.net = nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 9))",
        ROWS,
        "return self.net(x).sigmoid()",
        1,
    ),
    "wide hidden layer": (
        "self.up, self.gate = nn.Linear(48, 200), nn.Linear(48, 200)\n        self.down = nn.Linear(200, 48)",
        ("x", "torch.randn(37, 48)"),
        "return x + self.down(F.silu(self.gate(x)) * self.up(x))",
        1,
    ),
    "recurrent cell": (
        "self.cell = nn.GRUCell(12, 20)",
        STEPS,
        """h = x.new_zeros(x.shape[0], 20)
        for t in range(4):
            h = self.cell(x[:, t], h)
        return h""",
        2,
    ),
    "joined state": (
        "self.gates = nn.Linear(32, 40)",
        STEPS,
        """h = x.new_zeros(x.shape[0], 20)
        for t in range(4):
            old, new = self.gates(torch.cat([x[:, t], h], -1)).chunk(2, -1)
            h = old.sigmoid() * h + new.tanh()
        return h""",
        1,
    ),
    "softmax of a layer": (
        "self.first, self.second = nn.Linear(24, 10), nn.Linear(10, 33)",
        ROWS,
        "shares = self.first(x).softmax(-1)\n        return self.second(shares), shares",
        1,
    ),
    "half precision": (
        "self.first = nn.Linear(24, 40, dtype=torch.float16)\n"
        "        self.second = nn.Linear(40, 24, dtype=torch.float16)",
        ("x", "torch.randn(37, 24).half()"),
        "return x + self.second(F.relu(self.first(x)))",
        1,
    ),
}
"""The layers, the input, the body of the forward, and the expected number of kernels."""
APART = {
    "two that differ by rows": ("", ("x", "torch.randn(4, 24, 24)"), "return torch.relu(x @ x) @ x", 2),
    "large matrices": (
        "self.first, self.second = nn.Linear(512, 512), nn.Linear(512, 512)",
        ("x", "torch.randn(64, 512)"),
        "return self.second(self.first(x).relu())",
        2,
    ),
    "the largest of a wide layer": (
        "self.first, self.second = nn.Linear(24, 600), nn.Linear(600, 24)",
        ROWS,
        "y = self.first(x)\n        return self.second(y - y.amax(-1, keepdim=True))",
        3,
    ),
}
MANY_ROWS = {
    "a wide row": MODULE.format(
        parts="self.first, self.second = nn.Linear(200, 24), nn.Linear(24, 20)",
        arguments="x",
        body="return self.second(self.first(x).relu())",
        inputs="torch.randn(300, 200)",
    ),
    "a product of columns": MODULE.format(
        parts="self.first, self.second = nn.Linear(120, 20), nn.Linear(20, 24)",
        arguments="x, gate",
        body="return self.second(self.first((x * gate).T).relu())",
        inputs="torch.randn(120, 300), torch.randn(120, 300)",
    ),
    "a loop that loads both operands": MODULE.format(
        parts="self.act, self.down = nn.PReLU(), nn.Linear(256, 64)",
        arguments="x",
        body="return F.normalize(self.down(self.act(x)), dim=-1)",
        inputs="torch.randn(256, 256)",
    ),
}


def module(kind: str) -> str:
    parts, (arguments, inputs), body, _ = {**PARTS, **APART}[kind]
    return MODULE.format(parts=parts or "pass", arguments=arguments, body=body, inputs=inputs)


def kernels_of(folder: Path, kind: str, choice: Choice) -> tuple[KernelText, ...]:
    brief = dataclasses.replace(full_size_brief(problem(folder, module(kind))), allow_library=False)
    (draft,) = drafts_of(brief, choice)
    return draft.kernels


@pytest.mark.parametrize("kind", PARTS)
def test_small_products_are_one_kernel(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    kernels = kernels_of(tmp_path, kind, Choice())
    assert len(kernels) == PARTS[kind][-1] and "chain" in {text.kernel.kind for text in kernels}
    assert len(kernels_of(tmp_path, kind, Choice(chained=False))) > len(kernels)
    check_passes(tmp_path, nursery, module(kind))


@pytest.mark.parametrize("kind", APART)
def test_others_are_kernels_of_their_own(kind: str, tmp_path: Path) -> None:
    kernels = kernels_of(tmp_path, kind, Choice())
    assert len(kernels) == APART[kind][-1] and "chain" not in {text.kernel.kind for text in kernels}


def test_a_wide_hidden_layer_is_walked_through_in_steps(tmp_path: Path) -> None:
    (kernel,) = kernels_of(tmp_path, "wide hidden layer", Choice())
    assert [line.strip() for line in kernel.lines if " for start in range(0, " in line]
    assert all(block.value <= 256 for block in kernel.blocks.values() if isinstance(block.value, int))


def test_whether_products_are_one_kernel_is_tried_both_ways(tmp_path: Path) -> None:
    brief = dataclasses.replace(brief_of(problem(tmp_path, module("layers"))), device="cuda")
    apart, together = Choice(chained=False), Choice()
    assert apart in neighbours(brief, together, Feedback())[:3]
    assert together in neighbours(brief, apart, Feedback())[:3]
    assert apart in neighbours(brief, together, Feedback(status="compile_error"))[:3]
    assert write(brief, apart).source != write(brief, together).source


@pytest.mark.parametrize("kind", MANY_ROWS)
def test_the_rows_of_a_draft_fit_into_the_shared_memory_of_its_target(
    kind: str, tmp_path: Path, nursery: Nursery
) -> None:
    # The interpreter is quickest with 128 and 256 rows, for which a GPU would need 256 to 288 KB of shared memory.
    spec = problem(tmp_path, MANY_ROWS[kind])
    answer = write(brief_of(spec), Choice())
    with Evaluator(spec, EvaluatorSettings(target="cuda:90", allow_library=False), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(answer.source)
    assert verdict.status == "passed", verdict.message
