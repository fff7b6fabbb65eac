"""Measures the highest rates of a GPU: copying, multiplying matrices, launching an empty Triton kernel.

Matrices are random, since a product of zeros draws less power and runs faster than any real one. Sizes are so large
that launch costs and the L2 cache hardly matter; buffers are smaller on small cards.

Not covered: other limits (special functions, shared memory, atomics), fp8 and sparse rates, several GPUs.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import triton

from triton_agent.tools.machine import hardware
from triton_agent.tools.race.ceilings import Ceilings, cache_folder, cache_path, load, save
from triton_agent.tools.race.clock import Clock, ClockSettings, Subject, cuda_device, timing_event

COPY_BYTES = 2 * 2**30
"""Size of each of the two buffers: dozens of times the largest L2."""
COPIED_BYTES = tuple(2**power << 20 for power in range(1, 10))
"""Bytes read plus written by each timed copy: from the size of a small cache to a copy that takes a hundred times as
long as a launch."""
COPIES = 15
"""Number of readings for each copy size; their median counts."""
SHARE_OF_FREE = 1 / 8
"""Largest share of the card's free memory that a buffer may take."""
EDGE = 8192
"""Edge of the square matrices, large enough for the full rate of the largest cards."""
SLOW_EDGE = 4096
"""Edge for units without tensor cores, which are an order of magnitude slower on many cards."""
BUDGET_S = 1.5
"""Time limit for the readings of each rate, in seconds."""
FEWEST, MOST = 3, 30
"""Least and largest number of readings for each rate."""

_MATMULS = {
    "bf16": (torch.bfloat16, EDGE, "highest"),
    "fp16": (torch.float16, EDGE, "highest"),
    "tf32": (torch.float32, EDGE, "high"),
    "fp32": (torch.float32, SLOW_EDGE, "highest"),
    "fp64": (torch.float64, SLOW_EDGE, "highest"),
}
"""For each unit: dtype, edge, and torch's name for the precision of float32 matrix products."""


@triton.jit
def _empty_kernel():  # type: ignore[no-untyped-def]
    pass


def identity(device: torch.device | str = "cuda") -> dict[str, str]:
    """Return everything that the ceilings depend on. If any of it changes, they are measured again."""
    index = cuda_device(device).index
    return {
        "gpu": torch.cuda.get_device_name(index),
        "uuid": hardware.uuid_of(index),
        "driver": _driver(),
        "torch": str(torch.__version__),
    }


def ceilings(device: torch.device | str = "cuda", *, folder: Path | None = None, renew: bool = False) -> Ceilings:
    """Return the ceilings of a card; measure them if they are not cached.

    The caller must hold the card's exclusive lease, or rates that were measured under load would be cached.
    """
    path = cache_path(folder or cache_folder(), identity(device))
    found = None if renew else load(path)
    if found is None:
        found = measure_ceilings(device)
        save(path, found)
    return found


def known(device: torch.device | str = "cuda", *, folder: Path | None = None) -> bool:
    """Return whether the ceilings of a card are in the cache."""
    return load(cache_path(folder or cache_folder(), identity(device))) is not None


def measure_ceilings(device: torch.device | str = "cuda") -> Ceilings:
    """Measure all rates, which takes about ten seconds. Hold the card's exclusive lease."""
    where = cuda_device(device)
    with torch.cuda.device(where):
        launch = Clock(where, ClockSettings(cold_l2=False)).measure(Subject([lambda: _empty_kernel[(1,)]()]), 50)
        return Ceilings(
            **identity(where),
            measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            copy_bytes_per_s=copy_bytes_per_s(where),
            copies_ms=tuple(copies_ms(where)),
            flops_per_s={unit: matmul_flops_per_s(unit, where) for unit in _MATMULS},
            launch_ms=statistics.median(sample.host_ms for sample in launch),
            launch_enqueue_ms=statistics.median(sample.enqueue_ms for sample in launch),
            empty_kernel_ms=statistics.median(sample.device_ms for sample in launch),
        )


def copy_bytes_per_s(device: torch.device) -> float:
    """Return the rate of a copy between two buffers of the card, counting bytes read plus bytes written."""
    free_bytes, _ = torch.cuda.mem_get_info(device)
    words = int(min(COPY_BYTES, free_bytes * SHARE_OF_FREE)) // 4
    source = torch.randint(-(2**31), 2**31 - 1, (words,), dtype=torch.int32, device=device)
    target = torch.empty_like(source)
    return 2 * 4 * words / (_best_ms(lambda: target.copy_(source)) / 1e3)


def copies_ms(device: torch.device) -> Iterator[tuple[int, float]]:
    """Yield the size and time of copies, timed like kernels: device time with a cold cache."""
    clock = Clock(device, ClockSettings(warm_up_s=0.02))  # a short warm-up is enough, since the GPU was just in use
    free_bytes, _ = torch.cuda.mem_get_info(device)
    sizes = [moved for moved in COPIED_BYTES if moved / 2 <= max(free_bytes * SHARE_OF_FREE, COPIED_BYTES[0] / 2)]
    source = torch.randint(-(2**31), 2**31 - 1, (sizes[-1] // 8,), dtype=torch.int32, device=device)
    target = torch.empty_like(source)
    for moved in sizes:
        words = moved // 8
        copy = Subject([functools.partial(target[:words].copy_, source[:words])])
        yield moved, statistics.median(sample.device_ms for sample in clock.measure(copy, COPIES))


def matmul_flops_per_s(unit: str, device: torch.device) -> float:
    """Return the rate of a square matrix product in `unit`. A multiplication with its addition counts as two."""
    dtype, edge, precision = _MATMULS[unit]
    left, right = (torch.randn(edge, edge, device=device, dtype=dtype) for _ in range(2))
    target = torch.empty(edge, edge, device=device, dtype=dtype)
    with _float32_precision(precision):
        return 2 * edge**3 / (_best_ms(lambda: torch.mm(left, right, out=target)) / 1e3)


def _best_ms(call: Callable[[], object]) -> float:
    """Return the fastest of several readings after two warm-up calls.

    Long calls need only events around them, no spin.
    """
    for _ in range(2):
        call()
    readings: list[float] = []
    begun_s = time.monotonic()
    while len(readings) < FEWEST or (len(readings) < MOST and time.monotonic() - begun_s < BUDGET_S):
        start, end = timing_event(), timing_event()
        start.record()
        call()
        end.record()
        end.synchronize()
        readings.append(start.elapsed_time(end))
    return min(readings)


@contextlib.contextmanager
def _float32_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _driver() -> str:
    rows = hardware.query_gpus("driver_version")
    return rows[0].get("driver_version", "unknown") if rows else "unknown"
