"""Types of `doctor`: sections of checks, each with an observation and advice."""

from __future__ import annotations

import dataclasses
import enum


class CheckState(enum.StrEnum):
    """Result of a check."""

    OK = "ok"
    ABSENT = "missing"
    """Not there; something optional does not work without it."""
    WEAK = "weak"
    """Works, but less safely or reliably than it should."""
    BROKEN = "broken"
    """Kernels cannot be judged on this machine until it is fixed."""
    FACT = "fact"
    """Neither good nor bad."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the page."""

    name: str
    state: CheckState
    seen: str
    advice: str = ""
    """What its absence means and how to get it; empty if there is nothing to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    checks: tuple[Check, ...]


def in_binary_units(count: int) -> str:
    """Format a size: `512 B`, `1.5 GiB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
