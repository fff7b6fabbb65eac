"""If torch.compile is faster, a line states what is known about it; otherwise the line is empty."""

from __future__ import annotations

import pytest
from tests import verdicts

from triton_agent.runs.bench.behind import behind
from triton_agent.tools.kernel_profile import Roofline
from triton_agent.tools.results import KernelLaunch, KernelResources

FLOOR = Roofline(floor_ms=0.4, bound="memory", flops_per_byte=1.0)


def launch(kernel: str, launches: int = 1) -> KernelLaunch:
    return KernelLaunch(kernel=kernel, launches=launches, programs=64, bytes_loaded=None, bytes_stored=None)


def resources(**changes: int) -> KernelResources:
    fields = {"num_warps": 8, "num_stages": 3, "registers": 64, "spill_bytes": 0, "shared_bytes": 0, "stack_bytes": 0}
    return KernelResources(kernel="k", target="cuda:90", compile_ms=1.0, **{**fields, **changes})


def line(speedup: float, *, against: str = "compile (float32 matmul)", **changes: object) -> str:
    timing = verdicts.timing(speedup, spread=0.01, original_ms=0.5, baseline=against)
    kernels = changes.pop("resources", (resources(),))
    found = {"floor_ms": 0.4, "roofline": FLOOR, "launches": (launch("k"),), **changes}
    return behind(verdicts.passed(timing, diagnosis=verdicts.diagnosis(**found), resources=kernels))


@pytest.mark.parametrize(("speedup", "against"), [(1.2, "compile ()"), (1.0, "compile ()"), (0.5, "eager ()")])
def test_nothing_is_said_where_it_is_not_behind_the_compiler(speedup: float, against: str) -> None:
    assert line(speedup, against=against) == ""


def test_both_times_stand_beside_the_floor() -> None:
    said = line(0.5)
    assert said.startswith("1000.0 us (40% of the floor) against 500.0 us (80% of the floor), bound by memory")
    assert said.endswith("one kernel, 64 registers a thread, 8 warps")


def test_one_near_the_floor_is_said_to_be_there() -> None:
    assert line(0.97, floor_ms=0.5).endswith("one kernel, near the floor")


def test_what_costs_most_comes_first() -> None:
    said = line(
        0.5,
        launches=(launch("a"), launch("b", launches=2)),
        torch_operators=("aten.sort",),
        resources=(resources(spill_bytes=24),),
    )
    causes = said.split("; ")[1:]
    assert causes == [
        "registers spill, 24 bytes a thread",
        "torch does aten.sort beside",
        "3 launches, which pass their values through memory",
    ]
