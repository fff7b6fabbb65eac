"""Evaluations made by hand, for tests of what they are worth."""

from __future__ import annotations

from triton_agent.tools.results import (
    DECISIONS,
    CaseAccuracy,
    Diagnosis,
    Environment,
    Evaluation,
    Finding,
    Interval,
    KernelLaunch,
    Status,
    Timing,
)

HERE = Environment(
    mode="interpreter", device="cpu", python="3.11", torch="2.13", triton="3.7", target=None, sandbox=(), grader="1"
)
RIGHT = CaseAccuracy(
    variant="as given",
    distribution="x3",
    output="out",
    metric="l2",
    error=1e-8,
    original_error=1e-8,
    limit=1e-6,
    ok=True,
)
LAUNCH = KernelLaunch(kernel="k", launches=1, programs=8, bytes_loaded=None, bytes_stored=None)
DIAGNOSIS = Diagnosis(
    floor_bytes=1, floor_flops=1, floor_ms=None, traffic_ratio=None, launches=(LAUNCH,), torch_operators=(), notes=()
)
KERNEL = """
import triton
@triton.jit
def double(x, y):
    pass
class ModelNew:
    def forward(self, x):
        double[(1,)](x, x)
"""


def timing(low: float, median: float, high: float, baseline: str = "eager (float32)", kind: str = "device") -> Timing:
    one = Interval(median=1.0, low=1.0, high=1.0)
    return Timing(
        baseline=baseline,
        kind=kind,
        candidate_ms=one,
        baseline_ms=one,
        speedup=Interval(low=low, median=median, high=high),
        pairs=30,
        cold_l2=True,
        method="by hand",
    )


def passed(*timings: Timing) -> Evaluation:
    return Evaluation(
        candidate="c",
        problem="p",
        status=Status.PASSED,
        finding=None,
        message="",
        environment=HERE,
        accuracy=(RIGHT,),
        timings=timings,
    )


def failed(finding: Finding, *, launched: bool = False) -> Evaluation:
    return Evaluation(
        candidate="c",
        problem="p",
        status=DECISIONS[finding].status,
        finding=finding,
        message="m",
        environment=HERE,
        diagnosis=DIAGNOSIS if launched else None,
    )
