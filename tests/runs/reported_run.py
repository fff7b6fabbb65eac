"""A made-up run for tests of the report: all kinds of attempts, with hostile text in every foreign field."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from tests import verdicts

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import (
    Attempt,
    Completion,
    Grading,
    GradingMachine,
    InstrumentFailure,
    Run,
    RunEnd,
    Usage,
    attempt_key,
)
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.tools.race.ceilings import Ceilings
from triton_agent.tools.results import (
    Environment,
    Evaluation,
    Finding,
    KernelLaunch,
    KernelResources,
    StageTime,
    Timing,
)

HOSTILE = (
    "</pre></style><script>document.title = 'taken over'</script><img src=x onerror=alert(1)> & \"q\" \x1b[31m\u202e"
)
RUN = "20260131-154500-3fa9c1"
BEGAN = datetime.datetime(2026, 1, 31, 15, 45, tzinfo=datetime.UTC)
KERNEL = '''"""One program a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns  # 64 bits
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + at, power / tl.sum(power, axis=0), mask=at < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024, num_warps={warps})
        return y
'''
CEILINGS = Ceilings(
    gpu="NVIDIA H200",
    uuid="GPU-0",
    driver="570.1",
    torch="2.11.0",
    measured_at="2026-01-31 15:00",
    copy_bytes_per_s=4.2e12,
    flops_per_s={"bf16": 7.9e14, "tf32": 4.1e14, "fp32": 5.1e13},
    launch_ms=0.01,
    launch_enqueue_ms=0.004,
    empty_kernel_ms=0.002,
)


def timings(ratio: float) -> tuple[Timing, ...]:
    return tuple(
        verdicts.timing(
            ratio * factor,
            spread=0.03,
            original_ms=(0.0512 + host) * factor,
            baseline=f"{opponent} (float32 matmul, float32 convolution)",
            kind=kind,
            method="CUDA events, paired and interleaved",
            clocks_mhz=(1905, 1980),
        )
        for opponent, factor in (("eager", 1.0), ("compile", 0.9))
        for kind, host in (("device", 0.0), ("latency", 0.02))
    )


def environment(gpu: bool) -> Environment:
    return verdicts.environment(
        "cuda" if gpu else "cpu",
        python="3.12.3",
        torch="2.11.0",
        triton="3.6.0",
        target="cuda:90",
        sandbox=("landlock", "seccomp"),
    )


def evaluation(finding: Finding | None, ratio: float | None, *, gpu: bool = True) -> Evaluation:
    cases = tuple(
        verdicts.right(
            variant=f"ROWS={rows}, COLUMNS=512",
            distribution=distribution,
            metric="max",
            error=3e-8 * (rows + 1),
            original_error=2e-8,
        )
        for rows in (1, 7, 16)
        for distribution in ("as given", "extremes")
    )
    resources = KernelResources(
        kernel="softmax_kernel",
        target="cuda:90",
        num_warps=4,
        num_stages=3,
        registers=29,
        spill_bytes=0,
        shared_bytes=16,
        stack_bytes=0,
        compile_ms=90.0,
        constants="BLOCK=1024",
    )
    launch = KernelLaunch(
        kernel="softmax_kernel", launches=1, programs=4096, bytes_loaded=134_217_728, bytes_stored=67_108_864
    )
    seen: dict[str, Any] = {
        "candidate": "c" * 64,
        "problem": "p" * 64,
        "environment": environment(gpu),
        "resources": (resources,),
        "diagnosis": verdicts.diagnosis(
            floor_bytes=134_217_728,
            floor_flops=83_886_080,
            floor_ms=0.031 if gpu else None,
            traffic_ratio=1.5,
            launches=(launch,),
            notes=("the row is read twice",),
        ),
        "stages": (StageTime(stage="compile", wall_ms=120.0), StageTime(stage="check", wall_ms=800.0)),
    }
    if finding is None:
        return verdicts.passed(*(timings(ratio) if ratio else ()), accuracy=cases, **seen)
    return verdicts.failed(finding, message=f"case ROWS=1 / as given: out is wrong\n{HOSTILE}", **seen)


ATTEMPTS: tuple[tuple[int, int, tuple[int, int] | None, Finding | str | None, float | None], ...] = (
    (0, 0, None, Finding.VALUES, None),
    (0, 1, None, None, 0.93),
    (1, 0, (0, 1), None, 1.12),
    (1, 1, (0, 0), Finding.COMPILE, None),
    (2, 0, (1, 0), "lost", None),
    (2, 1, (1, 0), None, 1.38),
    (3, 0, (2, 1), Finding.FORBIDDEN_ACCESS, None),
    (3, 1, (2, 1), None, 1.61),
    (4, 0, (3, 1), "no code", None),
    (4, 1, (3, 1), None, 1.58),
)
"""Turn, answer, parent, finding, speed-up."""
BEST = attempt_key(RUN, 3, 1)


def problem(**changes: Any) -> ProblemView:
    view = ProblemView(
        digest="p" * 64,
        name="softmax",
        spec={"path": "examples/softmax.py", "class_name": None},
        source="import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n",
        fingerprint="f",
        variants=("ROWS=4096, COLUMNS=4096", "ROWS=1, COLUMNS=512"),
        floor_bytes=134_217_728,
        floor_flops=83_886_080,
        floor_ms=0.031,
        device="NVIDIA H200",
    )
    return dataclasses.replace(view, **changes)


def graded(row: tuple[Any, ...], view: ProblemView, *, gpu: bool) -> StoredAttempt:
    turn, index, parent, outcome, ratio = row
    seen = Observation(
        problem=view, rules=Rules(), turn=turn, attempts_before=2 * turn + index, seed=turn, budget=BudgetLeft()
    )
    source = None if outcome == "no code" else KERNEL.replace("{warps}", str(2**turn)) + f"# {HOSTILE!r}\n# {HOSTILE}\n"
    attempt = Attempt(
        run=RUN,
        turn=turn,
        index=index,
        parent=attempt_key(RUN, *parent) if parent else None,
        observation=seen,
        completion=Completion(
            text=f"I would rather not. {HOSTILE}",
            policy="author",
            policy_version="1",
            usage=Usage(prompt_tokens=900, completion_tokens=400, cost=0.0125, wall_s=2.5),
        ),
        plan=f"Read each row once, and use more warps.\n{HOSTILE}",
        source=source,
        created_at=BEGAN + datetime.timedelta(seconds=30 * turn),
    )
    failure = (
        InstrumentFailure(kind="WorkerLost", what="the GPU was busy", remedy=HOSTILE) if outcome == "lost" else None
    )
    finding = Finding.NO_MODEL if outcome == "no code" else outcome
    grading = Grading(
        attempt=attempt.key,
        evaluation=None if failure else evaluation(finding, ratio if gpu else None, gpu=gpu),
        failure=failure,
        machine=GradingMachine(gpu="NVIDIA H200" if gpu else "", driver="570.1", commit="0123abcd"),
        grader="1",
        graded_at=attempt.created_at,
    )
    return StoredAttempt(attempt=attempt, gradings=(grading,))


def history(*, gpu: bool = True, attempts: tuple[tuple[Any, ...], ...] = ATTEMPTS, ended: bool = True) -> History:
    view = problem() if gpu else problem(floor_ms=None, device="cpu")
    best = BEST if any(row[:2] == (3, 1) for row in attempts) else None
    end = RunEnd(run=RUN, stop_reason="turns", best=best, ended_at=BEGAN + datetime.timedelta(minutes=4))
    return History(
        run=Run(
            id=RUN,
            problem=view,
            policy="author",
            settings={"turns": 5, "problem": HOSTILE},
            started_at=BEGAN,
            commit="0123abcd",
        ),
        attempts=tuple(graded(row, view, gpu=gpu) for row in attempts),
        end=end if ended else None,
    )
