"""What two benchmark records were not made alike in, and whether figures can be compared nevertheless."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from triton_agent.runs.bench.rows import ProblemRow, Record
from triton_agent.runs.bench.settings import UNSAID

DECIDING = ("mode", "device", "precision", "autocast", "samples")
"""Settings with other values make other figures, not better or worse ones."""
PLACES = ("torch", "triton", "driver", "python", "commit")
"""Other versions make other baselines; that is told, and shows in how far the baselines' own times moved."""
ABSENT = "not set"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not the same on both sides."""

    what: str
    before: str
    after: str
    deciding: bool
    """True if figures cannot be compared because of it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.before} / {self.after}"


def differences(before: Record, after: Record) -> tuple[Difference, ...]:
    """Whatever is not the same of what was asked for and where it ran; deciding ones first."""
    found = [item for item in _all(before, after) if item.before != item.after]
    return tuple(sorted(found, key=lambda item: not item.deciding))


def _all(before: Record, after: Record) -> Iterator[Difference]:
    yield _difference("benchmark", before.head.benchmark, after.head.benchmark, deciding=True)
    if before.head.digest != after.head.digest:
        yield _difference("problems", *_sets(before, after), deciding=True)
    yield _seen("GPU", before, after, lambda row: row.where.gpu or row.where.device, deciding=True)
    for name in dict.fromkeys([*before.head.settings, *after.head.settings]):
        values = (_said(record.head.settings.get(name, UNSAID.get(name))) for record in (before, after))
        yield _difference(name, *values, deciding=name in DECIDING)
    for name in PLACES:
        yield _seen(name, before, after, lambda row, name=name: str(getattr(row.where, name)))  # type: ignore[misc]


def _difference(what: str, before: str, after: str, *, deciding: bool) -> Difference:
    return Difference(what=what, before=before, after=after, deciding=deciding)


def _said(value: object) -> str:
    return ABSENT if value is None or value == "" else str(value)


def _sets(before: Record, after: Record) -> tuple[str, str]:
    """How the two sets lie to each other; equal words would hide that contents differ."""
    old, new = (set(record.head.labels) for record in (before, after))
    own = [f"{len(side)} asked for, {len(side - other)} of them here only" for side, other in ((old, new), (new, old))]
    if own[0] == own[1]:
        own[1] += ", with other contents"
    return own[0], own[1]


def _seen(
    what: str, before: Record, after: Record, of: Callable[[ProblemRow], str], *, deciding: bool = False
) -> Difference:
    """Of the rows; shards may have run in several places."""
    sides = (" and ".join(sorted({of(row) or "unknown" for row in record.rows})) for record in (before, after))
    return _difference(what, *sides, deciding=deciding)
