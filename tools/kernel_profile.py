"""What a profiler teaches about a call, condensed: where device time goes, how near the floor it is, what limits it.

Plain values and arithmetic: no GPU, no torch. What is measured arrives from the candidate's own process and is advice
for its author; no verdict rests on it.

Occupancy is an estimate by the rules that a multiprocessor shares out its registers, its shared memory and its places
for warps and blocks. It does not know of clusters, of carve-outs chosen by hand, or of warps that end early.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WORTH_NAMING = 0.02
"""Kernels below this share of the device time are not listed one by one."""
FEW_WARPS = 0.25
"""Below this occupancy there is hardly anything to hide a memory access behind."""
NEAR_FLOOR = 0.8
"""From this share on there is little left to win."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """One kernel's part in a call."""

    kernel: str
    launches: float
    """Per call."""
    device_ms: float
    """Per call, all launches together."""
    share: float
    """Of the device time of the call."""
    own: bool
    """Whether it is one of the candidate's Triton kernels."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How full a multiprocessor can be of one kernel."""

    kernel: str
    warps_share: float
    """Of the warps that a multiprocessor can hold."""
    blocks: int
    """Per multiprocessor."""
    limited_by: str
    """`registers`, `shared memory`, `warps` or `blocks`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """What the least work of a call asks of the card, against its measured ceilings."""

    floor_ms: float
    bound: str
    """`memory` or `compute`: which of the two takes longer at the ceilings."""
    flops_per_byte: float
    """Arithmetic intensity of the least work."""
    copy_ms: float | None = None
    """How long a copy of as many bytes takes on this card, its start and its end included; None in older records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One call under the profiler, the mean of several."""

    device_ms: float
    own_share: float
    """Of the device time, in the candidate's own kernels."""
    kernels: tuple[KernelTime, ...]
    """The slowest first."""
    occupancy: tuple[Occupancy, ...] = ()
    counters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Hardware counters by name; empty where they cannot be had, which the notes then say."""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """What one multiprocessor has to share out; by default that of a data-centre card since compute capability 8.0."""

    registers: int = 65536
    shared_bytes: int = 228 << 10
    warps: int = 64
    blocks: int = 32
    registers_step: int = 256
    """Registers are given to a warp in pieces of this many."""
    shared_reserved_bytes: int = 1 << 10
    """Taken by the system for each block."""


def kernel_times(rows: Sequence[Mapping[str, Any]], own: Iterable[str], calls: int) -> tuple[KernelTime, ...]:
    """From the profiler's rows (`kernel`, `count`, `device_us`, of `calls` calls) to one entry a kernel."""
    names = set(own)
    total = sum(float(row["device_us"]) for row in rows)
    times = [
        KernelTime(
            kernel=str(row["kernel"]),
            launches=int(row["count"]) / calls,
            device_ms=float(row["device_us"]) / 1e3 / calls,
            share=float(row["device_us"]) / total if total else 0.0,
            own=str(row["kernel"]) in names,
        )
        for row in rows
    ]
    return tuple(sorted(times, key=lambda time: -time.device_ms))


def profile_of(kernels: tuple[KernelTime, ...], occupancy: Sequence[Occupancy] = ()) -> Profile:
    """The whole, with notes for a prompt."""
    listed = tuple(kernel for kernel in kernels if kernel.share >= WORTH_NAMING)
    return Profile(
        device_ms=sum(kernel.device_ms for kernel in kernels),
        own_share=sum(kernel.share for kernel in kernels if kernel.own),
        kernels=listed,
        occupancy=tuple(occupancy),
        notes=tuple(_notes(kernels, occupancy)),
    )


def _notes(kernels: tuple[KernelTime, ...], occupancy: Sequence[Occupancy]) -> list[str]:
    if not kernels:
        return ["the profiler saw no kernel"]
    slowest = kernels[0]
    notes = [f"{slowest.kernel} takes {100 * slowest.share:.0f}% of the device time"]
    foreign = [kernel for kernel in kernels if not kernel.own and kernel.share >= WORTH_NAMING]
    if foreign:
        told = ", ".join(f"{kernel.kernel[:60]} ({100 * kernel.share:.0f}%)" for kernel in foreign[:3])
        notes.append(f"kernels of libraries that are left: {told}")
    for estimate in occupancy:
        if estimate.warps_share < FEW_WARPS:
            notes.append(
                f"{estimate.kernel} fills {100 * estimate.warps_share:.0f}% of the warps a multiprocessor can hold, "
                f"limited by {estimate.limited_by}"
            )
    return notes


def roofline_notes(roofline: Roofline, device_ms: float) -> list[str]:
    """How near the floor a measured time is, in words."""
    share = roofline.floor_ms / device_ms if device_ms else 0.0
    told = f"{roofline.bound}-bound: the floor is {roofline.floor_ms:.4f} ms, {100 * share:.0f}% of the time taken"
    return [f"{told}; little is left to win" if share >= NEAR_FLOOR else told]


def occupancy(
    kernel: str, *, registers: int, shared_bytes: int, num_warps: int, has: Multiprocessor | None = None
) -> Occupancy | None:
    """How many blocks of a kernel fit a multiprocessor at once; None for one that does not fit at all."""
    has = has or Multiprocessor()
    per_warp = -(-registers * 32 // has.registers_step) * has.registers_step
    fits = {
        "registers": has.registers // (per_warp * num_warps) if registers else has.blocks,
        "shared memory": has.shared_bytes // (shared_bytes + has.shared_reserved_bytes),
        "warps": has.warps // num_warps,
        "blocks": has.blocks,
    }
    limit = min(fits, key=lambda name: fits[name])
    if not fits[limit]:
        return None
    share = fits[limit] * num_warps / has.warps
    return Occupancy(kernel=kernel, warps_share=share, blocks=fits[limit], limited_by=limit)


def roofline(
    bytes_moved: int,
    flops_by_unit: Mapping[str, float],
    copy_s: float,
    compute_s: float,
    copy_ms: float | None = None,
) -> Roofline:
    """From the least work and how long the ceilings let it take; `copy_ms` as measured for as many bytes."""
    flops = sum(flops_by_unit.values())
    return Roofline(
        floor_ms=1e3 * max(copy_s, compute_s),
        bound="memory" if copy_s >= compute_s else "compute",
        flops_per_byte=flops / bytes_moved if bytes_moved else 0.0,
        copy_ms=copy_ms,
    )
