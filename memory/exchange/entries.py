"""The runs of a store as one stream of entries, in a canonical order and form.

Each problem comes before the first run that needs it, and each run before its attempts by turn and answer, each with
its gradings, then events, then the end. An attempt refers to its problem by the hash of the problem view.
`read_entries` is the way back: it checks every entry against those before, so that a file can be validated before the
first record is stored.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from triton_agent.memory.exchange.plain import canonical, digest, from_plain, to_plain
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.tools.errors import UsageError

if TYPE_CHECKING:
    from triton_agent.memory.store import Store

FORMAT, VERSION = "triton-agent-records", 1


class EntryKind(enum.StrEnum):
    """The record in an entry."""

    PROBLEM = "problem"
    RUN = "run"
    ATTEMPT = "attempt"
    GRADING = "grading"
    EVENT = "event"
    END = "end"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordEntry:
    """One record as plain data."""

    kind: EntryKind
    data: dict[str, Any]


Remembered = Run | Attempt | Grading | Event | RunEnd


def header() -> dict[str, Any]:
    """Return the first line of a file of entries."""
    return {"format": FORMAT, "version": VERSION}


def require_header(data: Any, where: str) -> None:
    """Raise UsageError for a file in another format or of an unknown version."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError("not a file that `runs export` wrote", where=where, remedy="export with --format jsonl")
    if data.get("version") != VERSION:
        raise UsageError(
            f"format {data.get('version')!r} is not known here, only {VERSION}",
            where=where,
            remedy="read it with the version of triton-agent that wrote it",
        )


# -- out ---------------------------------------------------------------------------------------------------------------


def entries(store: Store, runs: Iterable[Run]) -> Iterator[RecordEntry]:
    """Yield all records of these runs in canonical order."""
    problems = _Problems()
    for run in sorted(runs, key=lambda run: run.id):
        yield from problems.told_before(run.problem)
        plain = to_plain(dataclasses.replace(run, problem=_LEFT_OUT))
        yield RecordEntry(kind=EntryKind.RUN, data=plain | {"problem": problems.reference})
        for attempt in sorted(store.attempts(run.id), key=lambda attempt: (attempt.turn, attempt.index)):
            yield from _attempt(attempt, problems)
            for grading in _ordered(store.gradings(attempt.key), "graded_at"):
                yield RecordEntry(kind=EntryKind.GRADING, data=grading)
        for event in _ordered(store.events(run.id), "at"):
            yield RecordEntry(kind=EntryKind.EVENT, data=event)
        if (end := store.end(run.id)) is not None:
            yield RecordEntry(kind=EntryKind.END, data=to_plain(end))


def _attempt(attempt: Attempt, problems: _Problems) -> Iterator[RecordEntry]:
    seen = attempt.observation
    yield from problems.told_before(seen.problem)
    plain = to_plain(dataclasses.replace(attempt, observation=dataclasses.replace(seen, problem=_LEFT_OUT)))
    plain["observation"]["problem"] = problems.reference
    yield RecordEntry(kind=EntryKind.ATTEMPT, data=plain)


_LEFT_OUT = ProblemView(digest="", name="", spec={}, source="", fingerprint="")


class _Problems:
    """Yields each problem once. Problem views are large, so a repeated one is hashed only once."""

    def __init__(self) -> None:
        self._last: ProblemView | None = None
        self._told: set[str] = set()
        self.reference = ""
        """Hash of the current problem."""

    def told_before(self, problem: ProblemView) -> Iterator[RecordEntry]:
        if self._last is not None and problem == self._last:
            return
        data = to_plain(problem)
        self._last, self.reference = problem, digest(data)
        if self.reference not in self._told:
            self._told.add(self.reference)
            yield RecordEntry(kind=EntryKind.PROBLEM, data=data)


def _ordered(records: Iterable[Any], by: str) -> list[dict[str, Any]]:
    """Sort by time, then by text, so that the order does not depend on the store."""
    return sorted(map(to_plain, records), key=lambda data: (data[by], canonical(data)))


# -- in ----------------------------------------------------------------------------------------------------------------


def read_entries(found: Iterable[tuple[str, RecordEntry]]) -> Iterator[Remembered]:
    """Read records from entries with their places; raise UsageError at the first invalid one."""
    problems: dict[str, ProblemView] = {}
    runs: set[str] = set()
    attempts: set[str] = set()
    for where, entry in found:
        if entry.kind is EntryKind.PROBLEM:
            problems[digest(entry.data)] = from_plain(ProblemView, entry.data, where)
            continue
        record = _record(entry, problems, where)
        if isinstance(record, Run):
            runs.add(record.id)
        elif isinstance(record, Attempt):
            _require(record.run in runs, f"run {record.run} of attempt {record.key}", where)
            attempts.add(record.key)
        elif isinstance(record, Grading):
            _require(record.attempt in attempts, f"attempt {record.attempt}", where)
        else:
            _require(record.run in runs, f"run {record.run}", where)
        yield record


def _record(entry: RecordEntry, problems: dict[str, ProblemView], where: str) -> Remembered:
    if entry.kind is EntryKind.RUN:
        return from_plain(Run, _resolved(entry.data, problems, where), where)
    if entry.kind is EntryKind.ATTEMPT:
        observation = entry.data.get("observation")
        _require(isinstance(observation, dict), "the observation", where)
        return from_plain(Attempt, {**entry.data, "observation": _resolved(observation, problems, where)}, where)
    if entry.kind is EntryKind.GRADING:
        return from_plain(Grading, entry.data, where)
    return (
        from_plain(Event, entry.data, where) if entry.kind is EntryKind.EVENT else from_plain(RunEnd, entry.data, where)
    )


def _resolved(data: Any, problems: dict[str, ProblemView], where: str) -> dict[str, Any]:
    reference = data.get("problem")
    _require(reference in problems, f"problem {str(reference)[:12]}", where)
    return {**data, "problem": problems[reference]}


def _require(there: bool, what: str, where: str) -> None:
    if not there:
        raise UsageError(f"{what} has to come earlier in the file", where=where, remedy="export it anew")
