"""How much of a card a problem needs, and smaller sizes for a problem whose reference does not fit.

The prediction runs the problem's code on fake tensors, so it is made in a process of its own (`process.py`), as is the
text at smaller sizes. Not covered: references that do not run on fake tensors, for which half a card is reserved.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec, parse_problem
from triton_agent.tools.reference.sizes import INPUTS, SIZES, SMALL, free_sizes, resize_tree

VERDICT_TIMES, VERDICT_MORE_BYTES = 2.5, 6 << 30
"""Peaks of one call of the reference, and bytes beside them, that a verdict may take (decision 13)."""
BASELINE_TIMES, BASELINE_MORE_BYTES = 3.0, 2 << 30
"""The same for measuring baselines: reference and compiled reference, and their answers compared."""
FITS_TIMES = 2.0
"""A card that cannot hold so many calls of the reference gets the problem at smaller sizes."""
MOST_STEPS = 12
"""Halvings before a problem is taken as it is."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A problem as it is judged on a card."""

    spec: ProblemSpec
    verdict_bytes: int = 0
    """0 where no card is used."""
    baseline_bytes: int = 0
    sentence: str = ""
    """How it was scaled down; empty where it fits as given."""


def fitted(spec: ProblemSpec, told: dict[str, Any], capacity_bytes: int, folder: Path) -> Fitted:
    """Read what the process says of a problem; a text at smaller sizes is written into the folder."""
    peak = told.get("peak_bytes")
    if peak is None:
        return Fitted(spec=spec, verdict_bytes=capacity_bytes // 2, baseline_bytes=capacity_bytes // 2)
    if text := told.get("text"):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{Path(spec.path).stem}_scaled.py"
        path.write_text(text, encoding="utf-8")
        spec = parse_problem(str(path))
    return Fitted(
        spec=spec,
        verdict_bytes=min(capacity_bytes, int(VERDICT_TIMES * peak) + VERDICT_MORE_BYTES),
        baseline_bytes=min(capacity_bytes, int(BASELINE_TIMES * peak) + BASELINE_MORE_BYTES),
        sentence=told.get("sentence", ""),
    )


# -- in a child of `process.py` ----------------------------------------------------------------------------------------


def sized(spec: ProblemSpec, capacity_bytes: int) -> dict[str, Any]:
    """The reference's peak, and the file at smaller sizes where that does not fit; runs the problem's code."""
    from triton_agent.tools.reference.peak_memory import predicted_peak
    from triton_agent.tools.reference.reference import load

    def peak_at(constants: dict[str, int]) -> tuple[int, int]:
        found = predicted_peak(load(spec, constants))
        return found.peak_bytes, found.parameter_bytes

    peak, parameters = peak_at({})
    given = free_sizes(spec, spec.source().tree)
    at = dict(given)
    changed: dict[str, int] = {}
    for _ in range(MOST_STEPS if spec.kind is not ProblemKind.USER_MODULE else 0):
        if FITS_TIMES * peak <= capacity_bytes:
            break
        smaller: list[tuple[bool, int, int, dict[str, int]]] = []
        for number, trial in enumerate(_halved(at)):
            now = {key: value for key, value in trial.items() if value != given[key]}
            try:
                its_peak, its_parameters = peak_at(now)
            except ProblemError:
                continue
            if its_peak < peak:
                smaller.append((its_parameters != parameters, number, its_peak, trial))
        if not smaller:
            break
        _, _, peak, at = min(smaller, key=lambda item: item[:2])  # batch and lengths before the module's own sizes
        changed = {key: value for key, value in at.items() if value != given[key]}
    if not changed:
        return {"peak_bytes": peak}
    steps = ", ".join(f"{_named(key)} {given[key]} -> {value}" for key, value in changed.items())
    text = ast.unparse(resize_tree(spec.source().tree, changed)) + "\n"
    return {"peak_bytes": peak, "text": text, "sentence": f"scaled down to fit the card: {steps}"}


def _halved(sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """One size halved, in the order in which they are written; then those that are equal together."""
    large = [key for key, value in sizes.items() if value > SMALL or (value > 1 and key.startswith(INPUTS))]
    large += [key for key, value in sizes.items() if 1 < value <= SMALL and "batch" in key.lower()]
    for key in large:
        yield {**sizes, key: sizes[key] // 2}
    for value in dict.fromkeys(sizes[key] for key in large):
        equal = [key for key in large if sizes[key] == value]
        if len(equal) > 1:
            yield {**sizes, **dict.fromkeys(equal, value // 2)}


def _named(key: str) -> str:
    return "size" if key.startswith((INPUTS, SIZES)) else key
