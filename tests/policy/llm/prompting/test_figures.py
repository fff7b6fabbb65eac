"""Every figure in a prompt comes from the measurements that it should come from, and from no other.

A prompt is made from raw measurements by the functions that make it in a run: times of steps, races, rates of the card,
the compiler's report, the counts of the interpreter. Each measurement in turn is changed by a few per cent, and the
figures of the prompt that change with it are noted. `SOURCES_ON_A_GPU` and `SOURCES_WITHOUT` say which they should be.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.policy.llm.prompting import shown

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import observe, step
from triton_agent.policy.llm.prompting.prompt import render
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.profiling import against
from triton_agent.tools.checker.verdict import evaluation_of
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.kernel_profile import Beside, KernelTime, Occupancy, profile_of
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.ceilings import Ceilings, Rates
from triton_agent.tools.results import CaseAccuracy, Evaluation, Interval, KernelLaunch, KernelResources, Timing
from triton_agent.tools.settings import EvaluatorSettings

Raw = Mapping[str, float]
Figures = Callable[[Observation], Iterator[tuple[str, str]]]
FIGURE = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
NAMES = re.compile(r"attempt \d+\.\d+|cuda:\d+|`(?:torch|triton|[A-Z]+=)[^`]*`|\b(?:H200|H100|bf16|tf32|fp32|L2)\b")
"""Digits that are no figure."""
MEASURED = ("Hardware and versions", "Times of a call", "The attempt to improve", "Your answer")
"""Titles of the parts that hold figures of measurements."""
TOLD = 0.04
"""How far each measurement is changed, up and down: enough for two digits, too little to change what is told."""

ON_A_GPU: dict[str, float] = {
    "rate of a copy": 3.31e12,
    "rate of bf16": 7.13e14,
    "rate of tf32": 3.87e14,
    "rate of fp32": 5.23e13,
    "time of an empty kernel": 0.00217,
    "least bytes": 134_217_728,
    "least operations": 83_886_080,
    "multiprocessors": 132,
    "bytes of L2": 50 << 20,
    "bytes of memory": 79 << 30,
    "clock of the multiprocessors": 1980,
    "time of the reference": 0.2317,
    "time of the compiled": 0.1523,
    "time of the candidate": 0.2033,
    "latency of the candidate": 0.2011,
    "speed-up": 1.337,
    "speed-up at least": 1.271,
    "speed-up at most": 1.403,
    "launches of softmax_kernel": 3,
    "programs of softmax_kernel": 4096,
    "time of softmax_kernel": 0.1011,
    "bytes of softmax_kernel": 134_217_728,
    "launches of aten.clone": 3,
    "time of aten.clone": 0.0677,
    "bytes of aten.clone": 67_108_864,
    "share of warps": 0.75,
    "warps": 4,
    "stages": 3,
    "registers": 82,
    "spilled bytes": 96,
    "bytes of shared memory": 2048,
    "turns": 9,
}
WITHOUT: dict[str, float] = {
    "least bytes": 1_048_576,
    "least operations": 655_360,
    "launches": 3,
    "programs": 7,
    "bytes loaded": 900_000,
    "bytes stored": 830_000,
    "warps": 4,
    "stages": 3,
    "registers": 82,
    "spilled bytes": 24,
    "bytes of shared memory": 2048,
    "turns": 9,
}


ONE_KERNEL: dict[str, float] = {
    "spilled bytes": 0,
    "launches of softmax_kernel": 1,
    "launches of aten.clone": 1,
    "time of softmax_kernel": 0.2311,
    "time of aten.clone": 0.0077,
    "time of the candidate": 0.2511,
}
OTHER_BOTTLENECKS: dict[str, dict[str, float]] = {
    "memory traffic": {
        **ONE_KERNEL,
        "bytes of softmax_kernel": 671_088_640,
        "time of softmax_kernel": 0.2111,
        "time of the candidate": 0.2311,
    },
    "bandwidth": ONE_KERNEL,
    "parallelism": {**ONE_KERNEL, "programs of softmax_kernel": 48},
    "parallelism, by warps": {**ONE_KERNEL, "programs of softmax_kernel": 301},
    "occupancy": {**ONE_KERNEL, "share of warps": 0.125},
    "compute": {**ONE_KERNEL, "least operations": 5_000_000_000},
}
"""What differs where another bottleneck comes first."""
SOURCES_ON_A_GPU = [
    ("GPU: `NVIDIA H200`: `compute capability", ""),
    (",", "multiprocessors"),
    ("multiprocessors,", "bytes of L2"),
    ("MiB of L2,", "bytes of memory"),
    ("GiB of memory, multiprocessors at up to", "clock of the multiprocessors"),
    ("compiled for `cuda:90`:", ""),
    ("threads a warp, at most", ""),
    ("KiB of shared memory a program,", ""),
    ("measured on this GPU: a large copy moves", "rate of a copy"),
    ("TB/s, read plus written; TFLOP/s of matrix products:", "rate of bf16"),
    ("in bf16,", "rate of tf32"),
    ("in tf32,", "rate of fp32"),
    ("least work of a call at the given sizes:", "least bytes"),
    ("bytes moved,", "least operations"),
    ("operations (", "least bytes, least operations"),
    ("the reference takes", "time of the reference"),
    ("the reference as `compile` takes", "time of the compiled"),
    ("the floor is", "rate of a copy, least bytes"),
    ("attempt 0.0, the best so far, takes", "time of the candidate"),
    ("ms, of which the floor is", "rate of a copy, least bytes, time of the candidate"),
    ("%; it has", "speed-up"),
    ("x (", "speed-up at least"),
    ("x to", "speed-up at most"),
    ("verdict: passed,", "speed-up"),
    ("x (", "speed-up at least"),
    ("x to", "speed-up at most"),
    ("time:", "time of the candidate"),
    ("ms on the device,", "latency of the candidate"),
    ("`memory-bound: the floor is", "rate of a copy, least bytes"),
    ("ms,", "rate of a copy, least bytes, time of the candidate"),
    ("`bottleneck: torch operators, costs up to", "time of aten.clone"),
    ("ms of", "time of the candidate"),
    ("ms: aten.clone", "time of aten.clone"),
    ("`bottleneck: spills, costs up to", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
    ("ms of", "time of the candidate"),
    ("ms: softmax_kernel spills", "spilled bytes"),
    (
        "`bottleneck: launches, costs up to",
        "time of an empty kernel, time of the candidate, launches of softmax_kernel, time of softmax_kernel, "
        "launches of aten.clone, time of aten.clone",
    ),
    ("ms of", "time of the candidate"),
    ("ms:", "launches of softmax_kernel, launches of aten.clone"),
    ("`softmax_kernel takes", "time of softmax_kernel, time of aten.clone"),
    ("`", "launches of softmax_kernel"),
    ("`softmax_kernel`:", "time of softmax_kernel"),
    ("ms,", "time of softmax_kernel, time of aten.clone"),
    ("% of the device time,", "launches of softmax_kernel"),
    ("launches,", "programs of softmax_kernel"),
    ("programs in a launch,", "launches of softmax_kernel, bytes of softmax_kernel"),
    ("`aten.clone`:", "time of aten.clone"),
    ("ms,", "time of softmax_kernel, time of aten.clone"),
    ("% of the device time,", "launches of aten.clone"),
    ("launches,", "launches of aten.clone, bytes of aten.clone"),
    ("`softmax_kernel` with `BLOCK=1024`:", "warps"),
    ("warps,", "stages"),
    ("stages,", "registers"),
    ("registers a thread, spills", "spilled bytes"),
    ("bytes a thread,", "bytes of shared memory"),
    ("Turns left:", "turns"),
]
SOURCES_WITHOUT = [
    ("compiled for `cuda:90` (for example H100 SXM,", ""),
    ("multiprocessors):", ""),
    ("threads a warp, at most", ""),
    ("KiB of shared memory a program,", ""),
    ("least work of a call at the given sizes:", "least bytes"),
    ("bytes moved,", "least operations"),
    ("operations (", "least bytes, least operations"),
    ("verdict: passed, moves", "least bytes, bytes loaded, bytes stored"),
    ("`softmax_kernel spills", "spilled bytes"),
    ("`the kernels move", "least bytes, bytes loaded, bytes stored"),
    ("`", "launches"),
    ("`softmax_kernel`:", "launches"),
    ("launches,", "programs"),
    ("programs in all, loads", "bytes loaded"),
    ("bytes, stores", "bytes stored"),
    ("`softmax_kernel` with `BLOCK=1024`:", "warps"),
    ("warps,", "stages"),
    ("stages,", "registers"),
    ("registers a thread, spills", "spilled bytes"),
    ("bytes a thread,", "bytes of shared memory"),
    ("Turns left:", "turns"),
]
SOURCES_OF_BOTTLENECKS = {
    "memory traffic": [
        ("`bottleneck: memory traffic, costs up to", "rate of a copy, least bytes, bytes of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: your kernels are given", "bytes of softmax_kernel"),
        ("bytes,", "least bytes, bytes of softmax_kernel"),
    ],
    "bandwidth": [
        ("`bottleneck: bandwidth, costs up to", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: softmax_kernel moves its arguments at", "time of softmax_kernel, bytes of softmax_kernel"),
        ("TB/s,", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
        ("% of the", "rate of a copy"),
    ],
    "parallelism": [
        ("`bottleneck: parallelism, costs up to", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: softmax_kernel runs", "programs of softmax_kernel"),
        ("programs on", "multiprocessors"),
    ],
    "parallelism, by warps": [
        ("`bottleneck: parallelism, costs up to", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: softmax_kernel runs", "programs of softmax_kernel"),
        ("programs of", "warps"),
        ("warps,", "multiprocessors, programs of softmax_kernel, warps"),
        ("% of the warps that", "multiprocessors"),
    ],
    "occupancy": [
        ("`bottleneck: occupancy, costs up to", "rate of a copy, time of softmax_kernel, bytes of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: softmax_kernel fills", "share of warps"),
    ],
    "compute": [
        ("`bottleneck: compute, costs up to", "rate of fp32, least operations, time of softmax_kernel"),
        ("ms of", "time of the candidate"),
        ("ms: softmax_kernel computes at", "rate of fp32, least operations, time of softmax_kernel"),
        ("% of the", "rate of fp32"),
    ],
}


def observed_on_a_gpu(raw: Raw) -> Observation:
    """Return the observation after one attempt with these measurements."""
    ceilings = Ceilings(
        gpu=shown.H200,
        uuid="GPU-0",
        driver="1",
        torch="2.11.0",
        measured_at="",
        copy_bytes_per_s=raw["rate of a copy"],
        flops_per_s={unit: raw[f"rate of {unit}"] for unit in ("bf16", "tf32", "fp32")},
        launch_ms=0.01,
        launch_enqueue_ms=0.005,
        empty_kernel_ms=raw["time of an empty kernel"],
    )
    least = UnitFlops(unit="vector float32", flops=int(raw["least operations"]))
    roofline = against(int(raw["least bytes"]), [least], ceilings, Conditions())
    times = {"softmax_kernel": raw["time of softmax_kernel"], "aten.clone": raw["time of aten.clone"]}
    kernels = [
        KernelTime(
            kernel=name,
            launches=raw[f"launches of {name}"],
            device_ms=device_ms,
            share=device_ms / sum(times.values()),
            own=name == "softmax_kernel",
            argument_bytes=int(raw[f"bytes of {name}"]),
            programs=int(raw["programs of softmax_kernel"]) if name == "softmax_kernel" else None,
        )
        for name, device_ms in times.items()
    ]
    full = Occupancy(kernel="softmax_kernel", warps_share=raw["share of warps"], blocks=12, limited_by="registers")
    beside = Beside(
        call_ms=raw["time of the candidate"],
        roofline=roofline,
        multiprocessors=int(raw["multiprocessors"]),
        resources=[resources_of(raw)],
        occupancy=[full],
    )
    card = Gpu(
        name=shown.H200,
        uuid="GPU-0",
        compute_capability="9.0",
        memory_bytes=int(raw["bytes of memory"]),
        sm_count=int(raw["multiprocessors"]),
        l2_bytes=int(raw["bytes of L2"]),
        driver=None,
        max_sm_clock_mhz=int(raw["clock of the multiprocessors"]),
        max_memory_clock_mhz=None,
    )
    job = job_of("cuda", raw)
    job.roofline, job.profile = roofline, profile_of(kernels, beside)
    job.launches = [
        KernelLaunch(
            kernel="softmax_kernel",
            launches=int(raw["launches of softmax_kernel"]),
            programs=int(raw["programs of softmax_kernel"]),
            bytes_loaded=None,
            bytes_stored=None,
        )
    ]
    candidate_ms, speedup = raw["time of the candidate"], ("speed-up", "speed-up at least", "speed-up at most")
    ratio = Interval(**dict(zip(("median", "low", "high"), (raw[name] for name in speedup))))
    job.timings = [
        timing("eager (float32 matmul, tf32 conv)", "device", raw["time of the reference"], candidate_ms, ratio),
        timing("compile (float32 matmul, tf32 conv)", "device", raw["time of the compiled"], candidate_ms, exact(1.1)),
        timing("eager (float32 matmul, tf32 conv)", "latency", 0.3, raw["latency of the candidate"], exact(1.5)),
    ]
    return observed(job, facts_of(raw, device=shown.H200, rates=Rates.of(ceilings)), raw, card)


def observed_without(raw: Raw) -> Observation:
    """Return the observation after one attempt that the interpreter judged."""
    job = job_of("cpu", raw)
    job.launches = [
        KernelLaunch(
            kernel="softmax_kernel",
            launches=int(raw["launches"]),
            programs=int(raw["programs"]),
            bytes_loaded=int(raw["bytes loaded"]),
            bytes_stored=int(raw["bytes stored"]),
        )
    ]
    return observed(job, facts_of(raw, device="cpu", rates=None), raw)


def exact(value: float) -> Interval:
    return Interval(median=value, low=value, high=value)


def timing(baseline: str, kind: str, baseline_ms: float, candidate_ms: float, ratio: Interval) -> Timing:
    times = {"candidate_ms": exact(candidate_ms), "baseline_ms": exact(baseline_ms), "speedup": ratio}
    return Timing(baseline=baseline, kind=kind, **times, pairs=20, cold_l2=True, method="events")


def resources_of(raw: Raw) -> KernelResources:
    return shown.resources(
        num_warps=int(raw["warps"]),
        num_stages=int(raw["stages"]),
        registers=int(raw["registers"]),
        spill_bytes=int(raw["spilled bytes"]),
        shared_bytes=int(raw["bytes of shared memory"]),
    )


def job_of(device: str, raw: Raw) -> Job:
    """Return a candidate whose stages are done; processes and plan are not needed any more."""
    unused: Any = None
    checked = CaseAccuracy(
        variant="ROWS=1",
        distribution="as given",
        output="out",
        metric="l2",
        error=0.0,
        original_error=0.0,
        limit=1.0,
        ok=True,
    )
    return Job(
        source="",
        plan=unused,
        settings=EvaluatorSettings(device=device),
        programs=unused,
        runner=unused,
        compiler=None,
        on_stage=lambda stage: None,
        gpu=unused,
        resources=[resources_of(raw)],
        accuracy=[checked],
    )


def facts_of(raw: Raw, *, device: str, rates: Rates | None) -> ProblemFacts:
    least = {"floor_bytes": int(raw["least bytes"]), "floor_flops": int(raw["least operations"])}
    return ProblemFacts(
        name="softmax",
        digest="p" * 64,
        variants=("ROWS=4096, COLUMNS=4096",),
        cases=1,
        fingerprint="f",
        signature="s",
        graphs=(),
        train_graphs=(),
        numbers=(),
        tensors=(),
        input_structure="[*]",
        **least,
        scaled="",
        notes=(),
        floor_bytes_main=least["floor_bytes"],
        floor_flops_main=least["floor_flops"],
        device=device,
        gpu="GPU-0" if rates else "",
        target="cuda:90",
        torch="2.11.0",
        python="3.12.3",
        triton="3.6.0",
        rates=rates,
    )


def observed(job: Job, facts: ProblemFacts, raw: Raw, *cards: Gpu) -> Observation:
    """Return what the next author is shown of a candidate, as a run would show it."""

    class Judge:
        async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
            return evaluation_of(job, facts, layers=())

    view = ProblemView.of(parse_problem(str(shown.EXAMPLES / "softmax.py")), facts, cards)
    left = BudgetLeft(turns=int(raw["turns"]))
    asked = observe(view, Rules(), [], left, turn=0, attempts_before=0, seed=7)
    answer = Completion(text=write_answer("Read each row twice.", shown.example("softmax_online.py")), policy="model")
    graded = asyncio.run(step(shown.RUN, asked, answer, Judge()))
    return observe(view, Rules(), [graded], left, turn=1, attempts_before=1, seed=7, parent=graded.attempt.key)


def figures(seen: Observation) -> Iterator[tuple[str, str]]:
    """Yield the words before each figure of the measured parts, and the figure."""
    text = re.sub(r"```.*?```", "", render(seen, budget_tokens=100_000, count=len).messages[1].content, flags=re.DOTALL)
    for part in re.split(r"^# ", text, flags=re.MULTILINE):
        if part.startswith(MEASURED):
            for line in part.split("\n\n")[1].splitlines():
                at = 0
                for found in FIGURE.finditer(NAMES.sub(lambda name: re.sub(r"\d", "#", name[0]), line)):
                    yield line[at : found.start()].strip("- "), found[0]
                    at = found.end()


def bottleneck_figures(seen: Observation) -> Iterator[tuple[str, str]]:
    """Yield the words before each figure of the bottlenecks alone, and the figure."""
    told = False
    for words, figure in figures(seen):
        told = words.startswith("`bottleneck") or (told and not words.startswith("`"))
        if told:
            yield words, figure


def sources(make: Callable[[Raw], Observation], raw: Raw, figures: Figures = figures) -> list[tuple[str, str]]:
    """Return the words before each figure, and the measurements that change it."""
    before = list(figures(make(raw)))
    found: list[list[str]] = [[] for _ in before]
    for name, value in raw.items():
        if value == 0:  # told by silence
            continue
        step = TOLD * value if isinstance(value, float) else max(1, int(TOLD * value))
        more, less = (list(figures(make({**raw, name: changed}))) for changed in (value + step, value - step))
        words = [words for words, _ in before]
        assert [[words for words, _ in after] for after in (more, less)] == [words, words], f"{name} changes words"
        for own, (_, old), (_, larger), (_, smaller) in zip(found, before, more, less):
            own += [name] if not old == larger == smaller else []
    return [(words, ", ".join(own)) for (words, _), own in zip(before, found)]


@pytest.mark.parametrize("where", ["on a GPU", "without"])
def test_every_figure_comes_from_its_measurements_alone(where: str) -> None:
    make, raw, expected = {
        "on a GPU": (observed_on_a_gpu, ON_A_GPU, SOURCES_ON_A_GPU),
        "without": (observed_without, WITHOUT, SOURCES_WITHOUT),
    }[where]
    assert sources(make, raw) == expected


@pytest.mark.parametrize("name", OTHER_BOTTLENECKS)
def test_figures_of_each_bottleneck_come_from_its_measurements_alone(name: str) -> None:
    found = sources(observed_on_a_gpu, ON_A_GPU | OTHER_BOTTLENECKS[name], bottleneck_figures)
    assert found == SOURCES_OF_BOTTLENECKS[name]
    assert found[0][0].startswith(f"`bottleneck: {name.partition(',')[0]},")


@pytest.mark.parametrize(("raw", "table"), [(ON_A_GPU, "SOURCES_ON_A_GPU"), (WITHOUT, "SOURCES_WITHOUT")])
def test_every_measurement_is_in_the_prompt(raw: Raw, table: str) -> None:
    told = {name for _, names in globals()[table] for name in names.split(", ")}
    assert set(raw) - told <= {"share of warps"}, "told only where too few warps are the bottleneck"
