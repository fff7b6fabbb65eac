"""Counts by a public benchmark's own check, where that was asked for beside the verdicts; nothing rests on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triton_agent.runs.bench.figures import FACTORS
from triton_agent.runs.bench.rows import ProblemRow, PublicCheck, Record
from triton_agent.runs.bench.standing import is_solved


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublicFigures:
    """Of all judged problems, how many."""

    of: int
    correct: int
    """In any sample."""
    correct_at_first: int
    """With the tolerance of the first version."""
    only_there: int
    """Correct by that check and not solved by a verdict."""
    fast: Mapping[str, int]
    """By fast_p; empty where nothing was timed."""


def public_figures(record: Record) -> PublicFigures | None:
    """None where that check was not asked for."""
    rows = [row for row in record.rows if is_solved(row) is not None]
    checks = {row.label: [sample.public for sample in row.samples if sample.public] for row in rows}
    if not any(checks.values()):
        return None
    correct = {label for label, found in checks.items() if any(check.correct for check in found)}
    speedups = [max(map(_speedup, found), default=0.0) for label, found in checks.items() if label in correct]
    timed = any(check.speedup is not None for found in checks.values() for check in found)
    return PublicFigures(
        of=len(rows),
        correct=len(correct),
        correct_at_first=sum(any(check.correct_at_first for check in found) for found in checks.values()),
        only_there=len(correct - _solved(rows)),
        fast={f"fast_{p:g}": sum(speedup > p for speedup in speedups) for p in FACTORS} if timed else {},
    )


def _solved(rows: list[ProblemRow]) -> set[str]:
    return {row.label for row in rows if row.solved}


def _speedup(check: PublicCheck) -> float:
    """Of a kernel that is right; 0 for others."""
    return check.speedup or 0.0 if check.correct else 0.0
