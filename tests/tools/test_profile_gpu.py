"""Profiles on a real GPU: kernels written to have a certain bottleneck get it named first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("profiles are taken on CUDA devices, and there is none", allow_module_level=True)

from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.results import Evaluation, Status
from triton_agent.tools.settings import EvaluatorSettings, Profiling

pytestmark = pytest.mark.gpu

ROWS, COLUMNS = 16384, 4096
PROBLEM = f"""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1


def get_inputs():
    return [torch.randn({ROWS}, {COLUMNS})]


def get_init_inputs():
    return []
"""
KERNELS = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def whole(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < size)
    tl.store(y + at, tl.where(value != value, value, tl.maximum(value, 0.0)) * 2.0 + 1.0, mask=at < size)


@triton.jit
def relu(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < size)
    tl.store(y + at, tl.where(value != value, value, tl.maximum(value, 0.0)), mask=at < size)


@triton.jit
def double(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) * 2.0, mask=at < size)


@triton.jit
def increment(x, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < size) + 1.0, mask=at < size)


@triton.jit
def few(x, y, size, each, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * each
    for start in range(0, each, BLOCK):
        at = begin + start + tl.arange(0, BLOCK)
        inside = (start + tl.arange(0, BLOCK) < each) & (at < size)
        value = tl.load(x + at, mask=inside)
        tl.store(y + at, tl.where(value != value, value, tl.maximum(value, 0.0)) * 2.0 + 1.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x, size = x.contiguous(), x.numel()
        y = torch.empty_like(x)
        blocks = (triton.cdiv(size, 4096),)
        BODY
        return y
"""
BODIES = {
    "one pass": "whole[blocks](x, y, size, BLOCK=4096)",
    "torch operators": "whole[blocks](x.clone(), y, size, BLOCK=4096)",
    "memory traffic": (
        "a, b = torch.empty_like(x), torch.empty_like(x)\n"
        "        relu[blocks](x, a, size, BLOCK=4096)\n"
        "        double[blocks](a, b, size, BLOCK=4096)\n"
        "        increment[blocks](b, y, size, BLOCK=4096)"
    ),
    "parallelism": "few[(16,)](x, y, size, triton.cdiv(size, 16), BLOCK=4096)",
}
SETTINGS = EvaluatorSettings(device="cuda", target=None, shapes="given", remedies=False, modes=("eval",))


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    path = tmp_path_factory.mktemp("profiled") / "problem.py"
    path.write_text(PROBLEM)
    with Evaluator(parse_problem(str(path)), dataclasses.replace(SETTINGS, profile=Profiling.ALL)) as made:
        yield made


def judged(evaluator: Evaluator, name: str) -> Evaluation:
    verdict = evaluator.evaluate(KERNELS.replace("BODY", BODIES[name]))
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.diagnosis is not None and verdict.diagnosis.profile is not None, verdict.notes
    return verdict


@pytest.mark.parametrize("name", [name for name in BODIES if name != "one pass"])
def test_the_bottleneck_that_a_kernel_was_written_to_have_is_named_first(evaluator: Evaluator, name: str) -> None:
    diagnosis = judged(evaluator, name).diagnosis
    assert diagnosis is not None and diagnosis.profile is not None
    assert diagnosis.profile.bottlenecks[0].name == name, diagnosis.notes
    assert diagnosis.profile.bottlenecks[0].lost_ms < diagnosis.profile.device_ms


def test_a_kernel_that_reaches_the_rate_of_a_copy_has_no_costly_bottleneck(evaluator: Evaluator) -> None:
    verdict = judged(evaluator, "one pass")
    assert verdict.diagnosis is not None and verdict.diagnosis.profile is not None
    profile = verdict.diagnosis.profile
    assert sum(item.lost_ms for item in profile.bottlenecks) < 0.3 * profile.device_ms, profile.notes
    assert profile.device_ms == pytest.approx(verdict.timings[0].candidate_ms.median, rel=0.2)
    assert profile.own_share == 1.0
    assert profile.kernels[0].argument_bytes == 2 * 4 * ROWS * COLUMNS


def test_only_the_fastest_so_far_are_profiled(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    with Evaluator(parse_problem(str(tmp_path / "problem.py")), SETTINGS) as made:
        names = ("one pass", "torch operators", "memory traffic")
        verdicts = [made.evaluate(KERNELS.replace("BODY", BODIES[name])) for name in names]
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 3
    profiled = [verdict.diagnosis is not None and verdict.diagnosis.profile is not None for verdict in verdicts]
    assert profiled == [True, True, False]
