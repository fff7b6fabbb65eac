"""A run's surroundings without an evaluator: verdicts come from a table, everything else is real."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Run
from triton_agent.policy.answer import write_answer
from triton_agent.policy.scripted import Scripted
from triton_agent.tools.evaluator import candidate_id
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

NOWHERE = Environment(
    mode="gpu", device="a table", python="", torch="", triton="", target=None, sandbox=(), grader="test"
)
RIGHT = CaseAccuracy(
    variant="as given",
    distribution="as given",
    output="out",
    metric="l2",
    error=0.0,
    original_error=0.0,
    limit=1.0,
    ok=True,
)


def kernel(number: float | str) -> str:
    """A file of its own: numbers are what tells files apart."""
    return f"class ModelNew:\n    answer = {number!r}\n"


def passed(source: str, speedup: float, *, width: float = 0.01, floor_ms: float | None = None) -> Evaluation:
    """A verdict with a measured speed-up over an original of one millisecond."""

    def timing(kind: str) -> Timing:
        ratio = Interval(median=speedup, low=speedup * (1 - width), high=speedup * (1 + width))
        mine, theirs = (Interval(median=value, low=value, high=value) for value in (1 / speedup, 1.0))
        return Timing(
            baseline="eager (float32 matmul)",
            kind=kind,
            candidate_ms=mine,
            baseline_ms=theirs,
            speedup=ratio,
            pairs=30,
            cold_l2=True,
            method="table",
        )

    diagnosis = Diagnosis(
        floor_bytes=1, floor_flops=1, floor_ms=floor_ms, traffic_ratio=None, launches=(), torch_operators=(), notes=()
    )
    return Evaluation(
        candidate=candidate_id(source),
        problem="p",
        status=Status.PASSED,
        finding=None,
        message="",
        environment=NOWHERE,
        accuracy=(RIGHT,),
        timings=(timing("device"), timing("latency")),
        diagnosis=diagnosis,
    )


def refused(source: str, finding: Finding = Finding.VALUES) -> Evaluation:
    return Evaluation(
        candidate=candidate_id(source),
        problem="p",
        status=DECISIONS[finding].status,
        finding=finding,
        message="wrong",
        environment=NOWHERE,
    )


class Table:
    """A judge that knows the verdicts, and remembers what it was asked."""

    def __init__(self, verdicts: dict[str, Evaluation | Exception]) -> None:
        self.verdicts = verdicts
        self.asked: list[str] = []

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        self.asked.append(source)
        verdict = self.verdicts[source.strip() + "\n"]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def script(sources: list[str], name: str = "scripted") -> Scripted:
    return Scripted([write_answer("a plan", source) for source in sources], name=name)


def new_run(run_id: str = "20260101-000000-aaaaaa") -> Run:
    view = ProblemView(digest="p", name="problem", spec={}, source="class Model: ...", fingerprint="f")
    return Run(id=run_id, problem=view, policy="scripted", settings={}, started_at=datetime.datetime.now(datetime.UTC))
