"""Signs that a training run is falling apart, read off what it logs: entropy, invalid answers, hacks.

Pure: a history goes in, a reason to stop comes out, or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

ENTROPY, INVALID, HACKED = "entropy", "eval_invalid", "eval_hack"
"""Names under which the figures are logged."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """When to stop. None leaves a sign out."""

    entropy_below: float | None = 0.02
    """Nats a token; a policy this sure of itself no longer explores, and its groups have no variance left."""
    entropy_above: float | None = None
    """Nats a token; a policy that babbles. The usual one depends on the model, so none is set."""
    invalid_above: float | None = 0.95
    """Share of evaluated answers that hold no Triton at all."""
    hack_above: float | None = 0.5
    """Share of evaluated answers that cheat."""
    patience: int = 3
    """So many readings in a row: one bad batch is no collapse."""


def collapse(history: Sequence[Mapping[str, float]], alarms: Alarms) -> str:
    """Why the run should stop; empty while it should not. Each entry is what was logged at one step."""
    checks = (
        (ENTROPY, alarms.entropy_below, -1, "entropy below"),
        (ENTROPY, alarms.entropy_above, 1, "entropy above"),
        (INVALID, alarms.invalid_above, 1, "share of invalid answers above"),
        (HACKED, alarms.hack_above, 1, "share of hacks above"),
    )
    for name, limit, sign, words in checks:
        readings = [entry[name] for entry in history if name in entry][-alarms.patience :]
        if limit is None or len(readings) < alarms.patience:
            continue
        if all(sign * (reading - limit) > 0 for reading in readings):
            return f"{words} {limit:g} for {alarms.patience} readings in a row (now {readings[-1]:.3g})"
    return ""
