"""Chains of calls, each of which begins with the state that the one before left; see `answers/chained_calls.py`."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.grading import grade, specimen, spoken

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.answers.chained_calls import _with_changes
from triton_agent.tools.cases.plan import Chain
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

TESTS = Path(__file__).parents[1]
EXPECTED = {
    "cheats/state_counts_calls_in_last_bits": "wrong_values/values",
    "honest/running_statistics_in_kernel": "passed",
}
MODULE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(40))
    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.25)
        return {answer}
def get_inputs():
    return [torch.randn(24, 40)]
"""


def chain_of(folder: Path, answer: str, count: int) -> Chain:
    """Return a chain of calls of a module that keeps a running mean."""
    (folder / "problem.py").write_text(MODULE.format(answer=answer))
    plan = prepare_plan(parse_problem(str(folder / "problem.py")), EvaluatorSettings(shapes="given"))
    trial = plan.trials[plan.main]
    given = next(case for case in trial.cases if case.expectation.state_after)
    assert trial.chain is not None
    chain = trial.chain(given, None, count)
    assert chain is not None
    return chain


def test_a_chain_expects_what_the_last_of_its_calls_returns_and_leaves(tmp_path: Path) -> None:
    chain = chain_of(tmp_path, "x - self.mean", 4)
    mean = chain.cases[0].expectation.state_before["mean"].double()
    for number in range(4):
        (x,) = chain.cases[number % 2].expectation.packed_inputs.unpack()
        mean = mean + 0.25 * (x.double().mean(0) - mean)
    (out,), (left,) = chain.cases[-1].expectation.outputs, chain.cases[-1].expectation.state_after
    assert left.name == "buffer mean" and judge(mean.float(), left.yard).ok
    assert judge((x - mean).float(), out.yard).ok
    assert not judge((x - mean + 1e-4).float(), out.yard).ok


def test_only_gross_errors_count_in_a_chain_in_which_rounding_may_decide_otherwise(tmp_path: Path) -> None:
    (out,) = chain_of(tmp_path, "torch.round(8 * (x - self.mean))", 4).cases[-1].expectation.outputs
    some_wrong = out.yard.truth.clone()
    some_wrong[0] += 1
    assert judge(some_wrong.float(), out.yard).ok and not judge(torch.zeros(24, 40), out.yard).ok


def test_kernels_that_do_something_else_after_some_calls_are_refused(nursery: Nursery) -> None:
    settings = EvaluatorSettings(device="cpu", screen=False, shapes="given")
    verdicts = grade([specimen(TESTS / f"{name}.py") for name in EXPECTED], settings, jobs=1, nursery=nursery)
    assert {item.name: spoken(evaluation) for item, evaluation in verdicts} == EXPECTED


def test_what_a_call_left_in_one_memory_can_be_packed() -> None:
    """Large answers of several dtypes lie in one memory."""
    memory = torch.arange(64, dtype=torch.uint8)
    after = {"mean": memory[:16].view(torch.float32), "count": memory[16:24].view(torch.int64)}
    state = _with_changes({name: torch.zeros_like(tensor) for name, tensor in after.items()}, after)
    found = pack(state).unpack()
    assert all(torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8)) for name, tensor in after.items())
