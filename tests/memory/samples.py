"""Records for tests of the store: plausible, small, and different where a test asks for it."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from typing import Any

from tests import verdicts

from triton_agent.memory.observation import BudgetLeft, Lesson, Observation, ProblemView, Role, Rules, Tried
from triton_agent.memory.records import (
    Attempt,
    Completion,
    Distribution,
    Grading,
    GradingMachine,
    InstrumentFailure,
    Message,
    Run,
    RunEnd,
    SamplingRecord,
    ToolCall,
    Usage,
    attempt_key,
)
from triton_agent.tools.results import Diagnosis, Environment, Evaluation, Interval, Status

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=datetime.UTC)
H200 = "NVIDIA H200"


def at(minute: float) -> datetime.datetime:
    return NOON + datetime.timedelta(minutes=minute)


def graph(*operators: str, shape: tuple[int, ...] = (256, 512), dtype: str = "float32") -> dict[str, Any]:
    """Return a chain of operators over one input, in the form of `OperatorGraph.to_json`."""
    meta = {"shape": list(shape), "dtype": dtype, "strides": [shape[-1], 1], "offset": 0}
    nodes = [
        {
            "index": number,
            "operator": name,
            "overload": "default",
            "arguments": [{"value": f"n{number - 1}" if number else "x0"}, {"float": "-inf"}],
            "argument_names": ["self", ""],
            "keywords": {},
            "outputs": [meta],
            "view_of": None,
            "writes": [],
        }
        for number, name in enumerate(operators)
    ]
    return {
        "inputs": {"x0": meta},
        "parameters": {},
        "buffers": {},
        "constants": {},
        "nodes": nodes,
        "outputs": [f"n{len(nodes) - 1}"],
        "output_structure": "*",
        "updates": {},
        "shared": {},
        "data_dependent": False,
    }


def problem(
    name: str = "softmax",
    *operators: str,
    shape: tuple[int, ...] = (256, 512),
    dtype: str = "float32",
    fingerprint: str | None = None,
    **changes: Any,
) -> ProblemView:
    operators = operators or ("aten._softmax",)
    structure = _hash("|".join(operators) + dtype)[:32] if fingerprint is None else fingerprint
    fields: dict[str, Any] = {
        "digest": _hash(f"{name}{shape}{dtype}"),
        "name": name,
        "spec": {"path": f"{name}.py", "sizes": {"ROWS": shape[0]}, "scale": 0.5},
        "source": f"# {name}\n" + "import torch\n" * 40,
        "fingerprint": structure,
        "signature": _hash(f"{structure}{shape}")[:32],
        "graphs": (graph(*operators, shape=shape, dtype=dtype),),
        "variants": ("ROWS=1",),
        "floor_bytes": 1_048_576,
        "floor_flops": 655_360,
    }
    return ProblemView(**(fields | changes))


def run(id: str = "20260131-120000-3fa9c1", **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "problem": problem(),
        "policy": "author",
        "settings": {"turns": 4, "seed": 7, "nested": {"ratio": 0.5, "names": ["a", "b"]}},
        "started_at": NOON,
        "commit": "0123456789ab",
    }
    return Run(id=id, **(fields | changes))


def source(number: int = 0) -> str:
    """Return a text of a small kernel's length; each number gives another text."""
    lines = [f"    value_{line} = tl.load(pointer + {line * 37 + number})" for line in range(30)]
    return "\n".join(["import triton", f"# kernel {number}", "def kernel(pointer):", *lines, "class ModelNew: ..."])


def observation(turn: int = 0, view: ProblemView | None = None, **changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "problem": view or problem(),
        "rules": Rules(),
        "turn": turn,
        "seed": 7 + turn,
        "budget": BudgetLeft(turns=4 - turn, seconds=float("inf"), tokens=None),
    }
    return Observation(**(fields | changes))


def full_observation(turn: int = 1) -> Observation:
    """Return an observation with every kind of part."""
    tried = Tried(
        attempt="20260131-120000-3fa9c1/0.0",
        turn=0,
        role=Role.PARENT,
        status=Status.PASSED,
        source=source(3),
        plan="one program per row",
        speedup=Interval(median=1.5, low=1.4, high=1.625),
        device_ms=0.25,
        diagnosis=diagnosis(),
    )
    failed = Tried(attempt="x/0.1", turn=0, role=Role.TRIED, status=None, finding=None, message="line \ud83d lost")
    lessons = (
        Lesson(kind="kernel", text=source(4), why="same structure", attempt="y/1.0", score=1.0, speedup=2.0),
        Lesson(kind="failure", text="short", why="often"),
    )
    return observation(turn, tried=(tried, failed), recalled=lessons)


def completion(text: str = "", **changes: Any) -> Completion:
    return Completion(text=text or source(), policy="author", policy_version="1", **changes)


def sampled(text: str = "", *, tokens: int = 50) -> Completion:
    """Return a completion as from a language model, with everything that training needs."""
    return completion(
        text,
        prompt_version="p1",
        reasoning="A row is read twice.",
        messages=(
            Message(role="system", content="You write kernels. " * 20),
            Message(role="user", content="Go."),
            Message(role="assistant", content="", calls=(ToolCall(id="c", name="profile", arguments="{}"),)),
            Message(role="tool", content="softmax: 0.1 ms", answers_call="c"),
        ),
        prompt_ids=tuple(range(100, 180)),
        token_ids=tuple((7919 * number) % 151_936 for number in range(tokens)),
        log_probabilities=tuple(-((number * 0.37) % 5.0) for number in range(tokens)),
        log_probabilities_of=Distribution.SAMPLED,
        adapter_version="a1",
        tokenizer="0123456789abcdef",
        sampling=SamplingRecord(
            temperature=0.8, top_p=1.0, top_k=0, pattern="", tokens_at_most=512, seed=2**61 + 1, extra_body="{}"
        ),
        group="fedcba98",
        mask=tuple(number % 7 != 0 for number in range(tokens)),
        finish_reason="stop",
        usage=Usage(
            prompt_tokens=80, cached_tokens=9, completion_tokens=tokens, reasoning_tokens=3, cost=0.001, wall_s=1.5
        ),
    )


def attempt(
    turn: int = 0, index: int = 0, *, run: str = "20260131-120000-3fa9c1", number: int | None = None, **changes: Any
) -> Attempt:
    text = source(number if number is not None else 100 * turn + index)
    fields: dict[str, Any] = {
        "parent": attempt_key(run, turn - 1, 0) if turn else None,
        "observation": observation(turn),
        "completion": completion(f"A plan.\n```python\n{text}\n```\nDone."),
        "plan": "fuse everything into one pass",
        "source": text,
        "created_at": at(turn + index / 100),
    }
    return Attempt(run=run, turn=turn, index=index, **(fields | changes))


def environment(device: str = "cpu", grader: str = "1") -> Environment:
    return verdicts.environment(device, target="cuda:90", sandbox=("namespaces", "seccomp"), grader=grader)


def diagnosis(traffic: float | None = 1.0) -> Diagnosis:
    return verdicts.diagnosis(
        floor_flops=2, traffic_ratio=traffic, torch_operators=("aten.add",), notes=("memory-bound",)
    )


def passed(of: Attempt, speedup: float | None = None, *, traffic: float | None = 1.0, minute: float = 100) -> Grading:
    """Return a grading that passed; with a speed-up it was timed on a GPU."""
    case = verdicts.right(metric="max", error=1e-7, original_error=2e-7, limit=float("inf"))
    return _graded(
        of,
        minute,
        verdicts.passed(
            *(() if speedup is None else (verdicts.timing(speedup),)),
            environment=environment("cpu" if speedup is None else H200),
            accuracy=(case,),
            diagnosis=diagnosis(traffic),
        ),
    )


def failed(of: Attempt, message: str = "wrong by 0.5 at (0, 1)", *, minute: float = 100) -> Grading:
    return _graded(of, minute, verdicts.failed(message=message, environment=environment()))


def unmeasured(of: Attempt, *, minute: float = 100) -> Grading:
    failure = InstrumentFailure(kind="WorkerLost", what="it died", where="gpu 0", remedy="try again")
    return Grading(attempt=of.key, failure=failure, machine=GradingMachine(), grader="1", graded_at=at(minute))


def _graded(of: Attempt, minute: float, verdict: Evaluation) -> Grading:
    return Grading(
        attempt=of.key,
        evaluation=dataclasses.replace(
            verdict, candidate=_hash(of.source or ""), problem=of.observation.problem.digest
        ),
        machine=GradingMachine(gpu=H200, driver="1", commit="0123456789ab", seed=3),
        grader="1",
        graded_at=at(minute),
    )


def end(run: str = "20260131-120000-3fa9c1", best: str | None = None, minute: float = 200, **changes: Any) -> RunEnd:
    fields: dict[str, Any] = {"stop_reason": "turns", "best": best, "ended_at": at(minute), "summary": {"turns": 4}}
    return RunEnd(run=run, **(fields | changes))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
