"""The checker's side of a diagnosis on a GPU: the floor in time, and what a worker's profiler saw, condensed.

Hardware counters are not read: Nsight Compute has to start the program it looks at, and a candidate is never started
outside of the sandbox. Whether it is there, and whether this user might use it, is said in the profile's notes.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from triton_agent.tools.graph.floor import floor_of
from triton_agent.tools.graph.flops import UnitFlops
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.kernel_profile import (
    Multiprocessor,
    Profile,
    ProfileRow,
    Roofline,
    kernel_times,
    occupancy,
    profile_of,
    roofline,
)
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.ceilings import Ceilings, copy_ms, floor_ms
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.results import KernelLaunch, KernelResources
from triton_agent.tools.truth.plan import Plan

UNITS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "complex64": "fp32"}
"""Name of a dtype's unit in the ceilings. Narrower dtypes have no measured rate and count as nothing."""
SPLIT_PRODUCTS = 3
"""TF32 products that make one of float32's accuracy."""
COUNTERS_FOR_ROOT = "RmProfilingAdminOnly: 1"
DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")
NCU_PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")


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
    """Return the floor of the main trial's call against the ceilings of this GPU."""
    from triton_agent.tools.race.rates import ceilings  # compiles a kernel: only where there is a GPU

    inputs = plan.trials[plan.main].cases[0].expectation.packed_inputs.unpack()
    with reference.running("forward"):
        least = floor_of(extract(original_on_gpu(reference, plan), inputs))
    return against(least.bytes_moved, least.flops_by_unit, ceilings("cuda"), conditions)


def against(bytes_moved: int, flops: Sequence[UnitFlops], reach: Ceilings, conditions: Conditions) -> Roofline:
    """Return the roofline of the least work on a card with these ceilings."""
    by_unit = units(flops, reach.flops_per_s, conditions)
    return roofline(
        bytes_moved,
        {part.unit: part.flops for part in flops},
        floor_ms(bytes_moved, {}, reach) / 1e3,
        floor_ms(0, by_unit, reach) / 1e3,
        copy_ms(bytes_moved, reach),
    )


def units(flops: Sequence[UnitFlops], rates: Mapping[str, float], conditions: Conditions) -> dict[str, float]:
    """Return the operations by the unit that does them fastest at the accuracy that is asked for."""
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
    rows: Sequence[ProfileRow], calls: int, launches: Sequence[KernelLaunch], needs: Sequence[KernelResources]
) -> Profile:
    """Condense the rows of the executor's profiler, and add the occupancy that its kernels can reach."""
    has = Multiprocessor()
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        has = Multiprocessor(
            registers=getattr(card, "regs_per_multiprocessor", has.registers),
            shared_bytes=getattr(card, "shared_memory_per_multiprocessor", has.shared_bytes),
            warps=card.max_threads_per_multi_processor // card.warp_size,
        )
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
    kernels = kernel_times(rows, [launch.kernel for launch in launches], calls)
    profile = profile_of(kernels, [estimate for estimate in estimates if estimate])
    return dataclasses.replace(profile, notes=(*profile.notes, why_no_counters()))


def why_no_counters() -> str:
    """Say in one sentence why no hardware counters were read."""
    places = [path for pattern in NCU_PLACES for path in glob.glob(pattern)]
    found = shutil.which("ncu") or (places[-1] if places else None)
    if found is None:
        return "hardware counters: Nsight Compute (ncu) is not installed"
    try:
        for_root = COUNTERS_FOR_ROOT in DRIVER_SETTINGS.read_text() and os.geteuid() != 0
    except OSError:
        for_root = False
    if for_root:
        return f"hardware counters: {found} is there, but the driver lets only root read them"
    return f"hardware counters: {found} can read them; it was not run, since it would start the candidate unconfined"
