"""Explains in one line why a kernel is slower on the GPU than the reference under `torch.compile`.

The line lists what is known without a profile: both times against the floor, launches, the compiler's report, and
operators left to torch. Which of these costs the time is a guess, so they are named with their figures, the likeliest
first. Not covered: how many programs a kernel had, since launches are recorded at the smallest size. The line is empty
unless the interval of the ratio lies below 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_agent.tools.results import Diagnosis, Evaluation, Timing, asked_as

NEAR_FLOOR = 0.85
"""Fraction of the floor from which on the order of a few memory accesses decides."""
BASELINE = "compile"


def behind(evaluation: Evaluation) -> str:
    """Return the explanation; empty if the kernel is not slower, or nothing was measured."""
    timing = next((item for item in evaluation.timings if _is_behind(item)), None)
    if timing is None or evaluation.diagnosis is None:
        return ""
    return "; ".join([_times(timing, evaluation.diagnosis), *_causes(timing, evaluation, evaluation.diagnosis)])


def _is_behind(timing: Timing) -> bool:
    return asked_as(timing.baseline) == BASELINE and timing.kind == "device" and timing.speedup.high < 1


def _times(timing: Timing, diagnosis: Diagnosis) -> str:
    sides = (("", timing.candidate_ms.median), (" against", timing.baseline_ms.median))
    shares = [f"{word} {ms * 1e3:.1f} us{_of_floor(diagnosis.floor_ms, ms)}" for word, ms in sides]
    bound = f"bound by {diagnosis.roofline.bound}" if diagnosis.roofline is not None else ""
    return ", ".join(filter(None, ["".join(shares).strip(), bound]))


def _of_floor(floor_ms: float | None, ms: float) -> str:
    return "" if floor_ms is None or ms <= 0 else f" ({floor_ms / ms:.0%} of the floor)"


def _causes(timing: Timing, evaluation: Evaluation, diagnosis: Diagnosis) -> Iterator[str]:
    spilled = max((kernel.spill_bytes or 0 for kernel in evaluation.resources), default=0)
    if spilled:
        yield f"registers spill, {spilled} bytes a thread"
    if diagnosis.torch_operators:
        yield f"torch does {', '.join(diagnosis.torch_operators[:3])} beside"
    launches = sum(launch.launches for launch in diagnosis.launches)
    if launches > 1:
        yield f"{launches} launches, which pass their values through memory"
    floor_ms = diagnosis.floor_ms
    if launches == 1 and not spilled and floor_ms is not None:
        near = floor_ms >= NEAR_FLOOR * timing.candidate_ms.median
        yield "one kernel, near the floor" if near else f"one kernel, {_resources(evaluation)}"


def _resources(evaluation: Evaluation) -> str:
    """Describe the kernel with the most registers."""
    known = [kernel for kernel in evaluation.resources if kernel.registers is not None]
    if not known:
        return "of which nothing more is known"
    largest = max(known, key=lambda kernel: kernel.registers or 0)
    shared = f", {largest.shared_bytes >> 10} KiB shared" if largest.shared_bytes >= 1024 else ""
    return f"{largest.registers} registers a thread, {largest.num_warps} warps{shared}"
