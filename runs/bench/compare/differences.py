"""Finds in which settings, problems and machines two benchmark records differ, and what makes figures incomparable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from triton_agent.runs.bench.rows import ProblemRow, Record
from triton_agent.runs.bench.settings import UNSAID

DECIDING = ("mode", "device", "precision", "autocast", "samples")
"""Settings whose values change what the figures mean."""
PLACES = ("torch", "triton", "driver", "python", "commit")
"""Versions change the baselines; a difference is reported, and the change of the baselines' times shows its effect."""
ABSENT = "not set"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that differs between two records."""

    what: str
    before: str
    after: str
    deciding: bool
    """True if the figures cannot be compared because of it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.before} / {self.after}"


def differences(before: Record, after: Record) -> tuple[Difference, ...]:
    """Return all differences of requests and machines, those that decide comparability first."""
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
    """Describe both sets of problems; if the descriptions are equal, note in the second that the contents differ."""
    old, new = (set(record.head.labels) for record in (before, after))
    own = [f"{len(side)} asked for, {len(side - other)} of them here only" for side, other in ((old, new), (new, old))]
    if own[0] == own[1]:
        own[1] += ", with other contents"
    return own[0], own[1]


def _seen(
    what: str, before: Record, after: Record, of: Callable[[ProblemRow], str], *, deciding: bool = False
) -> Difference:
    """Compare values of the rows; shards may have run in several places."""
    sides = (" and ".join(sorted({of(row) or "unknown" for row in record.rows})) for record in (before, after))
    return _difference(what, *sides, deciding=deciding)
