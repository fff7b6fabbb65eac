"""A run without an evaluator: verdicts come from a table, everything else is real."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from tests import verdicts

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Run
from triton_agent.policy.answer import write_answer
from triton_agent.policy.scripted import Scripted
from triton_agent.tools.candidate.identity import candidate_id
from triton_agent.tools.results import Evaluation, Finding

NOWHERE = verdicts.environment("a table", grader="test")


def kernel(number: float | str) -> str:
    """Return a source text that differs for every number."""
    return f"class ModelNew:\n    answer = {number!r}\n"


def passed(source: str, speedup: float, *, width: float = 0.01, floor_ms: float | None = None) -> Evaluation:
    """Return a verdict with this speed-up over a reference of one millisecond."""
    timings = (
        verdicts.timing(speedup, spread=width, baseline="eager (float32 matmul)", kind=kind)
        for kind in ("device", "latency")
    )
    return verdicts.passed(
        *timings,
        candidate=candidate_id(source),
        environment=NOWHERE,
        diagnosis=verdicts.diagnosis(floor_ms=floor_ms),
    )


def refused(source: str, finding: Finding = Finding.VALUES) -> Evaluation:
    return verdicts.failed(finding, candidate=candidate_id(source), environment=NOWHERE)


class Table:
    """A judge that looks verdicts up in a table and records the sources it was asked about."""

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
