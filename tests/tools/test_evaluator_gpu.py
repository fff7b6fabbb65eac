"""The evaluator on a real GPU: what it measures besides correctness, which claims it believes, what disturbs it.

Evaluators are shared where they can be: each costs a process with a CUDA context.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("candidates are run and timed on a CUDA GPU, and there is none", allow_module_level=True)

from triton_agent.tools.errors import InstrumentError, MemoryTaken
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.machine import hardware, health, nvml
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import AHEAD, Determinism, Evaluation, Finding, Status
from triton_agent.tools.settings import EvaluatorSettings, Profiling

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

SETTINGS = EvaluatorSettings(device="cuda", target=None, shapes="given", remedies=False, modes=("eval",))
"""Few cases, since these tests are not about the checks of outputs."""

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

SOFTMAX_PROBLEM = """
import torch
import torch.nn as nn

ROWS, COLUMNS = 4096, 2048

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2.0, dim=-1)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

SOFTMAX = (
    HEAD
    + """
@triton.jit
def softmax_kernel(x_ptr, y_ptr, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < width
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf")) * 2.0
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, e / tl.sum(e, 0), mask=inside)

class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        EXTRA
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
        return y
"""
)

WHOLE_PRODUCT_PROBLEM = """
import torch
import torch.nn as nn

COUNT, WIDTH = 64, 64

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.randn(COUNT, WIDTH, WIDTH).half(), torch.randn(COUNT, WIDTH, WIDTH).half()]
"""

WHOLE_PRODUCT = (
    HEAD
    + """
@triton.jit
def product(a_ptr, b_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < width) & (column < width)
    at = tl.program_id(0) * width * width + row * width + column
    a = tl.load(a_ptr + at, mask=inside, other=0.0)
    b = tl.load(b_ptr + at, mask=inside, other=0.0)
    tl.store(y_ptr + at, tl.dot(a, b).to(tl.float16), mask=inside)

class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty_like(a)
        product[(a.shape[0],)](a, b, y, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]), num_warps=8)
        return y
"""
)
"""Each program has whole matrices in shared memory, which a GPU lacks for matrices three times as wide."""

PRODUCT_PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.randn(512, 384), torch.randn(384, 256)]
"""

PRODUCT = (
    HEAD
    + """
@triton.jit
def product(a_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_inside = (row[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + column[None, :], mask=b_inside, other=0.0)
        total = DOT
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(y_ptr + row[:, None] * n + column[None, :], total.to(y_ptr.dtype.element_ty), mask=inside)

class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        y = torch.empty((m, n), dtype=OUT, device=a.device)
        product[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, y, m, n, k, BLOCK=32)
        return y
"""
)

SUM_PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.sum(0)

def get_inputs():
    return [torch.rand(4096, 64)]
"""

SUM = (
    HEAD
    + """
@triton.jit
def sum_kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    tile = tl.load(x_ptr + row[:, None] * COLUMNS + column[None, :])
    tl.atomic_add(y_ptr + column, tl.sum(tile, 0))

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(64, device=x.device)
        sum_kernel[(x.shape[0] // 64,)](x.contiguous(), y, ROWS=64, COLUMNS=64)
        return y
"""
)

BUSY = """
import torch
x = torch.randn(8192, 8192, device="cuda")
torch.cuda.synchronize()
print("busy", flush=True)
while True:
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
"""

FULL = """
import sys, torch
torch.zeros(1, device="cuda")
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (int(sys.argv[1]) << 20), dtype=torch.uint8, device="cuda")
print("full", flush=True)
sys.stdin.read()
"""

Open = Callable[..., contextlib.AbstractContextManager[Evaluator]]


@pytest.fixture
def opened(nursery: Nursery, tmp_path: Path) -> Open:
    """Open an evaluator for a problem's text, with changed settings."""

    def make(problem: str, **changes: object) -> Evaluator:
        (tmp_path / "problem.py").write_text(problem)
        settings = dataclasses.replace(SETTINGS, **changes)  # type: ignore[arg-type]
        return Evaluator(parse_problem(str(tmp_path / "problem.py")), settings, nursery=nursery)

    return make


@pytest.fixture(scope="module")
def looked_into(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> tuple[Evaluation, Evaluation]:
    """Evaluate two kernels with everything turned on, one of which leaves a part to torch; used by several tests."""
    path = tmp_path_factory.mktemp("softmax") / "problem.py"
    path.write_text(SOFTMAX_PROBLEM)
    settings = dataclasses.replace(SETTINGS, profile=Profiling.ALL, baselines=("compile", "compile-reduce-overhead"))
    partly = SOFTMAX.replace("EXTRA", "x = x.clone()")  # moving data is no arithmetic, and nobody's kernel
    with Evaluator(parse_problem(str(path)), settings, nursery=nursery) as evaluator:
        return evaluator.evaluate(SOFTMAX.replace("EXTRA", "")), evaluator.evaluate(partly)


@pytest.fixture
def passed(looked_into: tuple[Evaluation, Evaluation]) -> Evaluation:
    return looked_into[0]


def test_what_passes_is_timed_against_every_baseline(passed: Evaluation) -> None:
    assert passed.status is Status.PASSED, passed.message
    rows = [(timing.baseline.split(" ")[0], timing.kind) for timing in passed.timings]
    names = ("eager", "compile", "compile-reduce-overhead")
    assert rows == [(name, kind) for name in names for kind in ("device", "latency")], passed.notes
    assert all(timing.baseline_ms.median > 0 and timing.candidate_ms.median > 0 for timing in passed.timings)


def test_the_first_to_be_judged_meets_the_same_opponents_as_later_ones(
    looked_into: tuple[Evaluation, Evaluation],
) -> None:
    first, second = ([(timing.baseline, timing.kind) for timing in verdict.timings] for verdict in looked_into)
    assert first == second


def test_one_that_is_ahead_is_told_of_before_torchs_compiler_is_there(opened: Open) -> None:
    first: list[str] = []
    second: list[str] = []
    long = SOFTMAX_PROBLEM.replace("4096, 2048", "65536, 2048")  # the GPU's time is what counts
    with opened(long, baselines=("compile",)) as evaluator:
        for told in (first, second):
            verdict = evaluator.evaluate(SOFTMAX.replace("EXTRA", ""), told.append)
            assert verdict.status is Status.PASSED, verdict.message
    assert any(stage.startswith(AHEAD) for stage in first), first  # one launch instead of two
    assert not any(stage.startswith(AHEAD) for stage in second), second


def test_a_timing_tells_the_clocks_it_was_taken_at(passed: Evaluation) -> None:
    assert all(len(timing.clocks_mhz) == 2 and min(timing.clocks_mhz) > 100 for timing in passed.timings), passed.notes


def test_resources_are_those_of_the_kernels_that_were_launched(passed: Evaluation) -> None:
    (kernel,) = passed.resources
    assert kernel.kernel == "softmax_kernel"
    assert kernel.num_warps == 8 and kernel.registers is not None and 8 <= kernel.registers <= 255
    assert kernel.spill_bytes == 0
    assert "BLOCK=2048" in kernel.constants
    assert kernel.target.startswith("cuda:")


def test_memory_and_bits_of_repeated_calls_are_known(passed: Evaluation) -> None:
    assert passed.determinism is Determinism.IDENTICAL
    assert passed.diagnosis is not None
    output = 4096 * 2048 * 4
    assert passed.diagnosis.peak_bytes is not None and output <= passed.diagnosis.peak_bytes < 2 * output
    assert passed.diagnosis.original_peak_bytes is not None
    assert passed.diagnosis.original_peak_bytes >= 2 * output  # x * 2.0 in between


def test_the_floor_is_below_what_was_measured(passed: Evaluation) -> None:
    assert passed.diagnosis is not None and passed.diagnosis.roofline is not None
    roofline = passed.diagnosis.roofline
    assert roofline.bound == "memory"
    assert 0 < roofline.floor_ms < 1.5 * passed.timings[0].candidate_ms.median
    assert passed.diagnosis.floor_ms == roofline.floor_ms


def test_a_profile_names_the_kernels_and_whose_they_are(passed: Evaluation) -> None:
    assert passed.diagnosis is not None
    profile = passed.diagnosis.profile
    assert profile is not None, passed.notes
    assert [kernel.kernel for kernel in profile.kernels] == ["softmax_kernel"]
    assert profile.own_share > 0.95
    assert profile.device_ms == pytest.approx(passed.timings[0].candidate_ms.median, rel=1.0)
    assert [estimate.kernel for estimate in profile.occupancy] == ["softmax_kernel"]


def test_a_torch_kernel_that_is_left_shows_in_the_profile(looked_into: tuple[Evaluation, Evaluation]) -> None:
    partly = looked_into[1]
    assert partly.status is Status.PASSED, partly.message
    assert partly.diagnosis is not None and partly.diagnosis.profile is not None, partly.notes
    assert 0.2 < partly.diagnosis.profile.own_share < 0.8
    assert partly.diagnosis.profile.bottlenecks[0].name == "torch operators", partly.diagnosis.notes
    assert "aten.clone.default" in partly.diagnosis.notes[1]


def test_sums_by_atomics_pass_and_are_told_to_differ(opened: Open) -> None:
    with opened(SUM_PROBLEM) as evaluator:
        verdict = evaluator.evaluate(SUM)
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.determinism is Determinism.DIFFERS


def test_more_device_memory_than_allowed_is_refused(opened: Open) -> None:
    greedy = SOFTMAX.replace("EXTRA", "").replace(
        "y = torch.empty_like(x)", "y = torch.empty(1 << 26, device=x.device)[: x.numel()].view(x.shape)"
    )
    with opened(SOFTMAX_PROBLEM, max_memory_ratio=1.5) as evaluator:
        assert evaluator.evaluate(SOFTMAX.replace("EXTRA", "")).status is Status.PASSED
        verdict = evaluator.evaluate(greedy)
    assert (verdict.status, verdict.finding) == (Status.OUT_OF_MEMORY, Finding.MEMORY)
    assert "1.5 times as much" in verdict.message


def test_memory_that_no_launch_needs_is_not_taken(opened: Open) -> None:
    with opened(SOFTMAX_PROBLEM, max_memory_ratio=1.5) as evaluator:
        verdict = evaluator.evaluate(SOFTMAX.replace("EXTRA", "waste = torch.empty(1 << 26, device=x.device)"))
    assert verdict.status is Status.PASSED, verdict.message


def test_a_right_kernel_may_outgrow_the_gpu_at_larger_sizes(opened: Open) -> None:
    evaluation = opened(WHOLE_PRODUCT_PROBLEM, shapes="family").evaluate(WHOLE_PRODUCT)
    assert evaluation.status is Status.PASSED
    assert any("need more of the GPU there than it has" in note for note in evaluation.notes)


def test_host_memory_of_a_candidate_is_bounded(opened: Open) -> None:
    with opened(SOFTMAX_PROBLEM, memory_bytes=3 << 30, screen=False) as evaluator:
        greedy = evaluator.evaluate(SOFTMAX.replace("EXTRA", "kept = [bytearray(1 << 30) for _ in range(8)]"))
        modest = evaluator.evaluate(SOFTMAX.replace("EXTRA", "kept = torch.ones(1 << 26)"))
    assert (greedy.status, greedy.finding) == (Status.OUT_OF_MEMORY, Finding.MEMORY), greedy.message
    assert modest.status is Status.PASSED, modest.message


def test_tf32_is_for_the_user_to_allow(opened: Open) -> None:
    exact = "torch.float32"
    default = PRODUCT.replace("OUT", exact).replace("DOT", "tl.dot(a, b, total)")
    split = PRODUCT.replace("OUT", exact).replace("DOT", 'tl.dot(a, b, total, input_precision="tf32x3")')
    with opened(PRODUCT_PROBLEM) as evaluator:
        refused, fine = evaluator.evaluate(default), evaluator.evaluate(split)
    assert (refused.status, refused.finding) == (Status.WRONG_VALUES, Finding.PRECISION)
    assert fine.status is Status.PASSED, fine.message
    assert "float32 matmul" in fine.timings[0].baseline
    with opened(PRODUCT_PROBLEM, precision="tf32") as evaluator:
        allowed = evaluator.evaluate(default)
    assert allowed.status is Status.PASSED, allowed.message
    assert "tf32 matmul" in allowed.timings[0].baseline


def test_autocast_is_as_the_user_calls_it(opened: Open) -> None:
    half = "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), total)"
    with opened(PRODUCT_PROBLEM, autocast="bfloat16") as evaluator:
        right = evaluator.evaluate(PRODUCT.replace("OUT", "torch.bfloat16").replace("DOT", half))
        wide = evaluator.evaluate(PRODUCT.replace("OUT", "torch.float32").replace("DOT", half))
    assert right.status is Status.PASSED, right.message
    assert right.timings[0].baseline == "eager (autocast bfloat16)"
    assert wide.finding is Finding.DTYPE


def test_a_problem_that_is_not_trusted_runs_and_times_confined(opened: Open, tmp_path: Path) -> None:
    snooping = SOFTMAX_PROBLEM + "\ntry:\n    open('/etc/shadow').read()\nexcept OSError:\n    pass\nelse:\n    1 / 0\n"
    with opened(snooping, trust=False) as evaluator:
        verdict = evaluator.evaluate(SOFTMAX.replace("EXTRA", ""))
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.timings


def test_a_checker_that_dies_on_the_gpu_is_begun_anew(opened: Open) -> None:
    with opened(SOFTMAX_PROBLEM) as evaluator:
        assert evaluator._checker._child is not None
        os.kill(evaluator._checker._child.pid, signal.SIGKILL)
        with contextlib.suppress(InstrumentError):  # it may be noticed at once, or by the candidate it was to judge
            evaluator.evaluate(SOFTMAX.replace("EXTRA", ""))
        assert evaluator.evaluate(SOFTMAX.replace("EXTRA", "")).status is Status.PASSED


def test_memory_that_strangers_hold_is_no_verdict(opened: Open) -> None:
    sized = SOFTMAX.replace("EXTRA", "").replace(
        "y = torch.empty_like(x)", "y = torch.empty(1 << BITS, device=x.device)[: x.numel()].view(x.shape)"
    )
    small, large, beyond_the_limit = (sized.replace("BITS", bits) for bits in ("26", "28", "35"))
    with opened(SOFTMAX_PROBLEM) as evaluator:
        assert evaluator.evaluate(small).status is Status.PASSED  # an executor keeps the memory of the large one
        filled = subprocess.Popen(
            [sys.executable, "-c", FULL, "700"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with filled:
            assert filled.stdout is not None and filled.stdout.readline().strip() == "full"
            with pytest.raises(MemoryTaken, match="that it may use"):
                evaluator.evaluate(large)
            assert evaluator.evaluate(beyond_the_limit).finding is Finding.MEMORY
            filled.communicate("")
        assert evaluator.evaluate(large).status is Status.PASSED


@pytest.fixture
def load() -> Iterator[Callable[[], int]]:
    """Start a foreign process that keeps the GPU busy; return its pid."""
    with contextlib.ExitStack() as stack:

        def begin() -> int:
            process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline().strip() == "busy"
            return process.pid

        yield begin


def test_load_of_strangers_is_no_verdict(opened: Open, load: Callable[[], int]) -> None:
    with opened(SOFTMAX_PROBLEM) as evaluator:
        assert evaluator.evaluate(SOFTMAX.replace("EXTRA", "")).status is Status.PASSED
        load()
        with pytest.raises(InstrumentError, match="disturbed"):
            evaluator.evaluate(SOFTMAX.replace("EXTRA", ""))


def test_the_card_tells_of_itself() -> None:
    if not nvml.available():
        pytest.skip("this machine has no NVML library")
    torch.ones(1, device="cuda")
    seen = health.health(hardware.uuid_of(0))
    assert seen.temperature_c is not None and 10 < seen.temperature_c < 110
    assert len(seen.clocks_mhz) == 2 and seen.recovery == ""
