"""Verdicts made by hand, for tests of what others make of them. `changes` are fields that a test is about."""

from __future__ import annotations

from typing import Any

from triton_agent.tools.results import (
    DECISIONS,
    CaseAccuracy,
    Diagnosis,
    Environment,
    Evaluation,
    Finding,
    Interval,
    Status,
    Timing,
)


def environment(device: str = "cpu", **changes: Any) -> Environment:
    """The interpreter, or any other device as a GPU."""
    fields: dict[str, Any] = {
        "mode": "interpreter" if device == "cpu" else "gpu",
        "device": device,
        "python": "3.11.7",
        "torch": "2.13.0",
        "triton": "3.7.1",
        "target": None,
        "sandbox": (),
        "grader": "1",
    }
    return Environment(**(fields | changes))


def right(**changes: Any) -> CaseAccuracy:
    """A case as accurate as the reference."""
    fields: dict[str, Any] = {
        "variant": "as given",
        "distribution": "as given",
        "output": "out",
        "metric": "l2",
        "error": 1e-8,
        "original_error": 1e-8,
        "limit": 1e-6,
        "ok": True,
    }
    return CaseAccuracy(**(fields | changes))


def around(median: float, spread: float = 0.0) -> Interval:
    """`spread` as a share, to either side."""
    return Interval(median=median, low=median * (1 - spread), high=median * (1 + spread))


def timing(
    speedup: float | Interval = 1.0, *, spread: float = 0.05, original_ms: float = 1.0, **changes: Any
) -> Timing:
    """Against the reference in device time, where nothing else is said."""
    ratio = speedup if isinstance(speedup, Interval) else around(speedup, spread)
    fields: dict[str, Any] = {
        "baseline": "eager",
        "kind": "device",
        "candidate_ms": around(original_ms / ratio.median, spread),
        "baseline_ms": around(original_ms, spread),
        "speedup": ratio,
        "pairs": 30,
        "cold_l2": True,
        "method": "by hand",
    }
    return Timing(**(fields | changes))


def diagnosis(**changes: Any) -> Diagnosis:
    fields: dict[str, Any] = {
        "floor_bytes": 1,
        "floor_flops": 1,
        "floor_ms": None,
        "traffic_ratio": None,
        "launches": (),
        "torch_operators": (),
        "notes": (),
    }
    return Diagnosis(**(fields | changes))


def passed(*timings: Timing, **changes: Any) -> Evaluation:
    fields: dict[str, Any] = {
        "candidate": "c",
        "problem": "p",
        "status": Status.PASSED,
        "finding": None,
        "message": "",
        "environment": environment(),
        "accuracy": (right(),),
        "timings": timings,
    }
    return Evaluation(**(fields | changes))


def failed(finding: Finding = Finding.VALUES, **changes: Any) -> Evaluation:
    """With the status that the finding means."""
    fields: dict[str, Any] = {
        "candidate": "c",
        "problem": "p",
        "status": DECISIONS[finding].status,
        "finding": finding,
        "message": "wrong",
        "environment": environment(),
    }
    return Evaluation(**(fields | changes))
