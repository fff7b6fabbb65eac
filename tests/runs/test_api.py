"""`triton_agent.optimize` and `triton_agent.evaluate`: what a Python caller gets, and what they leave unchanged."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.runs import live_samples as samples
from torch import nn

import triton_agent
from triton_agent.policy.answer import write_answer
from triton_agent.policy.scripted import Scripted

ROOT = Path(__file__).resolve().parents[2]
ROW_SUM = ROOT / "tests" / "kernels" / "row_sum_f32"
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, out, count, amount, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count) + tl.load(amount), mask=at < count)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.amount = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        add[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), self.amount, BLOCK=64)
        return out
"""
WRONG = KERNEL.replace("+ tl.load(amount),", "- tl.load(amount),")


class Add(nn.Module):
    """The sum of a row and one parameter."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = nn.Parameter(torch.tensor([amount]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.amount


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, triton_agent; print(dir(triton_agent), {'torch', 'triton', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "'optimize'" in done.stdout and done.stdout.endswith("set()\n"), done.stderr
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = triton_agent.optimise


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "genius"}, "no such policy"),
        ({"policy": [object()]}, "is not a policy"),
        ({"policy": []}, "names no policy"),
        ({"turns": 0}, "--turns 0"),
        ({"budget_s": -1.0}, "budget_s=-1.0"),
        ({"device": "tpu"}, "--device tpu"),
        ({"turn": 3}, "no argument 'turn'"),
        ({"resume": "20200101-000000-abcdef"}, "20200101-000000-abcdef"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(changes: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises((triton_agent.TritonAgentError, triton_agent.StoreError), match=re.escape(said)):
        triton_agent.optimize(Add(1.0), torch.ones(8), store=tmp_path / "db", out=tmp_path, progress=False, **changes)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((Add(1.0), KERNEL), {}, "no example inputs are given"),
        ((Add(1.0), KERNEL, torch.ones(8)), {"init": "1.0"}, "go with a file"),
        ((ROW_SUM / "problem.py", KERNEL, torch.ones(8)), {}, "go with a module"),
        ((ROW_SUM / "problem.py", "missing.py"), {}, "no such kernel file"),
        ((ROW_SUM / "problem.py", KERNEL), {"mode": "often"}, "--mode often"),
        ((samples.made_in_a_function(), KERNEL, torch.ones(8)), {}, "inside a function"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(arguments: tuple, named: dict, said: str) -> None:
    with pytest.raises(triton_agent.UsageError, match=re.escape(said)):
        triton_agent.evaluate(*arguments, **named)


@pytest.mark.slow
def test_kernels_are_judged_against_a_module_in_memory() -> None:
    verdicts = [triton_agent.evaluate(Add(2.0), text, torch.ones(3, 40), target=None) for text in (KERNEL, WRONG)]
    assert [verdict.status for verdict in verdicts] == [triton_agent.Status.PASSED, triton_agent.Status.WRONG_VALUES]


@pytest.mark.slow
def test_kernels_are_judged_against_a_file() -> None:
    verdict = triton_agent.evaluate(ROW_SUM / "problem.py", ROW_SUM / "right_loop.py", shapes="given", target=None)
    assert verdict.status is triton_agent.Status.PASSED


class Optimized:
    """Results of one call of `optimize` inside a running event loop."""

    def __init__(self, folder: Path, answers: list[str]) -> None:
        self.module, self.x = Add(2.0).eval(), torch.ones(3, 40)
        self.called: list[int] = []
        self.module.register_forward_hook(lambda *_: self.called.append(1))
        self.before = torch.random.get_rng_state(), torch.is_grad_enabled(), self.x._version
        scripted = Scripted([write_answer("a plan", text) for text in answers])
        self.result = asyncio.run(self._optimize(folder, scripted))
        self.after = torch.random.get_rng_state(), torch.is_grad_enabled(), self.x._version

    async def _optimize(self, folder: Path, policy: Scripted) -> nn.Module:
        """Call `optimize` as a cell of a notebook does."""
        return triton_agent.optimize(
            self.module, self.x, policy=policy, turns=2, parallel=1, out=folder / "out", store=folder / "db"
        )


@pytest.fixture(scope="module")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> Optimized:
    return Optimized(tmp_path_factory.mktemp("optimized"), [WRONG, KERNEL])


@pytest.mark.slow
def test_without_a_gpu_the_result_is_the_draft_with_the_modules_state(optimized: Optimized) -> None:
    told = triton_agent.outcome_of(optimized.result)
    assert told.draft and told.speedup is None and told.evaluation.status is triton_agent.Status.PASSED
    assert told.file.name == "add_optimized.py" and told.report.is_file()
    result, module = optimized.result, optimized.module
    assert result is not module and result.use_kernels == "never" and not result.training
    assert torch.equal(result.amount, module.amount) and result.amount is not module.amount
    assert torch.equal(result(optimized.x), module(optimized.x))


@pytest.mark.slow
def test_the_callers_module_and_process_are_as_before(optimized: Optimized) -> None:
    assert torch.equal(optimized.before[0], optimized.after[0])
    assert optimized.before[1:] == optimized.after[1:]
    assert triton_agent.outcome_of(optimized.module) is None
    assert "amount" in optimized.module._parameters and not hasattr(optimized.module, "use_kernels")


@pytest.mark.slow
def test_the_result_keeps_the_modules_own_hooks(optimized: Optimized) -> None:
    optimized.called.clear()
    optimized.result(optimized.x)
    assert optimized.called == [1]


KERNELS_RUN = """
import sys
import torch
from pathlib import Path
from tests.runs.test_api import Add
from triton_agent.runs.live import loading

file = loading.load(Path(sys.argv[1]))
module = Add(3.0)
made = loading.made_of(file.ModelNew, module, ())
made._watch.made = file._made_of(made)
made.use_kernels = "always"
launched = []
plan = file.call
file.call = lambda *given: launched.append(1) or plan(*given)
with torch.no_grad():
    x = torch.randn(3, 40)
    assert torch.equal(made(x), x + 3.0)
    made.amount.fill_(5.0)
    assert torch.equal(made(x), x + 5.0)
assert launched == [1, 1] and float(module.amount) == 3.0
assert made._watch.made is not None, "its tensors and attributes are those that were verified"
"""


@pytest.mark.slow
def test_its_kernels_read_the_tensors_that_were_taken_over(optimized: Optimized) -> None:
    """The kernels run in the interpreter."""
    file = triton_agent.outcome_of(optimized.result).file
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    argv = [sys.executable, "-c", KERNELS_RUN, str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_where_nothing_passes_the_module_itself_is_returned_and_said_why(tmp_path: Path) -> None:
    found = Optimized(tmp_path, [WRONG])
    assert found.result is found.module
    told = triton_agent.outcome_of(found.result)
    assert told.file is None and "no kernel passed" in told.why


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_example_in_the_documents_runs(document: str, tmp_path: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    code = next(code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "triton_agent.optimize" in code)
    (tmp_path / "example.py").write_text(code)
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "TRITON_AGENT_STORE": str(tmp_path / "db")}
    argv = [sys.executable, "example.py"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert not [
        path for path in tmp_path.iterdir() if path.name not in ("example.py", "data") and "db" not in path.name
    ]
