"""Detects signs of collapse in the log of a training run: entropy, invalid answers, hacks.

Pure functions from a history to a reason to stop.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

ENTROPY, INVALID, HACKED = "entropy", "eval_invalid", "eval_hack"
"""Names of the logged figures."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """Thresholds for stopping; None disables one."""

    entropy_below: float | None = 0.02
    """Nats per token. With a lower entropy the policy no longer explores, and its groups have no variance left. For a
    policy that begins lower, as one does whose tokens are whole lines, half of its first reading takes this place.
    """
    entropy_above: float | None = None
    """Nats per token. With a higher entropy the policy writes noise. The usual value depends on the model, so none is
    set.
    """
    invalid_above: float | None = 0.95
    """Share of evaluated answers without any Triton."""
    hack_above: float | None = 0.5
    patience: int = 3
    """Number of consecutive readings beyond a threshold that stop the run; a single bad batch is no collapse."""


def collapse(history: Sequence[Mapping[str, float]], alarms: Alarms) -> str:
    """Return why the run should stop; empty otherwise. Each entry of the history is the log of one step."""
    first = next((entry[ENTROPY] for entry in history if ENTROPY in entry), math.inf)
    lowest = None if alarms.entropy_below is None else min(alarms.entropy_below, first / 2)
    checks = (
        (ENTROPY, lowest, -1, "entropy below"),
        (ENTROPY, alarms.entropy_above, 1, "entropy above"),
        (INVALID, alarms.invalid_above, 1, "share of invalid answers above"),
        (HACKED, alarms.hack_above, 1, "share of hacks above"),
    )
    for name, limit, sign, words in checks:
        readings = [entry[name] for entry in history if name in entry][-alarms.patience :]
        if limit is None or len(readings) < alarms.patience:
            continue
        if all(sign * (reading - limit) > 0 for reading in readings):
            return f"{words} {limit:.3g} for {alarms.patience} readings in a row (now {readings[-1]:.3g})"
    return ""
