"""The shape of what `doctor` finds: sections of checks, each with what was seen and, where it helps, what to do."""

from __future__ import annotations

import dataclasses
import enum


class State(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    ABSENT = "missing"
    """Not there; something optional is less for it."""
    WEAK = "weak"
    """Works, but less safely or less surely than it should."""
    BROKEN = "broken"
    """Kernels cannot be judged on this machine until it is mended."""
    FACT = "fact"
    """Neither good nor bad."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the page."""

    name: str
    state: State
    seen: str
    advice: str = ""
    """What its absence means and how to get it; empty where there is nothing to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Checks that belong together."""

    name: str
    checks: tuple[Check, ...]


def in_binary_units(count: int) -> str:
    """Bytes for people: `512 B`, `1.5 GiB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
