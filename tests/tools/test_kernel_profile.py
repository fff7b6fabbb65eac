"""What a profile says, and the baselines it is read beside: arithmetic and words, without a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from triton_agent.tools.checker.profiling import against, condensed, units
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.kernel_profile import (
    Multiprocessor,
    ProfileRow,
    kernel_times,
    occupancy,
    profile_of,
    roofline_notes,
)
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baselines import compiled
from triton_agent.tools.race.ceilings import Ceilings
from triton_agent.tools.results import KernelLaunch, KernelResources, to_json
from triton_agent.tools.settings import EvaluatorSettings

ROWS = [
    ProfileRow(kernel="softmax_kernel", count=10, device_us=300.0),
    ProfileRow(kernel="void at::native::copy", count=5, device_us=95.0),
    ProfileRow(kernel="Memset (Device)", count=5, device_us=5.0),
]


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


def test_device_time_is_shared_out_by_kernel_and_call() -> None:
    profile = profile_of(kernel_times(ROWS, ["softmax_kernel"], calls=5))
    assert profile.device_ms == pytest.approx(0.08)
    assert profile.own_share == pytest.approx(0.75)
    assert [(kernel.kernel, kernel.launches, kernel.own) for kernel in profile.kernels] == [
        ("softmax_kernel", 2, True),
        ("void at::native::copy", 1, False),
    ]
    assert any("copy (24%)" in note for note in profile.notes)


def test_a_call_without_kernels_has_a_profile_that_says_so() -> None:
    profile = profile_of(kernel_times([], ["softmax_kernel"], calls=5))
    assert (profile.device_ms, profile.own_share, profile.kernels) == (0, 0, ())
    assert profile.notes == ("the profiler saw no kernel",)


def test_what_a_worker_reports_is_condensed_and_says_why_there_are_no_counters() -> None:
    launch = KernelLaunch(kernel="softmax_kernel", launches=2, programs=8, bytes_loaded=None, bytes_stored=None)
    profile = condensed(ROWS, 5, [launch], [needs(registers=255, num_warps=8)])
    assert profile.occupancy[0].limited_by == "registers"
    assert any(note.startswith("hardware counters:") for note in profile.notes)
    assert to_json(profile)["kernels"][0]["own"] is True


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
    module, note = compiled("compile", Twice(), [torch.ones(3)], lambda module, args: module(*args))
    assert note == ""
    assert torch.equal(module(torch.ones(3)), torch.full((3,), 2.0))


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong in ({"baselines": ("fast",)}, {"precision": "tf33"}, {"autocast": "half"}, {"max_memory_ratio": 0.0}):
        with pytest.raises(ValueError, match=r"\w"):
            EvaluatorSettings(**wrong)  # type: ignore[arg-type]
