"""Profiles, and the baselines they are compared with: computations and texts, without a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from triton_agent.policy.llm.prompting.counting import token_bound
from triton_agent.tools.checker.profiling import Leaders, against, condensed, units
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.kernel_profile import (
    Beside,
    KernelTime,
    Multiprocessor,
    Occupancy,
    StepTime,
    occupancy,
    profile_of,
    roofline_notes,
)
from triton_agent.tools.kernels.kernel import JitFunction, KernelSet
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baselines import compiled
from triton_agent.tools.race.ceilings import Ceilings
from triton_agent.tools.results import KernelResources, to_json
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.tape.tape import Allocate, Buffer, Choice, Launch, Operate, Place, Tape, View


def needs(**changes: Any) -> KernelResources:
    facts: dict[str, Any] = {
        "kernel": "softmax_kernel",
        "target": "cuda:90",
        "num_warps": 4,
        "num_stages": 3,
        "registers": 32,
        "spill_bytes": 0,
        "shared_bytes": 1024,
        "stack_bytes": 0,
        "compile_ms": 0.0,
    }
    return KernelResources(**{**facts, **changes})


def reach(**rates: float) -> Ceilings:
    return Ceilings(
        gpu="a card",
        uuid="GPU-0",
        driver="1",
        torch="2",
        measured_at="",
        copy_bytes_per_s=4e12,
        flops_per_s={"bf16": 8e14, "fp16": 8e14, "tf32": 4e14, "fp32": 5e13, "fp64": 6e13, **rates},
        launch_ms=0.01,
        launch_enqueue_ms=0.005,
        empty_kernel_ms=0.002,
    )


LINE = against(128 << 20, [UnitFlops(unit="matmul bfloat16", flops=10**9)], reach(), Conditions())
"""Memory-bound: 0.034 ms for the bytes at 4 TB/s."""


def kernel(name: str = "softmax_kernel", device_ms: float = 0.1, **changes: Any) -> KernelTime:
    facts: dict[str, Any] = {"launches": 1, "share": 1.0, "own": True, "argument_bytes": 128 << 20, "programs": 4096}
    return KernelTime(**{"kernel": name, "device_ms": device_ms, **facts, **changes})


def beside(**changes: Any) -> Beside:
    return Beside(**{"roofline": LINE, "multiprocessors": 132, **changes})


X = View(buffer=0, dtype="float32", shape=(64, 32), strides=(32, 1), offset=0)
Y = dataclasses.replace(X, buffer=1)
SOFTMAX = JitFunction(name="softmax_kernel", source="def softmax_kernel(x, y): pass", parameters=(), globals=())


def program() -> Program:
    """A tape with a clone by torch, then two launches of one kernel."""
    arguments = (("x", X), ("y", Y))
    choices = tuple(
        Choice(kernel=SOFTMAX.identity, grid=(programs, 1, 1), arguments=arguments, options=()) for programs in (64, 8)
    )
    clone = Operate(operator="aten.clone.default", args=(X,), kwargs=(), results=(Y,))
    launch = Launch(choices=choices, line=3)
    buffers = tuple(Buffer(place=Place.FRESH, size_bytes=64 * 32 * 4) for _ in range(2))
    steps = (Allocate(buffer=1), clone, launch, launch)
    tape = Tape(buffers=buffers, inputs=(X,), arguments=(), state=(), prologue=(), steps=steps, outputs=(Y,), tree=None)
    return Program(
        name="main",
        tape=tape,
        encoded=None,
        kernels=None,
        kernel_set=KernelSet.of([SOFTMAX]),
        init=None,  # type: ignore[arg-type]
        seed=0,
        writes_state=False,
    )


def test_device_time_is_shared_out_among_kernels_and_operators() -> None:
    steps = [StepTime(step=1, choice=0, device_ms=0.02), *(StepTime(step=n, choice=1, device_ms=0.03) for n in (2, 3))]
    profile = condensed(steps, program(), [needs(registers=255, num_warps=8)])
    assert profile.device_ms == pytest.approx(0.08)
    assert profile.own_share == pytest.approx(0.75)
    assert [(item.kernel, item.launches, item.own, item.programs) for item in profile.kernels] == [
        ("softmax_kernel", 2, True, 8),
        ("aten.clone.default", 1, False, None),
    ]
    assert profile.kernels[0].argument_bytes == 2 * 2 * 64 * 32 * 4
    assert profile.occupancy[0].limited_by == "registers"
    assert profile.bottlenecks[0].name == "torch operators" and profile.bottlenecks[0].lost_ms == pytest.approx(0.02)
    assert "aten.clone.default 0.02 ms" in profile.notes[0]
    assert to_json(profile)["kernels"][0]["own"] is True


@pytest.mark.parametrize(
    "forged",
    [
        StepTime(step=4, choice=0, device_ms=1.0),
        StepTime(step=-1, choice=0, device_ms=1.0),
        StepTime(step=2, choice=2, device_ms=1.0),
        StepTime(step=1, choice=0, device_ms=float("nan")),
        StepTime(step=1, choice=0, device_ms=-1.0),
    ],
)
def test_times_of_no_step_are_refused(forged: StepTime) -> None:
    with pytest.raises(ValueError, match="no time of a step"):
        condensed([forged], program(), [])


def test_a_call_without_kernels_has_a_profile_that_says_so() -> None:
    profile = profile_of([], Beside())
    assert (profile.device_ms, profile.own_share, profile.kernels) == (0, 0, ())
    assert profile.notes == ("no kernel took any time",)


FULL = Occupancy(kernel="softmax_kernel", warps_share=1.0, blocks=16, limited_by="warps")
SPARSE = dataclasses.replace(FULL, warps_share=0.125, limited_by="shared memory")
PRODUCT = against(128 << 20, [UnitFlops(unit="matmul bfloat16", flops=8 * 10**10)], reach(), Conditions())
"""Compute-bound: 0.1 ms at 800 TFLOP/s."""
FLOAT32 = against(128 << 20, [UnitFlops(unit="matmul float32", flops=2 * 10**10)], reach(), Conditions())
"""Compute-bound: 0.15 ms for three times the operations at 400 TFLOP/s."""


@pytest.mark.parametrize(
    ("kernels", "read_beside", "name", "lost_ms", "told"),
    [
        ([kernel(), kernel("aten.mm", 0.3, own=False)], beside(), "torch operators", 0.3, "aten.mm 0.3 ms"),
        ([kernel(launches=9)], beside(call_ms=0.3), "launches", 0.2 + 8 * 0.002, "9 launches and operators"),
        ([kernel(argument_bytes=512 << 20, device_ms=0.14)], beside(), "memory traffic", 0.1007, "4.0x the fewest"),
        ([kernel()], beside(resources=[needs(spill_bytes=64)]), "spills", 0.0664, "spills 64 bytes a thread"),
        ([kernel(programs=16)], beside(), "parallelism", 0.0664, "16 programs on 132 multiprocessors"),
        ([kernel()], beside(occupancy=[SPARSE]), "occupancy", 0.0664, "12% of the warps"),
        ([kernel()], beside(occupancy=[FULL]), "bandwidth", 0.0664, "1.34 TB/s, 34% of the 4 TB/s of a copy"),
        ([kernel(programs=256)], beside(resources=[needs()]), "parallelism", 0.0664, "12% of the warps that 132"),
        ([kernel(device_ms=0.4)], beside(roofline=PRODUCT), "compute", 0.3, "25% of the 800 TFLOP/s"),
        ([kernel(device_ms=0.5)], beside(roofline=FLOAT32), "compute", 0.35, "30% of the 133 TFLOP/s that float32"),
        ([kernel(device_ms=0.5)], beside(roofline=FLOAT32, resources=[needs(tensor_cores=False)]), "compute", 0.35,
         "computes without tensor cores, at 30% of the 133"),
        ([kernel(device_ms=0.4)], beside(roofline=PRODUCT, resources=[needs(spill_bytes=8)]), "compute", 0.3, "25%"),
    ],
)  # fmt: skip
def test_the_costliest_bottleneck_is_named_with_its_cost_and_evidence(
    kernels: list[KernelTime], read_beside: Beside, name: str, lost_ms: float, told: str
) -> None:
    profile = profile_of(kernels, read_beside)
    first = profile.bottlenecks[0]
    assert (first.name, first.lost_ms) == (name, pytest.approx(lost_ms, rel=0.01))
    assert told in first.words
    assert profile.notes[0].startswith(f"bottleneck: {name}, costs up to ")


def test_a_kernel_that_is_launched_for_each_row_is_not_taken_to_move_whole_tensors_each_time() -> None:
    """As 128 launches on an H100 were measured, whose arguments would have been moved at 8.5 TB/s."""
    steps = kernel(device_ms=0.411, launches=128, argument_bytes=3_498_049_536, programs=64)
    profile = profile_of([steps], beside(call_ms=0.33))
    assert [item.name for item in profile.bottlenecks] == ["launches", "parallelism"]
    assert profile.bottlenecks[0].lost_ms == pytest.approx(127 * 0.002)
    assert profile.device_ms == pytest.approx(0.33), "not longer than the call"


def test_a_kernel_near_the_floor_has_no_bottleneck() -> None:
    assert profile_of([kernel(device_ms=0.036)], beside(occupancy=[FULL])).bottlenecks == ()


def test_all_words_of_a_profile_take_less_than_400_tokens() -> None:
    long = "a_kernel_with_a_name_of_sixty_characters_that_goes_on_and_on"
    operators = [kernel(f"aten.{long}.default", 1.0, own=False) for _ in range(9)]
    worst = [kernel(long * 3, 9.0, launches=9, argument_bytes=40 << 30, programs=1), *operators]
    profile = profile_of(worst, beside(call_ms=90.0))
    assert {item.name for item in profile.bottlenecks} >= {"torch operators", "launches", "memory traffic"}
    assert sum(map(token_bound, profile.notes)) < 400


def test_the_two_fastest_so_far_lead() -> None:
    leaders = Leaders()
    assert [leaders.admit(ms) for ms in (5.0, 4.0, 4.5, 6.0, 1.0, 4.2)] == [True, True, True, False, True, False]


@pytest.mark.parametrize(
    ("changes", "blocks", "share", "limit"),
    [
        ({"registers": 32}, 16, 1.0, "registers"),
        ({"registers": 128}, 4, 0.25, "registers"),
        ({"registers": 16, "num_warps": 1}, 32, 0.5, "blocks"),
        ({"registers": 16, "shared_bytes": 100 << 10}, 2, 0.125, "shared memory"),
        ({"registers": 16, "num_warps": 32}, 2, 1.0, "warps"),
    ],
)
def test_occupancy_is_what_the_scarcest_resource_leaves(
    changes: dict[str, int], blocks: int, share: float, limit: str
) -> None:
    given = {"registers": 32, "shared_bytes": 0, "num_warps": 4, **changes}
    found = occupancy("kernel", **given)
    assert found is not None
    assert (found.blocks, found.warps_share, found.limited_by) == (blocks, share, limit)


def test_what_fits_nowhere_has_no_occupancy() -> None:
    assert occupancy("kernel", registers=255, shared_bytes=0, num_warps=64) is None
    small = Multiprocessor(shared_bytes=48 << 10)
    assert occupancy("kernel", registers=32, shared_bytes=64 << 10, num_warps=4, has=small) is None


def test_products_are_held_against_the_fastest_unit_of_the_accuracy_asked_for() -> None:
    product, rest = UnitFlops(unit="matmul float32", flops=10**12), UnitFlops(unit="vector bfloat16", flops=10**9)
    rates = reach().flops_per_s
    assert units([product, rest], rates, Conditions(precision="tf32")) == {"tf32": 1e12, "fp32": 1e9}
    assert units([product], rates, Conditions()) == {"tf32": 3e12}  # three products in TF32 make one of float32
    assert units([product], {**rates, "tf32": 1e14}, Conditions()) == {"fp32": 1e12}
    assert units([UnitFlops(unit="matmul float8_e4m3fn", flops=7)], rates, Conditions()) == {}


def test_the_floor_says_what_binds() -> None:
    moved = against(4 * 10**9, [UnitFlops(unit="vector float32", flops=10**9)], reach(), Conditions())
    assert (moved.bound, moved.flops_per_byte) == ("memory", 0.25)
    assert moved.floor_ms == pytest.approx(1.0)
    assert moved.copy_ms is None
    measured = dataclasses.replace(reach(), copies_ms=((10**9, 0.3), (4 * 10**9, 1.1)))
    assert against(4 * 10**9, [], measured, Conditions()).copy_ms == pytest.approx(1.1)
    computed = against(4 * 10**6, [UnitFlops(unit="matmul bfloat16", flops=8 * 10**12)], reach(), Conditions())
    assert computed.bound == "compute"
    assert computed.floor_ms == pytest.approx(10.0)
    assert "50% of the time" in roofline_notes(moved, 2.0)[0]
    assert "little can be gained" in roofline_notes(moved, 1.1)[0]


# -- baselines -----------------------------------------------------------------------------------------------------


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_baseline_that_does_not_compile_is_a_note_and_no_failure() -> None:
    original = Twice()

    def call(module: Any, args: list[Any]) -> Any:
        if module is not original:
            raise RuntimeError("the compiler has a bug\nand a long story")
        return module(*args)

    module, note = compiled("compile", original, [torch.ones(3)], call)
    assert module is None
    assert note == "baseline compile was not measured: RuntimeError: the compiler has a bug"


def test_a_baseline_that_computes_something_else_is_left_out() -> None:
    original = Twice()

    def call(module: Any, args: list[Any]) -> Any:
        return original(*args) if module is original else original(*args) + 1

    module, note = compiled("compile-reduce-overhead", original, [torch.ones(3)], call)
    assert module is None
    assert "something else" in note


@pytest.mark.slow
def test_a_compiled_original_is_a_baseline() -> None:
    told = []

    @contextlib.contextmanager
    def off_gpu(*, off: bool = True) -> Iterator[None]:
        told.append(off)
        yield

    module, note = compiled("compile", Twice(), [torch.ones(3)], lambda module, args: module(*args), off_gpu)
    assert note == ""
    assert told == [True]
    assert torch.equal(module(torch.ones(3)), torch.full((3,), 2.0))


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"baselines": ("fast",)}, {"precision": "tf33"}, {"autocast": "half"}, {"max_memory_ratio": 0.0}):
        with pytest.raises(ValueError, match=r"\w"):
            EvaluatorSettings(**wrong)  # type: ignore[arg-type]
