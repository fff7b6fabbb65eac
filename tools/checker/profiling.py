"""The checker's side of a profile on a GPU: the floor as a time, and the executor's step times by kernel.

Names and bytes come from the checker's own copy of the tape; the executor contributes only times. Hardware counters are
not read: Nsight Compute has to start the profiled program, and an executor is never started outside the sandbox.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

import torch

from triton_agent.tools.cases.plan import Plan
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.graph.floor import floor_of
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.kernel_profile import (
    Beside,
    KernelTime,
    Multiprocessor,
    Profile,
    Roofline,
    StepTime,
    occupancy,
    profile_of,
)
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.ceilings import Ceilings, copy_ms, floor_ms
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.results import KernelResources
from triton_agent.tools.tape.tape import Launch, views_of

UNITS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "complex64": "fp32"}
"""Names of units in the measured rates. Narrower dtypes have no measured rate and are not counted."""
SPLIT_PRODUCTS = 3
"""Number of TF32 products needed for one product with the accuracy of float32."""
LEADERS = 2
"""Number of the fastest candidates of a problem that are profiled: those that a search builds on."""


class Leaders:
    """The times of the fastest candidates of a problem so far; thread-safe."""

    def __init__(self) -> None:
        self._fastest_ms: list[float] = []
        self._lock = threading.Lock()

    def admit(self, device_ms: float) -> bool:
        """Record a device time; return True if it is among the fastest."""
        with self._lock:
            self._fastest_ms = sorted([*self._fastest_ms, device_ms])[:LEADERS]
            return device_ms in self._fastest_ms


def original_on_gpu(reference: Reference, plan: Plan) -> torch.nn.Module:
    """Return a new copy of the reference, with the parameters that candidates are checked with."""
    trial = plan.trials[plan.main]
    original = reference.make_model(trial.build_seed).to("cuda").train(trial.cases[0].train)
    state = trial.states[0].unpack()
    with torch.no_grad():
        for name, value in {**dict(original.named_parameters()), **dict(original.named_buffers())}.items():
            value.copy_(state[name])
    return original


def least_time(reference: Reference, plan: Plan, conditions: Conditions) -> Roofline:
    """Return the floor of the main trial's call against this GPU's measured rates."""
    from triton_agent.tools.race.rates import ceilings  # compiles a kernel: only where there is a GPU

    inputs = plan.trials[plan.main].cases[0].expectation.packed_inputs.unpack()
    with reference.running("forward"):
        least = floor_of(extract(original_on_gpu(reference, plan), inputs))
    return against(least.bytes_moved, least.flops_by_unit, ceilings("cuda"), conditions)


def against(bytes_moved: int, flops: Sequence[UnitFlops], reach: Ceilings, conditions: Conditions) -> Roofline:
    """Return the roofline of a floor on a card with these measured rates."""
    by_unit = units(flops, reach.flops_per_s, conditions)
    memory_ms, compute_ms = floor_ms(bytes_moved, {}, reach), floor_ms(0, by_unit, reach)
    operations = sum(part.flops for part in flops)
    unit = max(by_unit, key=lambda unit: by_unit[unit] / reach.flops_per_s[unit], default="")
    return Roofline(
        floor_ms=max(memory_ms, compute_ms),
        bound="memory" if memory_ms >= compute_ms else "compute",
        flops_per_byte=operations / bytes_moved if bytes_moved else 0.0,
        copy_ms=copy_ms(bytes_moved, reach),
        bytes_moved=bytes_moved,
        compute_ms=compute_ms,
        unit=unit,
        copy_bytes_per_s=reach.copy_bytes_per_s,
        flops_per_s=dict(reach.flops_per_s),
        empty_kernel_ms=reach.empty_kernel_ms,
        products_each=_products_each(unit, flops, conditions),
    )


def _products_each(unit: str, flops: Sequence[UnitFlops], conditions: Conditions) -> int:
    """Return how many products on this unit replace one product at the required accuracy: 3 of TF32 for float32."""
    split = unit == "tf32" and conditions.precision != "tf32" and any(part.unit == "matmul float32" for part in flops)
    return SPLIT_PRODUCTS if split else 1


def units(flops: Sequence[UnitFlops], rates: Mapping[str, float], conditions: Conditions) -> dict[str, float]:
    """Return the operations by the unit that does them fastest at the required accuracy."""
    found: dict[str, float] = {}
    for part in flops:
        kind, _, dtype = part.unit.partition(" ")
        if dtype not in UNITS:
            continue
        unit, amount = UNITS[dtype], float(part.flops)
        if kind == "matmul" and unit == "fp32" and conditions.precision == "tf32":
            unit = "tf32"
        elif kind == "matmul" and unit == "fp32" and rates.get("tf32", 0.0) > SPLIT_PRODUCTS * rates["fp32"]:
            unit, amount = "tf32", SPLIT_PRODUCTS * amount
        elif kind != "matmul" and unit in ("fp16", "bf16"):
            unit = "fp32"  # the tensor cores' rate is for products only
        found[unit] = found.get(unit, 0.0) + amount
    return found


def condensed(
    steps: Sequence[StepTime],
    program: Program,
    needs: Sequence[KernelResources],
    *,
    call_ms: float = 0.0,
    roofline: Roofline | None = None,
) -> Profile:
    """Make a profile from the times of a tape's steps, its kernels' resources and the time of a call."""
    has, multiprocessors = Multiprocessor(), 0
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        has = Multiprocessor(
            registers=getattr(card, "regs_per_multiprocessor", has.registers),
            shared_bytes=getattr(card, "shared_memory_per_multiprocessor", has.shared_bytes),
            warps=card.max_threads_per_multi_processor // card.warp_size,
        )
        multiprocessors = card.multi_processor_count
    estimates = [
        occupancy(
            kernel.kernel,
            registers=kernel.registers or 0,
            shared_bytes=kernel.shared_bytes,
            num_warps=kernel.num_warps,
            has=has,
        )
        for kernel in needs
    ]
    beside = Beside(
        call_ms=call_ms,
        roofline=roofline,
        multiprocessors=multiprocessors,
        warps=has.warps,
        resources=needs,
        occupancy=[estimate for estimate in estimates if estimate],
    )
    return profile_of(kernel_times(steps, program), beside)


def kernel_times(steps: Sequence[StepTime], program: Program) -> list[KernelTime]:
    """Sum the times of steps by kernel or torch operator; raise ValueError for times that match no step."""
    for timed in steps:
        known = 0 <= timed.step < len(program.tape.steps)
        step = program.tape.steps[timed.step] if known else None
        choices = len(step.choices) if isinstance(step, Launch) else 1
        if not known or not 0 <= timed.choice < choices or not 0 <= timed.device_ms < math.inf:
            raise ValueError(f"no time of a step of this tape: {timed}")
    total_ms = sum(timed.device_ms for timed in steps)
    found: dict[tuple[str, bool], KernelTime] = {}
    for timed in steps:
        step = program.tape.steps[timed.step]
        own = isinstance(step, Launch)
        choice = step.choices[timed.choice] if isinstance(step, Launch) else None
        name = program.kernel_set.functions[choice.kernel].name if choice else getattr(step, "operator", "")
        views = set(views_of(step))
        before = found.get((name, own))
        programs = [math.prod(choice.grid)] if choice else []
        programs += [before.programs] if before and before.programs is not None else []
        device_ms = timed.device_ms + (before.device_ms if before else 0.0)
        found[name, own] = KernelTime(
            kernel=name,
            launches=1 + (before.launches if before else 0),
            device_ms=device_ms,
            share=device_ms / total_ms if total_ms else 0.0,
            own=own,
            argument_bytes=sum(view.elements * DTYPES[view.dtype].itemsize for view in views)
            + ((before.argument_bytes or 0) if before else 0),
            programs=min(programs, default=None),
        )
    return list(found.values())
