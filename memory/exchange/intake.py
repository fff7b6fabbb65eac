"""Imports records into a store; importing a file twice changes nothing.

A stored run gets the records it lacks. If an id refers to different content, the import is refused and that run is
left unchanged: ids do not collide by chance, so one of the two was altered. A file is read twice: first to
validate it, then to store it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from triton_agent.memory.errors import NotInStore, RecordConflict
from triton_agent.memory.exchange.entries import Remembered
from triton_agent.memory.exchange.plain import canonical, to_plain
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.memory.sql.commits import GroupWriter

if TYPE_CHECKING:
    from triton_agent.memory.store import Store


@dataclasses.dataclass(slots=True)
class Taken:
    """Counts of an import."""

    runs: int = 0
    attempts: int = 0
    gradings: int = 0
    others: int = 0
    """Events and ends."""
    there_already: int = 0


def require_sound(records: Iterable[Remembered]) -> int:
    """Read all records, raising UsageError at the first invalid one; return their number."""
    return sum(1 for _ in records)


def take_in(store: Store, records: Iterable[Remembered]) -> Taken:
    """Store the records that are not stored yet."""
    taken, known = Taken(), None
    with GroupWriter(store) as writer:
        pending: list[concurrent.futures.Future[None]] = []
        for record, gradings in _with_gradings(records):
            if isinstance(record, Run):
                _settle(pending)
                known = _Known(store, record)
                taken.runs += known.is_new
                taken.there_already += not known.is_new
                if known.is_new:
                    store.add_run(record)  # on disk before anything of it is
            elif known is None or isinstance(record, Grading):
                raise AssertionError("`read_entries` has runs come first, and gradings after their attempts")
            elif isinstance(record, Attempt):
                pending += _take_attempt(writer, record, gradings, known, taken)
            elif known.has(record):
                taken.there_already += 1
            else:
                pending.append(writer.add(record))
                taken.others += 1
        _settle(pending)
    return taken


def _settle(pending: list[concurrent.futures.Future[None]]) -> None:
    """Wait until all is on disk; raise the first refusal."""
    while pending:
        pending.pop(0).result()


def _take_attempt(
    writer: GroupWriter, attempt: Attempt, gradings: list[Grading], known: _Known, taken: Taken
) -> Iterator[concurrent.futures.Future[None]]:
    there = known.attempt(attempt)
    new = [one for one in gradings if not known.has(one)]
    taken.attempts += not there
    taken.gradings += len(new)
    taken.there_already += there + len(gradings) - len(new)
    if not there:
        yield writer.add(attempt, new[0] if new else None)
    for grading in new if there else new[1:]:
        yield writer.add(grading)


def _with_gradings(records: Iterable[Remembered]) -> Iterator[tuple[Remembered, list[Grading]]]:
    """Yield each attempt with the gradings that follow it, so that both are stored in one commit."""
    waiting: tuple[Remembered, list[Grading]] | None = None
    for record in records:
        if isinstance(record, Grading) and waiting is not None and record.attempt == _key(waiting[0]):
            waiting[1].append(record)
            continue
        if waiting is not None:
            yield waiting
        waiting = (record, [])
    if waiting is not None:
        yield waiting


def _key(record: Remembered) -> str:
    return record.key if isinstance(record, Attempt) else ""


class _Known:
    """The stored records of one run, compared in canonical form."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        try:
            there = store.run(run.id)
            self.is_new = there.id != run.id  # it may have been found by the beginning of its id
        except NotInStore:
            self.is_new = True
        self._records: set[str] = set()
        if self.is_new:
            return
        _require_equal(there, run, f"run {run.id}")
        self._records = {_text(event) for event in store.events(run.id)}
        end = store.end(run.id)
        if end is not None:
            self._records.add(_text(end))

    def attempt(self, attempt: Attempt) -> bool:
        """Return True if the attempt is stored; its gradings are then known, too."""
        if self.is_new or not self._store.has_attempt(attempt.key):
            return False
        _require_equal(self._store.attempt(attempt.key), attempt, f"attempt {attempt.key}")
        self._records |= {_text(grading) for grading in self._store.gradings(attempt.key)}
        return True

    def has(self, record: Event | RunEnd | Grading) -> bool:
        return _text(record) in self._records


def _text(record: Any) -> str:
    return canonical(to_plain(record))


def _require_equal(there: Any, here: Any, what: str) -> None:
    if there != here and _text(there) != _text(here):
        raise RecordConflict(
            f"{what} is in the store already with different content",
            remedy="import it into another store: --store FILE",
        )
