"""Computes what a benchmark records of a sample from its verdicts: the kernel that represents it, and its figures.

Pure functions of graded attempts. A sample passes if one of its kernels passed. A sample in which nothing could be
judged has no status. Otherwise the kernel that came furthest represents it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from triton_agent.policy.episode import Graded
from triton_agent.runs.bench.behind import behind
from triton_agent.runs.bench.rows import Against, Kind, Sample, Speed
from triton_agent.tools.race.baseline_names import EAGER_TF32
from triton_agent.tools.ranking import best_of
from triton_agent.tools.results import Evaluation, Finding, Status, Timing, asked_as

BASELINES = (EAGER_TF32, "compile")
"""Baselines that the evaluator measures beside the eager reference."""
AGAINST = {"eager": Against.EAGER, EAGER_TF32: Against.EAGER_TF32, "compile": Against.COMPILE}
"""First word of a timing's baseline, with its name in a row."""
RETURNED = frozenset(
    {
        *(Finding.STRUCTURE, Finding.SHAPE, Finding.DTYPE, Finding.VALUES, Finding.PRECISION),
        *(Finding.NON_FINITE, Finding.MUTATED_INPUT, Finding.ALIASED_OUTPUT, Finding.SHARED_OUTPUT),
        *(Finding.STALE_PARAMETER, Finding.UNWRITTEN_OUTPUT, Finding.STATE, Finding.RACE),
        *(Finding.NO_LAUNCH, Finding.DEAD_KERNEL, Finding.LIBRARY_WORK, Finding.FALSE_CLOCK, Finding.DISGUISED_TENSOR),
    }
)
"""Findings that are possible only after the call has returned."""
MESSAGE_CHARACTERS = 200


def sample_of(
    index: int, history: Sequence[Graded], *, run: str, seconds: float, ended: str = "", cut_short: bool = False
) -> Sample:
    """Return the sample of one run; `ended` says why the run ended.

    A run that was cut short by an instrument or the policy's server, without a kernel that passed, counts as not
    measured, because it might have passed.
    """
    judged = [item for item in history if item.evaluation is not None]
    statuses = Counter(str(item.evaluation.status) for item in judged if item.evaluation is not None)
    told: dict[str, Any] = {
        "index": index,
        "run": run,
        "seconds": round(seconds, 3),
        "tokens": sum(_tokens(item) for item in history),
        "unmeasured": len(history) - len(judged),
        "statuses": dict(sorted(statuses.items())),
        "cheated": Status.CHEATED in statuses,
    }
    if history and not judged:
        failure = history[-1].grading.failure
        reason = first_line(failure.what) if failure else ""
        return Sample(**told, not_measured=reason or "nothing could be judged")
    best = best_of(judged)
    if cut_short and best is None:
        return Sample(**told, not_measured=first_line(ended) or "it was cut short")
    speaker = best or max(judged, key=_progress, default=None)
    if speaker is None or speaker.evaluation is None:
        return Sample(**told, status=Status.NO_ANSWER, message=ended or "nothing was proposed")
    return Sample(**told, kernel=speaker.attempt.key, **_figures(speaker.evaluation))


def _tokens(item: Graded) -> int:
    usage = item.attempt.completion.usage
    return usage.prompt_tokens + usage.completion_tokens


def _progress(item: Graded) -> tuple[bool, int]:
    """Return a key that orders kernels by how far they came."""
    evaluation = item.evaluation
    return (was_called(evaluation), len(evaluation.stages)) if evaluation else (False, 0)


def was_called(evaluation: Evaluation) -> bool:
    """Return whether its forward was called and returned."""
    return evaluation.status is Status.PASSED or evaluation.finding in RETURNED


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    """Return the figures of a kernel from its verdict."""
    speeds = tuple(filter(None, map(_speed, evaluation.timings)))
    device = next((s for s in speeds if s.against is Against.EAGER and s.kind is Kind.DEVICE), None)
    diagnosis = evaluation.diagnosis
    floor_ms = diagnosis.floor_ms if diagnosis else None
    least = diagnosis.roofline if diagnosis else None
    copy_ms = least.copy_ms if least is not None and least.bound == "memory" else None
    return {
        "status": evaluation.status,
        "finding": evaluation.finding,
        "message": first_line(evaluation.message),
        "called": was_called(evaluation),
        "executed": evaluation.status is Status.PASSED,
        "speeds": speeds,
        "floor_ms": floor_ms,
        "floor_fraction": floor_ms / device.kernel_ms.median if floor_ms is not None and device else None,
        "copy_fraction": copy_ms / device.kernel_ms.median if copy_ms is not None and device else None,
        "peak_memory_ratio": _peak_ratio(evaluation),
        "behind": behind(evaluation),
    }


def _speed(timing: Timing) -> Speed | None:
    against = AGAINST.get(asked_as(timing.baseline))
    if against is None:
        return None
    return Speed(
        against=against,
        kind=Kind(timing.kind),
        speedup=timing.speedup,
        kernel_ms=timing.candidate_ms,
        baseline_ms=timing.baseline_ms,
        baseline=timing.baseline,
    )


def _peak_ratio(evaluation: Evaluation) -> float | None:
    diagnosis = evaluation.diagnosis
    if diagnosis is None or diagnosis.peak_bytes is None or not diagnosis.original_peak_bytes:
        return None
    ratio = diagnosis.peak_bytes / diagnosis.original_peak_bytes
    return ratio if math.isfinite(ratio) else None


def first_line(text: str) -> str:
    """Return the first line of a message, shortened to fit into a row."""
    return (text.strip().splitlines() or [""])[0][:MESSAGE_CHARACTERS]
