"""Summarises a model with parts: which parts are in place, and how many bytes they save.

The bytes are counted, not measured. For the reference every operator reads and writes its own bytes; for kernels the
ratio of bytes moved to the fewest is known from the interpreter at small sizes, and assumed to hold at the sizes given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from triton_agent.policy.episode import Graded
from triton_agent.runs.optimize.screen import figure_of
from triton_agent.runs.parts.choosing import PartPlan
from triton_agent.tools.ranking import Standing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The summary of one run."""

    in_place: tuple[str, ...]
    left_out: tuple[str, ...]
    original_bytes: int
    """Bytes moved by the reference's operators; the JSON keeps this older name of the field."""
    kernels_bytes: int | None
    """Bytes moved by the model with its parts; None if some were not counted."""

    def __str__(self) -> str:
        lines = [f"parts in place: {', '.join(self.in_place) or 'none'}"]
        if self.left_out:
            lines.append(f"left to the reference: {', '.join(self.left_out)}")
        if self.kernels_bytes is not None:
            lines.append(
                f"by count {self.kernels_bytes:,} bytes a call, where the reference's operators move "
                f"{self.original_bytes:,}"
            )
        return "\n".join(lines)


def tally(
    plans: Sequence[PartPlan], in_place: frozenset[str], standings: Mapping[str, Standing], original_bytes: int
) -> Tally:
    """Summarise: `plans` are the parts tried, `standings` those of their best attempts by name."""
    moved: int | None = original_bytes
    for plan in plans:
        standing = standings.get(plan.name)
        if plan.name in in_place and moved is not None:
            counted = standing is not None and not standing.left_to_torch and standing.traffic_ratio is not None
            ratio = standing.traffic_ratio if standing is not None and counted else None
            moved = None if ratio is None else moved - plan.moved_bytes + round(ratio * plan.floor_bytes)
    return Tally(
        in_place=tuple(plan.name for plan in plans if plan.name in in_place),
        left_out=tuple(plan.name for plan in plans if plan.name not in in_place),
        original_bytes=original_bytes,
        kernels_bytes=moved,
    )


def helps(plan: PartPlan, best: Graded) -> bool:
    """Return True if a part is worth placing: measured faster than the reference, or moving fewer bytes by count."""
    standing = best.standing
    if standing.speedup is not None:
        return standing.faster_than_reference
    return standing.passed and (standing.traffic_ratio is None or standing.traffic_ratio < _reference_ratio(plan))


def verdict_on(plan: PartPlan, best: Graded | None) -> str:
    """Describe the result for a part in words."""
    if best is None or not best.standing.passed:
        return "no kernel passed; the reference stays in its place" + _instead(plan)
    figure = figure_of(best)
    if best.standing.speedup is None:
        figure = f"{figure}; the reference's operators {_reference_ratio(plan):.2f}x"
    return figure if helps(plan, best) else f"{figure}: the reference stays in its place{_instead(plan)}"


def _instead(plan: PartPlan) -> str:
    return f"; within it: {', '.join(item.name for item in plan.inner)}" if plan.inner else ""


def _reference_ratio(plan: PartPlan) -> float:
    return plan.moved_bytes / max(1, plan.floor_bytes)
