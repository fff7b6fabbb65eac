"""A summary of a call under the profiler: where device time goes, how near the floor it is, and what limits it.

Plain values and arithmetic without a GPU or torch. The measurements come from the process that runs the candidate's
kernels. They are advice for its author, and no verdict depends on them.

Occupancy is an estimate from the registers, shared memory, warps and blocks of a multiprocessor. It does not consider
clusters, carve-outs chosen by hand, or warps that end early.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

WORTH_NAMING = 0.02
"""Kernels below this share of the device time are not listed."""
FEW_WARPS = 0.25
"""Below this occupancy there are too few warps to hide the latency of memory."""
NEAR_FLOOR = 0.8
"""From this share of the floor on, little can be gained."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """The part of one kernel in a call."""

    kernel: str
    launches: float
    """Per call."""
    device_ms: float
    """Per call, for all launches together."""
    share: float
    """Of the device time of the call."""
    own: bool
    """True if the candidate launched it as a Triton kernel of its own."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """The part of one kernel in all calls of a profile together."""

    kernel: str
    count: int
    device_us: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How many blocks of one kernel fit on a multiprocessor."""

    kernel: str
    warps_share: float
    """Share of the warps that a multiprocessor can hold."""
    blocks: int
    """Per multiprocessor."""
    limited_by: str
    """`registers`, `shared memory`, `warps` or `blocks`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least work of a call against the measured ceilings of the card."""

    floor_ms: float
    bound: str
    """`memory` or `compute`, whichever takes longer at the ceilings."""
    flops_per_byte: float
    """Arithmetic intensity of the least work."""
    copy_ms: float | None = None
    """The time of a whole copy of as many bytes on this card; None in older records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One call under the profiler, as the mean of several calls."""

    device_ms: float
    own_share: float
    """Share of the device time in the candidate's own kernels."""
    kernels: tuple[KernelTime, ...]
    """The slowest first."""
    occupancy: tuple[Occupancy, ...] = ()
    counters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Hardware counters by name; empty where they are not available, which the notes then say."""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """The resources of one multiprocessor; by default of a data-centre card since compute capability 8.0."""

    registers: int = 65536
    shared_bytes: int = 228 << 10
    warps: int = 64
    blocks: int = 32
    registers_step: int = 256
    """A warp gets registers in multiples of this many."""
    shared_reserved_bytes: int = 1 << 10
    """Reserved by the system for each block."""


def kernel_times(rows: Sequence[ProfileRow], own: Iterable[str], calls: int) -> tuple[KernelTime, ...]:
    """Return an entry for each kernel in the profiler's rows of `calls` calls, the slowest first."""
    names = set(own)
    total = sum(row.device_us for row in rows)
    times = [
        KernelTime(
            kernel=row.kernel,
            launches=row.count / calls,
            device_ms=row.device_us / 1e3 / calls,
            share=row.device_us / total if total else 0.0,
            own=row.kernel in names,
        )
        for row in rows
    ]
    return tuple(sorted(times, key=lambda time: -time.device_ms))


def profile_of(kernels: tuple[KernelTime, ...], occupancy: Sequence[Occupancy] = ()) -> Profile:
    """Return the profile of these kernels, with notes for a prompt."""
    listed = tuple(kernel for kernel in kernels if kernel.share >= WORTH_NAMING)
    notes = [f"{kernel.kernel} takes {100 * kernel.share:.0f}% of the device time" for kernel in kernels[:1]]
    if foreign := [f"{kernel.kernel[:60]} ({100 * kernel.share:.0f}%)" for kernel in listed if not kernel.own]:
        notes.append(f"kernels of libraries that are left: {', '.join(foreign[:3])}")
    notes += [
        f"{estimate.kernel} fills {100 * estimate.warps_share:.0f}% of the warps a multiprocessor can hold, "
        f"limited by {estimate.limited_by}"
        for estimate in occupancy
        if kernels and estimate.warps_share < FEW_WARPS
    ]
    return Profile(
        device_ms=sum(kernel.device_ms for kernel in kernels),
        own_share=sum(kernel.share for kernel in kernels if kernel.own),
        kernels=listed,
        occupancy=tuple(occupancy),
        notes=tuple(notes or ["the profiler saw no kernel"]),
    )


def roofline_notes(roofline: Roofline, device_ms: float) -> list[str]:
    """Say in words how near the floor a measured time is."""
    share = roofline.floor_ms / device_ms if device_ms else 0.0
    told = f"{roofline.bound}-bound: the floor is {roofline.floor_ms:.4f} ms, {100 * share:.0f}% of the time taken"
    return [f"{told}; little can be gained" if share >= NEAR_FLOOR else told]


def occupancy(
    kernel: str, *, registers: int, shared_bytes: int, num_warps: int, has: Multiprocessor | None = None
) -> Occupancy | None:
    """Return how many blocks of a kernel fit on a multiprocessor; None if none does."""
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
    """Return the roofline of the least work, given its times at the ceilings. `copy_ms`: a copy of as many bytes."""
    flops = sum(flops_by_unit.values())
    return Roofline(
        floor_ms=1e3 * max(copy_s, compute_s),
        bound="memory" if copy_s >= compute_s else "compute",
        flops_per_byte=flops / bytes_moved if bytes_moved else 0.0,
        copy_ms=copy_ms,
    )
