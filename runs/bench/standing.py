"""Determines the result of one problem: solved or not, the sample that counts, its speed, and all judged kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Sample, Speed
from triton_agent.tools.results import Status

HALF, SINGLE = ("float16", "bfloat16"), ("float32",)


def is_solved(row: ProblemRow) -> bool | None:
    """Return None if unknown: it could not be measured, cannot be used here, or has no samples."""
    if row.unusable or not row.samples:
        return None
    return True if row.solved else (False if row.measured else None)


def standing_for(row: ProblemRow) -> Sample | None:
    """Return the sample that a problem's figures come from: the fastest that passed, else one that has a status.

    Choosing the fastest of several samples flatters a little, since it also selects favourable readings of the clock.
    """
    passed = [sample for sample in row.samples if sample.executed]
    if passed:
        return max(passed, key=_main_speedup)
    return next((sample for sample in row.samples if sample.status is not None), None)


def _main_speedup(sample: Sample) -> float:
    found = sample.speed(Against.EAGER) or sample.speed(Against.EAGER, Kind.LATENCY)
    return found.speedup.median if found else 0.0


def speed_of(row: ProblemRow, against: Against, kind: Kind) -> Speed | None:
    sample = standing_for(row)
    return sample.speed(against, kind) if sample else None


def dtype_class(dtype: str) -> str:
    if not dtype:
        return ""
    return "half" if dtype in HALF else "single" if dtype in SINGLE else "other"


def cheating(row: ProblemRow) -> tuple[int, int]:
    """Return the number of kernels that cheated, and of all kernels with a status."""
    counts = kernel_counts([row])
    return counts[Status.CHEATED], sum(counts.values())


def kernel_counts(rows: Iterable[ProblemRow]) -> Counter[str]:
    """Count all judged kernels by status."""
    counts: Counter[str] = Counter()
    for sample in (sample for row in rows for sample in row.samples):
        if sample.statuses:
            counts.update(sample.statuses)
        elif sample.status is not None and sample.kernel:
            counts[sample.status] += 1
    return counts
