"""Predicts how much memory of a card a problem needs, and finds smaller sizes if its reference does not fit.

The prediction runs the problem's code on fake tensors, and the text at smaller sizes is found the same way, so both
happen in a separate process (`process.py`). Not covered: references that do not run on fake tensors, for which half of
a card is reserved.
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

BASELINE_TIMES, BASELINE_MORE_BYTES = 3.0, 2 << 30
"""Memory that measuring baselines may take: reference and compiled reference, and their compared answers."""
FITS_TIMES = 2.0
"""A card has to hold this many calls of the reference; otherwise the problem is judged at smaller sizes."""
MOST_STEPS = 12
"""Halvings of a size that are tried before the problem is judged at the sizes reached."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A problem at the sizes at which it is judged on a card."""

    spec: ProblemSpec
    baseline_bytes: int = 0
    """Memory to reserve for measuring baselines; 0 without a card."""
    sentence: str = ""
    """How the problem was scaled down, in words; empty if it fits at the sizes given."""


def fitted(spec: ProblemSpec, told: dict[str, Any], capacity_bytes: int, folder: Path) -> Fitted:
    """Read the answer of the process about a problem; write a text at smaller sizes into the folder."""
    peak = told.get("peak_bytes")
    if peak is None:
        return Fitted(spec=spec, baseline_bytes=capacity_bytes // 2)
    if text := told.get("text"):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{Path(spec.path).stem}_scaled.py"
        path.write_text(text, encoding="utf-8")
        spec = parse_problem(str(path))
    return Fitted(
        spec=spec,
        baseline_bytes=min(capacity_bytes, int(BASELINE_TIMES * peak) + BASELINE_MORE_BYTES),
        sentence=told.get("sentence", ""),
    )


# -- in a child of `process.py` ----------------------------------------------------------------------------------------


def sized(spec: ProblemSpec, capacity_bytes: int) -> dict[str, Any]:
    """Return the reference's peak and, if that does not fit, the file at smaller sizes; runs the problem's code."""
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
        _, _, peak, at = min(smaller, key=lambda item: item[:2])  # batch and lengths before sizes of the module itself
        changed = {key: value for key, value in at.items() if value != given[key]}
    if not changed:
        return {"peak_bytes": peak}
    steps = ", ".join(f"{_named(key)} {given[key]} -> {value}" for key, value in changed.items())
    text = ast.unparse(resize_tree(spec.source().tree, changed)) + "\n"
    return {"peak_bytes": peak, "text": text, "sentence": f"scaled down to fit the card: {steps}"}


def _halved(sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield the sizes with one of them halved, in the order of the file; then with all equal sizes halved together."""
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
