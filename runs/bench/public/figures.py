"""Counts results of a public benchmark's own check, which are reported beside the verdicts. Nothing depends on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triton_agent.runs.bench.figures import FACTORS
from triton_agent.runs.bench.rows import Record
from triton_agent.runs.bench.standing import is_solved


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublicFigures:
    """Numbers of judged problems that are correct and fast by that check."""

    of: int
    correct: int
    """Correct in any sample."""
    correct_at_first: int
    """Correct with the tolerance of the check's first version."""
    only_there: int
    """Correct by that check, but not solved by a verdict."""
    fast: Mapping[str, int]
    """Numbers of fast problems, by fast_p; empty if nothing was timed."""


def public_figures(record: Record) -> PublicFigures | None:
    """Return the counts; None if that check was not asked for."""
    rows = [row for row in record.rows if is_solved(row) is not None]
    checks = {row.label: [sample.public for sample in row.samples if sample.public] for row in rows}
    if not any(checks.values()):
        return None
    correct = {label for label, found in checks.items() if any(check.correct for check in found)}
    speedups = [max(check.speedup or 0.0 for check in checks[label] if check.correct) for label in correct]
    timed = any(check.speedup is not None for found in checks.values() for check in found)
    return PublicFigures(
        of=len(rows),
        correct=len(correct),
        correct_at_first=sum(any(check.correct_at_first for check in found) for found in checks.values()),
        only_there=len(correct - {row.label for row in rows if row.solved}),
        fast={f"fast_{p:g}": sum(speedup > p for speedup in speedups) for p in FACTORS} if timed else {},
    )
