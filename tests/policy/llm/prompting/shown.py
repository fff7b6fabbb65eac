"""Observations built by hand from the examples, for tests and benchmarks of prompts."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from triton_agent.memory.observation import BudgetLeft, Lesson, Observation, ProblemView, Role, Rules, Tried
from triton_agent.tools.graph.graph import Node, OperatorGraph, Reference, TensorMeta
from triton_agent.tools.kernel_profile import Beside, KernelTime, Occupancy, Roofline, profile_of
from triton_agent.tools.machine.hardware import CardFacts
from triton_agent.tools.race.ceilings import Rates
from triton_agent.tools.results import DECISIONS, Diagnosis, Finding, Interval, KernelLaunch, KernelResources, Status

EXAMPLES = Path(__file__).parents[4] / "examples"
RUN = "20260131-154500-3fa9c1"
H200 = "NVIDIA H200"


def example(name: str) -> str:
    return (EXAMPLES / name).read_text(encoding="utf-8")


@functools.cache
def graph() -> dict[str, Any]:
    """Return the graph of a softmax over the rows of a matrix."""
    meta = TensorMeta(shape=(4096, 4096), dtype="float32", strides=(4096, 1))
    node = Node(
        index=0,
        operator="aten._softmax",
        overload="default",
        arguments=(Reference(name="x0"), -1, False),
        argument_names=("self", "dim", "half_to_float"),
        keywords={},
        outputs=(meta,),
    )
    whole = OperatorGraph(inputs={"x0": meta}, parameters={}, buffers={}, constants={}, nodes=(node,), outputs=("n0",))
    return whole.to_json()


RATES = Rates(copy_bytes_per_s=4.33e12, flops_per_s={"bf16": 7.2e14, "tf32": 3.9e14, "fp32": 5.1e13})
ROOFLINE = Roofline(
    floor_ms=0.031,
    bound="memory",
    flops_per_byte=0.625,
    bytes_moved=134_217_728,
    compute_ms=0.0016,
    unit="fp32",
    copy_bytes_per_s=RATES.copy_bytes_per_s,
    flops_per_s=RATES.flops_per_s,
    empty_kernel_ms=0.0021,
)


def problem(**changes: Any) -> ProblemView:
    view = ProblemView(
        digest="p" * 64,
        name="softmax",
        spec={"path": "/home/somebody/secret/softmax.py", "kind": "model_file", "class_name": None},
        source=example("softmax.py"),
        fingerprint="f",
        signature="s",
        graphs=(graph(),),
        input_structure="[*]",
        variants=("ROWS=4096, COLUMNS=4096", "ROWS=1, COLUMNS=512"),
        floor_bytes=134_217_728,
        floor_flops=83_886_080,
        floor_ms=0.031,
        device=H200,
        rates=RATES,
        torch="2.11.0",
        triton="3.6.0",
        card=CardFacts(compute_capability="9.0", multiprocessors=132, l2_bytes=50 << 20, memory_bytes=140 << 30),
    )
    return dataclasses.replace(view, **changes)


def diagnosis(**changes: Any) -> Diagnosis:
    moved = {"argument_bytes": 134_217_728, "programs": 4096}
    own = KernelTime(kernel="softmax_kernel", launches=1.0, device_ms=0.052, share=1.0, own=True, **moved)
    full = Occupancy(kernel="softmax_kernel", warps_share=0.75, blocks=12, limited_by="registers")
    profile = profile_of([own], Beside(call_ms=0.052, roofline=ROOFLINE, multiprocessors=132, occupancy=[full]))
    made = Diagnosis(
        floor_bytes=134_217_728,
        floor_flops=83_886_080,
        floor_ms=0.031,
        traffic_ratio=None,
        launches=(
            KernelLaunch(kernel="softmax_kernel", launches=1, programs=4096, bytes_loaded=None, bytes_stored=None),
        ),
        torch_operators=(),
        notes=("memory-bound: the floor is 0.0310 ms, 60% of the time taken", *profile.notes),
        roofline=ROOFLINE,
        profile=profile,
    )
    return dataclasses.replace(made, **changes)


def resources(**changes: Any) -> KernelResources:
    made = KernelResources(
        kernel="softmax_kernel",
        target="cuda:90",
        num_warps=4,
        num_stages=3,
        registers=40,
        spill_bytes=0,
        shared_bytes=64,
        stack_bytes=0,
        compile_ms=210.0,
        constants="BLOCK=1024",
    )
    return dataclasses.replace(made, **changes)


def passed(place: str, speed: float, role: Role = Role.INCUMBENT, **changes: Any) -> Tried:
    """Return a tried kernel that passed with a measured speed-up."""
    made = Tried(
        attempt=f"{RUN}/{place}",
        turn=int(place.partition(".")[0]),
        role=role,
        status=Status.PASSED,
        plan=f"Read each row twice instead of three times, {place}.",
        source=example("softmax_online.py") if role is not Role.TRIED else "",
        speedup=Interval(median=speed, low=0.98 * speed, high=1.02 * speed),
        device_ms=0.08 / speed,
        latency_ms=0.1 / speed,
        baselines_ms={"eager": 0.08, "compile": 0.0704},
        diagnosis=diagnosis() if role is not Role.TRIED else None,
        resources=(resources(),) if role is not Role.TRIED else (),
    )
    return dataclasses.replace(made, **changes)


def failed(place: str, finding: Finding, message: str, role: Role = Role.TRIED, **changes: Any) -> Tried:
    made = Tried(
        attempt=f"{RUN}/{place}",
        turn=int(place.partition(".")[0]),
        role=role,
        status=DECISIONS[finding].status,
        finding=finding,
        message=message,
        plan="Keep the row in half precision.",
        source=example("softmax_half.py") if role is not Role.TRIED else "",
    )
    return dataclasses.replace(made, **changes)


LESSONS = (
    Lesson(
        kind="kernel",
        text=example("softmax_online.py"),
        why="the same structure at other sizes; 1.80x on NVIDIA H200, at least 1.75x",
        speedup=1.8,
    ),
    Lesson(kind="lesson", text="num_warps 4 -> 8: faster than the attempt it set out from in 3 of 4", why="measured"),
    Lesson(kind="failure", text="NameError: name 'BLOCK' is not defined", why="raised, 5 times; alike in 3 operators"),
)
COMPILE_MESSAGE = (
    "line 17: `lanes = tl.arange(0, COLUMNS)`\n"
    "CompilationError: arange's range must be a power of 2\n"
    "likely cause: block sizes given to tl.arange must be powers of two; mask the rest"
)


def observation(*tried: Tried, **changes: Any) -> Observation:
    made = Observation(
        problem=problem(),
        rules=Rules(),
        turn=max((item.turn for item in tried), default=-1) + 1,
        attempts_before=len(tried),
        seed=7,
        budget=BudgetLeft(turns=5, seconds=417.0),
        tried=tried,
    )
    return dataclasses.replace(made, **changes)


def fresh() -> Observation:
    """Return the observation of a first turn without a GPU and without lessons."""
    seen = problem(
        device="cpu",
        floor_ms=None,
        card=None,
        rates=None,
        notes=("scaled down: ROWS 4096 -> 256, COLUMNS 4096 -> 512",),
    )
    return observation(problem=seen, budget=BudgetLeft(), rules=Rules(allow_library=True))


def repair() -> Observation:
    """Return an observation whose only attempt does not compile."""
    parent = failed("0.0", Finding.COMPILE, COMPILE_MESSAGE, Role.PARENT)
    seen = problem(device="cpu", floor_ms=None, card=None, rates=None)
    return observation(
        parent, problem=seen, rules=Rules(precision="tf32", target="cuda:80"), budget=BudgetLeft(turns=1)
    )


def improve() -> Observation:
    """Return an observation late in a run on a GPU, with every part that a prompt can show."""
    return observation(
        failed("0.0", Finding.NO_MODEL, "there is no ```python block: write a plan", source="", plan="I do not know."),
        passed("0.1", 0.9, Role.CONTRAST, plan='decided: {"tiles": {}}\nOne element a program.'),
        failed("1.0", Finding.PRECISION, "case ROWS=1: out is less accurate than the reference: 502 of 512"),
        passed("1.1", 1.1, Role.TRIED, plan="Two rows a program."),
        passed("2.0", 1.2),
        passed("2.1", 1.3, resources=(resources(spill_bytes=16), resources(constants="BLOCK=2048"))),
        passed("3.0", 1.52, Role.PARENT),
        Tried(attempt=f"{RUN}/3.1", turn=3, role=Role.TRIED, status=None, message="the GPU was busy"),
        failed("3.2", Finding.COMPILE, COMPILE_MESSAGE, plan="A block of all columns."),
        recalled=LESSONS,
        budget=BudgetLeft(turns=2, seconds=417.4, tokens=120_000, cost=1.25),
    )


EXAMPLES_SHOWN = {"fresh": fresh, "repair": repair, "improve": improve}
