"""A store's runs as one stream of entries, in an order and a form that depend on nothing but what was remembered.

Each run comes with its problem before it (once for all runs that share it), then its attempts by turn and answer, each
with its gradings, then events, then its end. An attempt refers to its problem by the hash of what its author saw of it.
`read_entries` is the way back: it checks every entry against what came before, so that a file is known to be sound
before the first of it is stored.
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


class Kind(enum.StrEnum):
    """What an entry holds."""

    PROBLEM = "problem"
    RUN = "run"
    ATTEMPT = "attempt"
    GRADING = "grading"
    EVENT = "event"
    END = "end"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record as plain data."""

    kind: Kind
    data: dict[str, Any]


Remembered = Run | Attempt | Grading | Event | RunEnd


def header() -> dict[str, Any]:
    """What a file of entries begins with."""
    return {"format": FORMAT, "version": VERSION}


def require_header(data: Any, where: str) -> None:
    """UsageError where a file is none of ours, or of a version that is not known here."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError("not a file that `runs export` wrote", where=where, remedy="export with --format jsonl")
    if data.get("version") != VERSION:
        raise UsageError(
            f"format {data.get('version')!r} is not known here, only {VERSION}",
            where=where,
            remedy="read it with the version of triton-agent that wrote it",
        )


# -- out ---------------------------------------------------------------------------------------------------------------


def entries(store: Store, runs: Iterable[Run]) -> Iterator[Entry]:
    """Everything of these runs, in canonical order."""
    problems = _Problems()
    for run in sorted(runs, key=lambda run: run.id):
        yield from problems.told_before(run.problem)
        plain = to_plain(dataclasses.replace(run, problem=_LEFT_OUT))
        yield Entry(kind=Kind.RUN, data=plain | {"problem": problems.reference})
        for attempt in sorted(store.attempts(run.id), key=lambda attempt: (attempt.turn, attempt.index)):
            yield from _attempt(attempt, problems)
            for grading in _ordered(store.gradings(attempt.key), "graded_at"):
                yield Entry(kind=Kind.GRADING, data=grading)
        for event in _ordered(store.events(run.id), "at"):
            yield Entry(kind=Kind.EVENT, data=event)
        if (end := store.end(run.id)) is not None:
            yield Entry(kind=Kind.END, data=to_plain(end))


def _attempt(attempt: Attempt, problems: _Problems) -> Iterator[Entry]:
    seen = attempt.observation
    yield from problems.told_before(seen.problem)
    plain = to_plain(dataclasses.replace(attempt, observation=dataclasses.replace(seen, problem=_LEFT_OUT)))
    plain["observation"]["problem"] = problems.reference
    yield Entry(kind=Kind.ATTEMPT, data=plain)


_LEFT_OUT = ProblemView(digest="", name="", spec={}, source="", fingerprint="")


class _Problems:
    """Tells each problem once. Graphs make them large, so one that comes again and again is hashed once only."""

    def __init__(self) -> None:
        self._last: ProblemView | None = None
        self._told: set[str] = set()
        self.reference = ""
        """Of the problem last asked for."""

    def told_before(self, problem: ProblemView) -> Iterator[Entry]:
        if self._last is not None and problem == self._last:
            return
        data = to_plain(problem)
        self._last, self.reference = problem, digest(data)
        if self.reference not in self._told:
            self._told.add(self.reference)
            yield Entry(kind=Kind.PROBLEM, data=data)


def _ordered(records: Iterable[Any], by: str) -> list[dict[str, Any]]:
    """By time; what happened at the same microsecond by its text, so that no store's own order shows."""
    return sorted(map(to_plain, records), key=lambda data: (data[by], canonical(data)))


# -- in ----------------------------------------------------------------------------------------------------------------


def read_entries(found: Iterable[tuple[str, Entry]]) -> Iterator[Remembered]:
    """Records from entries, each given with where it stands; UsageError at the first that is not sound."""
    problems: dict[str, ProblemView] = {}
    runs: set[str] = set()
    attempts: set[str] = set()
    for where, entry in found:
        if entry.kind is Kind.PROBLEM:
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


def _record(entry: Entry, problems: dict[str, ProblemView], where: str) -> Remembered:
    if entry.kind is Kind.RUN:
        return from_plain(Run, _resolved(entry.data, problems, where), where)
    if entry.kind is Kind.ATTEMPT:
        observation = entry.data.get("observation")
        _require(isinstance(observation, dict), "the observation", where)
        return from_plain(Attempt, {**entry.data, "observation": _resolved(observation, problems, where)}, where)
    if entry.kind is Kind.GRADING:
        return from_plain(Grading, entry.data, where)
    return from_plain(Event, entry.data, where) if entry.kind is Kind.EVENT else from_plain(RunEnd, entry.data, where)


def _resolved(data: Any, problems: dict[str, ProblemView], where: str) -> dict[str, Any]:
    reference = data.get("problem")
    _require(reference in problems, f"problem {str(reference)[:12]}", where)
    return {**data, "problem": problems[reference]}


def _require(there: bool, what: str, where: str) -> None:
    if not there:
        raise UsageError(f"{what} is not in the file before this", where=where, remedy="export it anew")
