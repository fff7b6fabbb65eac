"""The profile of a candidate: where the device time of a call goes, and what its bottlenecks cost.

Plain values and arithmetic, without a GPU or torch. The executor that runs the candidate's kernels measures the times.
The profile is advice for the author; no verdict depends on it.

Each bottleneck names an upper bound of the time it costs: the time of torch's operators, the time between launches and
in short launches, the time to move bytes beyond the fewest, and the time of the slowest kernel beyond what its bytes or
operations need at the card's measured rates. These times overlap, so they do not add up.

A kernel is assumed to move each of its tensor arguments once. Occupancy is an estimate from the registers, shared
memory, warps and blocks of a multiprocessor. It ignores clusters, carve-outs chosen by hand, and warps that end early.
Hardware counters (stalls, sectors, tensor-core use) are not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triton_agent.tools.results import KernelResources

WORTH_NAMING = 0.02
"""Kernels below this share of the device time are not listed."""
FEW_WARPS = 0.25
"""Below this occupancy there are too few warps to hide the latency of memory."""
WORTH_SPILLING = 64
"""Fewer spilled bytes per thread are not reported: they are a few registers and cost little."""
PLAUSIBLE = 1.5
"""If moving all arguments in the kernel's time would take more than this multiple of a copy's rate, the kernel cannot
have read them all: a launch for one row gets the whole tensor."""
NEAR_FLOOR = 0.8
"""From this share of the floor on, a note says that little can be gained."""
WORTH_SAVING = 0.1
"""Bottlenecks that cost less than this share of the device time are not reported."""
KERNELS_NAMED = 3
NAME_CHARACTERS = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """The device time of one kernel in a call, and its share."""

    kernel: str
    launches: float
    """Number of launches per call."""
    device_ms: float
    """Device time per call, over all its launches."""
    share: float
    """Share of the device time of the call."""
    own: bool
    """True for a Triton kernel of the candidate; False for an operator of torch."""
    argument_bytes: int | None = None
    """Bytes of the tensors passed to the kernel, over all launches of a call; None in older records."""
    programs: int | None = None
    """Number of programs in its smallest launch; None for operators of torch, and in older records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The device time of one step of a tape, as the median of several calls."""

    step: int
    """Number of the step on the tape, from 0; the prologue is not counted."""
    choice: int
    """The configuration of an autotuned launch that was timed."""
    device_ms: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """One thing that keeps a candidate from the floor."""

    name: str
    """`torch operators`, `launches`, `memory traffic`, `spills`, `parallelism`, `occupancy`, `bandwidth` or
    `compute`."""
    lost_ms: float
    """Upper bound of the time of a call that it costs."""
    words: str
    """The evidence, for an author."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How many blocks of one kernel fit on a multiprocessor."""

    kernel: str
    warps_share: float
    """Share of the warps that a multiprocessor can hold."""
    blocks: int
    """Blocks per multiprocessor."""
    limited_by: str
    """`registers`, `shared memory`, `warps` or `blocks`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The least work of a call at the measured peak rates of the card."""

    floor_ms: float
    bound: str
    """`memory` or `compute`, whichever takes longer at the measured rates."""
    flops_per_byte: float
    """Arithmetic intensity of the least work."""
    copy_ms: float | None = None
    """Time to copy that many bytes on this card; None in older records."""
    bytes_moved: int = 0
    """The fewest bytes; 0 in older records, as for the fields below."""
    compute_ms: float = 0.0
    """Time of the operations at the measured rates of their units."""
    unit: str = ""
    """The unit that takes longest for the operations: `bf16`, `tf32`, ...; empty where there are none."""
    copy_bytes_per_s: float = 0.0
    """Measured rate of a large copy, in bytes read plus bytes written."""
    flops_per_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Measured rates of matrix products by unit."""
    empty_kernel_ms: float = 0.0
    """Measured device time of a kernel that does nothing."""
    products_each: int = 1
    """Number of products on `unit` that replace one at the required accuracy: 3 of TF32 for float32, otherwise 1."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where the device time of a call goes."""

    device_ms: float
    own_share: float
    """Share of the device time in the candidate's own kernels."""
    kernels: tuple[KernelTime, ...]
    """The slowest first."""
    occupancy: tuple[Occupancy, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    """What limits the candidate, the costliest first; empty in older records, and near the floor."""
    notes: tuple[str, ...] = ()
    """All of this in words, the most useful first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """The resources of one multiprocessor. The defaults are those of data-centre cards since compute capability 8.0."""

    registers: int = 65536
    shared_bytes: int = 228 << 10
    warps: int = 64
    blocks: int = 32
    registers_step: int = 256
    """Registers are allocated to a warp in multiples of this number."""
    shared_reserved_bytes: int = 1 << 10
    """Reserved by the system for each block."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Measurements that a profile is compared with. Zero and None stand for unknown values."""

    call_ms: float = 0.0
    """Device time of a whole call, as measured in the race."""
    roofline: Roofline | None = None
    multiprocessors: int = 0
    warps: int = 64
    """Warps that a multiprocessor can hold."""
    resources: Sequence[KernelResources] = ()
    occupancy: Sequence[Occupancy] = ()


def profile_of(kernels: Sequence[KernelTime], beside: Beside) -> Profile:
    """Return the profile of these kernels and operators, with its bottlenecks described for the author."""
    slowest_first = tuple(sorted(_within(kernels, beside.call_ms), key=lambda kernel: -kernel.device_ms))
    bottlenecks = bottlenecks_of(slowest_first, beside)
    notes = [
        f"bottleneck: {item.name}, costs up to {item.lost_ms:.3g} ms of {_whole(slowest_first, beside):.3g} ms: "
        f"{item.words}"
        for item in bottlenecks
    ]
    for kernel in slowest_first[:1]:
        notes.append(f"{_named(kernel)} takes {100 * kernel.share:.0f}% of the device time")
    return Profile(
        device_ms=sum(kernel.device_ms for kernel in slowest_first),
        own_share=sum(kernel.share for kernel in slowest_first if kernel.own),
        kernels=tuple(kernel for kernel in slowest_first if kernel.share >= WORTH_NAMING),
        occupancy=tuple(beside.occupancy),
        bottlenecks=bottlenecks,
        notes=tuple(notes or ["no kernel took any time"]),
    )


def bottlenecks_of(kernels: Sequence[KernelTime], beside: Beside) -> tuple[Bottleneck, ...]:
    """Return the bottlenecks of a candidate, the costliest first; `kernels` are sorted by time."""
    whole_ms = _whole(kernels, beside)
    found = [*_torch_operators(kernels), *_launches(kernels, beside), *_traffic(kernels, beside)]
    slowest = next((kernel for kernel in kernels if kernel.own), None)
    found += _slowest_kernel(slowest, beside) if slowest else ()
    worth = [item for item in found if item.lost_ms >= WORTH_SAVING * whole_ms > 0]
    return tuple(sorted(worth, key=lambda item: -item.lost_ms))


def _within(kernels: Sequence[KernelTime], call_ms: float) -> Sequence[KernelTime]:
    """Return the kernels with times scaled down, if necessary, so that their sum does not exceed the call's time.

    Steps are timed one by one; in a call, the start of one step overlaps with the end of the one before.
    """
    total_ms = sum(kernel.device_ms for kernel in kernels)
    if not 0 < call_ms < total_ms:
        return kernels
    return [dataclasses.replace(kernel, device_ms=kernel.device_ms * call_ms / total_ms) for kernel in kernels]


def _whole(kernels: Sequence[KernelTime], beside: Beside) -> float:
    return max(beside.call_ms, sum(kernel.device_ms for kernel in kernels))


def _named(kernel: KernelTime) -> str:
    return kernel.kernel[:NAME_CHARACTERS]


def _torch_operators(kernels: Sequence[KernelTime]) -> Iterator[Bottleneck]:
    left = [kernel for kernel in kernels if not kernel.own]
    if left:
        told = ", ".join(f"{_named(kernel)} {kernel.device_ms:.3g} ms" for kernel in left[:KERNELS_NAMED])
        lost_ms = sum(kernel.device_ms for kernel in left)
        yield Bottleneck(name="torch operators", lost_ms=lost_ms, words=f"{told}; do this work in your kernels")


def _launches(kernels: Sequence[KernelTime], beside: Beside) -> Iterator[Bottleneck]:
    """Yield the time between launches plus the cost of an empty launch for each launch but the first."""
    count = round(sum(kernel.launches for kernel in kernels))
    if count > 1:
        between_ms = max(0.0, beside.call_ms - sum(kernel.device_ms for kernel in kernels))
        least_ms = (count - 1) * (beside.roofline.empty_kernel_ms if beside.roofline else 0.0)
        words = f"{count} launches and operators a call; fuse them into fewer"
        yield Bottleneck(name="launches", lost_ms=between_ms + least_ms, words=words)


def _traffic(kernels: Sequence[KernelTime], beside: Beside) -> Iterator[Bottleneck]:
    """Yield the time to move the bytes beyond the fewest, capped at the time of the candidate's own kernels."""
    line = beside.roofline
    moved = sum(_moved(kernel, line) or 0 for kernel in kernels if kernel.own) if line else 0
    if line and line.copy_bytes_per_s and line.bytes_moved and moved > line.bytes_moved:
        lost_ms = 1e3 * (moved - line.bytes_moved) / line.copy_bytes_per_s
        own_ms = sum(kernel.device_ms for kernel in kernels if kernel.own)
        words = (
            f"your kernels are given {moved:,} bytes, {moved / line.bytes_moved:.1f}x the fewest; keep intermediate "
            "results in registers"
        )
        yield Bottleneck(name="memory traffic", lost_ms=min(lost_ms, own_ms), words=words)


def _moved(kernel: KernelTime, line: Roofline) -> int | None:
    """Return the bytes of a kernel's arguments; None if it cannot have moved them in its time."""
    most = PLAUSIBLE * line.copy_bytes_per_s * kernel.device_ms / 1e3
    return None if kernel.argument_bytes is None or kernel.argument_bytes > most else kernel.argument_bytes


def _slowest_kernel(kernel: KernelTime, beside: Beside) -> Iterator[Bottleneck]:
    """Yield the time that the slowest own kernel takes beyond its bytes or operations, under the likeliest cause."""
    line = beside.roofline
    if line is None or not line.copy_bytes_per_s:
        return
    name, bytes_moved = _named(kernel), _moved(kernel, line)
    memory_ms = 1e3 * (bytes_moved or 0) / line.copy_bytes_per_s
    computes = line.bound == "compute"
    least_ms = max(memory_ms, line.compute_ms if computes else 0.0, kernel.launches * line.empty_kernel_ms)
    lost_ms = kernel.device_ms - least_ms
    needs = [item for item in beside.resources if item.kernel == kernel.kernel]
    spilled = max((item.spill_bytes or 0 for item in needs), default=0)
    full = next((item for item in beside.occupancy if item.kernel == kernel.kernel), None)
    if spilled >= WORTH_SPILLING:
        words = f"{name} spills {spilled} bytes a thread; smaller tiles or more warps"
        yield Bottleneck(name="spills", lost_ms=lost_ms, words=words)
    elif few := _few_programs(kernel, beside, computes=computes):
        yield Bottleneck(name="parallelism", lost_ms=lost_ms, words=f"{name} {few}")
    elif computes:
        idle = bool(needs) and all(item.tensor_cores is False for item in needs)
        yield Bottleneck(name="compute", lost_ms=lost_ms, words=f"{name} {_computing(kernel, line, idle=idle)}")
    elif full is not None and full.warps_share < FEW_WARPS:
        words = (
            f"{name} fills {100 * full.warps_share:.0f}% of the warps a multiprocessor can hold, limited by "
            f"{full.limited_by}; smaller tiles or fewer stages"
        )
        yield Bottleneck(name="occupancy", lost_ms=lost_ms, words=words)
    elif bytes_moved is not None:
        rate = 1e3 * bytes_moved / kernel.device_ms if kernel.device_ms else 0.0
        words = (
            f"{name} moves its arguments at {rate / 1e12:.3g} TB/s, {100 * rate / line.copy_bytes_per_s:.0f}% of the "
            f"{line.copy_bytes_per_s / 1e12:.3g} TB/s of a copy; contiguous loads, one pass over memory"
        )
        yield Bottleneck(name="bandwidth", lost_ms=lost_ms, words=words)


def _few_programs(kernel: KernelTime, beside: Beside, *, computes: bool) -> str:
    """Describe a launch that leaves most of the card idle; empty if it does not.

    A kernel that computes products needs few warps; one that waits for memory needs many.
    """
    programs, multiprocessors = kernel.programs, beside.multiprocessors
    if programs is None or not multiprocessors:
        return ""
    if programs < multiprocessors:
        return f"runs {programs} programs on {multiprocessors} multiprocessors; split the work"
    warps = max((item.num_warps for item in beside.resources if item.kernel == kernel.kernel), default=0)
    filled = programs * warps / (multiprocessors * beside.warps)
    if computes or not 0 < filled < FEW_WARPS:
        return ""
    return (
        f"runs {programs} programs of {warps} warps, {100 * filled:.0f}% of the warps that {multiprocessors} "
        "multiprocessors can hold; split the work into more programs"
    )


def _computing(kernel: KernelTime, line: Roofline, *, idle: bool) -> str:
    """Describe the rate of a kernel that is limited by its operations; `idle`: it has no tensor-core instructions."""
    reached = line.compute_ms / kernel.device_ms if kernel.device_ms else 0.0
    rate = line.flops_per_s.get(line.unit, 0.0) / line.products_each / 1e12
    measured = f"measured for products in {line.unit}; larger tiles, tl.dot, more stages"
    if line.products_each > 1:
        measured = (
            'that float32 products reach with input_precision="tf32x3"; tl.dot with it, larger tiles, more stages'
        )
    without = "without tensor cores, " if idle and line.unit != "fp32" else ""
    return f"computes {without}at {100 * reached:.0f}% of the {rate:.3g} TFLOP/s {measured}"


def roofline_notes(roofline: Roofline, device_ms: float) -> list[str]:
    """Return a note that says how near the floor a measured time is."""
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
