"""Evaluations built by hand, for tests of rewards and figures."""

from __future__ import annotations

from tests import verdicts

from triton_agent.tools.results import Evaluation, Finding, Interval, KernelLaunch, Timing

LAUNCH = KernelLaunch(kernel="k", launches=1, programs=8, bytes_loaded=None, bytes_stored=None)
DIAGNOSIS = verdicts.diagnosis(launches=(LAUNCH,))
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
    return verdicts.timing(Interval(low=low, median=median, high=high), baseline=baseline, kind=kind)


def failed(finding: Finding, *, launched: bool = False) -> Evaluation:
    return verdicts.failed(finding, diagnosis=DIAGNOSIS if launched else None)
