"""Lines of `evaluate` on a kernel that passed on a GPU, beyond its row in the table: baselines, memory, profile."""

from __future__ import annotations

from collections.abc import Iterator

from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.tools.kernel_profile import Profile
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import KINDS_OF_TIME, Determinism, Diagnosis, Evaluation, Timing

KERNELS_SHOWN = 8


def lines(evaluation: Evaluation) -> list[str]:
    """Return the lines; empty if nothing was requested or is remarkable."""
    diagnosis = evaluation.diagnosis
    asked = bool(diagnosis and diagnosis.profile) or len(evaluation.timings) > 2
    found = list(_timings(evaluation.timings)) if asked else []
    worst = standing(evaluation).worst
    if worst is not None:
        found.append(f"the least gain: {worst.speedup.median:.2f}x at {worst.name}")
    if diagnosis is not None:
        found += _memory(diagnosis) if asked else []
        found += [note for note in diagnosis.notes if asked and not (worst and note.startswith("at "))]
        found += _profile(diagnosis.profile) if diagnosis.profile else ()
    if evaluation.determinism is Determinism.DIFFERS:
        found.append("results differ in their last bits from call to call (as sums by atomics do)")
    return [*found, *(note for note in evaluation.notes if note.startswith(("baseline ", "no profile", "nobody ")))]


def _timings(timings: tuple[Timing, ...]) -> Iterator[str]:
    several = any(timing.input_set for timing in timings)
    for timing in timings:
        ratio = timing.speedup
        where = f"{timing.input_set} (weight {timing.weight:g}), " if timing.input_set else "all sets, " * several
        yield (
            f"{where}{KINDS_OF_TIME[timing.kind]}, against {timing.baseline}: {timing.candidate_ms.median:.4f} ms to "
            f"{timing.baseline_ms.median:.4f} ms, {ratio.median:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
        )


def _memory(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.peak_bytes is None or diagnosis.original_peak_bytes is None:
        return []
    own, reference = (in_binary_units(count) for count in (diagnosis.peak_bytes, diagnosis.original_peak_bytes))
    return [f"device memory of a call: {own}, the reference's {reference}"]


def _profile(profile: Profile) -> Iterator[str]:
    yield f"profile: {profile.device_ms:.4f} ms a call, {100 * profile.own_share:.0f}% of it in kernels of its own"
    for kernel in profile.kernels[:KERNELS_SHOWN]:
        whose = "own" if kernel.own else "library"
        took = f"{100 * kernel.share:5.1f}%  {kernel.device_ms:.4f} ms  {kernel.launches:g}x"
        yield f"  {took}  {kernel.kernel} ({whose})"
    for estimate in profile.occupancy:
        yield (
            f"  {estimate.kernel}: {estimate.blocks} blocks a multiprocessor, {100 * estimate.warps_share:.0f}% of its "
            f"warps, limited by {estimate.limited_by}"
        )
