"""How one problem of a benchmark stands: solved or not, by which sample, how fast, and what was judged on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Sample, Speed
from triton_agent.tools.results import Status

HALF, SINGLE = ("float16", "bfloat16"), ("float32",)


def is_solved(row: ProblemRow) -> bool | None:
    """None where that cannot be told: it could not be measured, has no place here, or no kernel was asked for."""
    if row.unusable or not row.samples:
        return None
    return True if row.solved else (False if row.measured else None)


def standing_for(row: ProblemRow) -> Sample | None:
    """The sample that a problem's figures are of: of those that passed the fastest, else one that has a status.

    The fastest of several flatters by what the clock happened to read; with one sample there is nothing to choose.
    """
    passed = [sample for sample in row.samples if sample.executed]
    if passed:
        return max(passed, key=_swiftness)
    return next((sample for sample in row.samples if sample.status is not None), None)


def _swiftness(sample: Sample) -> float:
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
    """Kernels that cheated, and kernels that got a status, of all that were judged on the way."""
    counts = kernel_counts([row])
    return counts[Status.CHEATED], sum(counts.values())


def kernel_counts(rows: Iterable[ProblemRow]) -> Counter[str]:
    """Every kernel judged on the way, by status."""
    counts: Counter[str] = Counter()
    for sample in (sample for row in rows for sample in row.samples):
        if sample.statuses:
            counts.update(sample.statuses)
        elif sample.status is not None and sample.kernel:
            counts[sample.status] += 1
    return counts
