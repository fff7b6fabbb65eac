"""The store: adds and finds runs, attempts and gradings.

    with Store.open() as store:
        store.add_run(run)
        store.add_attempt(attempt, grading)
        for summary in store.runs(): ...

A method that adds returns after the record is on disk; callers at the same time share one commit. Adding an equal
record again does nothing; adding a different one under the same key is a `RecordConflict`. This class never changes or
removes a record. Threads may share a store, processes its file. Settings are redacted before they are stored; see
`redaction.py`.

Recall is in `recall.py`; copies, repair and removal are in `backup.py`, `repair.py` and `pruning.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.listing import AttemptFilter, AttemptHeader, HeaderFilter, RunFilter, RunSummary
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.memory.sql import reading_attempts, reading_runs
from triton_agent.memory.sql.commits import Committer
from triton_agent.memory.sql.database import Database
from triton_agent.memory.sql.library import Library
from triton_agent.memory.sql.preparing import Prepared


class Store:
    """An open store; a context manager."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._committer = Committer(database)
        self.library = Library()
        """Cache of blobs."""

    @classmethod
    def open(cls, where: str | Path | None = None, *, read_only: bool = False) -> Store:
        """Open a SQLite file or `postgresql://...`; by default TRITON_AGENT_STORE, otherwise the user's own file.

        The store is made and migrated as needed, unless it is opened for reading only.
        """
        return cls(Database(where, read_only=read_only))

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @property
    def where(self) -> str:
        """The file, or the URL without its password."""
        return self._database.where

    @property
    def database(self) -> Database:
        """For queries that this class does not offer."""
        return self._database

    # Adding

    def add_run(self, run: Run) -> None:
        self._committer.add([self.prepare(run)])

    def end_run(self, end: RunEnd) -> None:
        """Record the end of a run. A resumed run may end again; the last end counts."""
        self._committer.add([self.prepare(end)])

    def add_attempt(self, attempt: Attempt, grading: Grading | None = None) -> None:
        self._committer.add([self.prepare(attempt, grading)])

    def add_attempts(self, attempts: Iterable[Attempt | tuple[Attempt, Grading | None]]) -> None:
        """Add attempts in one commit. If one is refused, the others are kept and the first refusal is raised."""
        pairs = (item if isinstance(item, tuple) else (item, None) for item in attempts)
        self._committer.add([self.prepare(attempt, grading) for attempt, grading in pairs])

    def add_grading(self, grading: Grading) -> None:
        self._committer.add([self.prepare(grading)])

    def add_event(self, event: Event) -> None:
        self._committer.add([self.prepare(event)])

    def prepare(self, record: Run | RunEnd | Attempt | Grading | Event, grading: Grading | None = None) -> Prepared:
        """Do the part of adding that needs no database; see `GroupWriter`."""
        if isinstance(record, Attempt):
            return self._committer.preparer.attempt(record, grading)
        return self._committer.preparer.prepare(record)

    def commit(self, batch: Sequence[Prepared]) -> list[Exception | None]:
        """Write prepared records, together with those of other threads; return an outcome for each."""
        return self._committer.commit(batch)

    # Runs

    def run(self, id: str) -> Run:
        """Return a run by its id, or by the unique beginning of one."""
        with self.reading() as connection:
            return reading_runs.get_run(connection, self.library, id)

    def find_run(self, name: str) -> str:
        """Return the whole id."""
        with self.reading() as connection:
            return reading_runs.find_run(connection, name)

    def runs(self, wanted: RunFilter | None = None) -> list[RunSummary]:
        """Return the runs that match, newest first."""
        with self.reading() as connection:
            return reading_runs.list_runs(connection, wanted or RunFilter())

    def policies(self, limit: int = 50) -> list[str]:
        """Return the names of the policies of runs, in alphabetical order."""
        with self.reading() as connection:
            return reading_runs.policies_of_runs(connection, limit)

    def end(self, run: str) -> RunEnd | None:
        """Return the last end of a run; None while it is open."""
        with self.reading() as connection:
            return reading_runs.get_end(connection, run)

    def events(self, run: str) -> list[Event]:
        """Return a run's events in the order of insertion."""
        with self.reading() as connection:
            return reading_runs.get_events(connection, run)

    # Attempts

    def attempt(self, key: str) -> Attempt:
        with self.reading() as connection:
            return reading_attempts.attempts_by_id(
                connection, self.library, [reading_attempts.require_attempt(connection, key)]
            )[0]

    def has_attempt(self, key: str) -> bool:
        """Return True if the attempt is stored; a resumed run asks this before each attempt."""
        with self.reading() as connection:
            try:
                return reading_attempts.attempt_id(connection, key) is not None
            except NotInStore:
                return False

    def headers(self, run: str, wanted: HeaderFilter | None = None) -> list[AttemptHeader]:
        """Return a line for each attempt of a run, by turn and answer."""
        with self.reading() as connection:
            return reading_attempts.attempt_headers(connection, run, wanted or HeaderFilter())

    def header(self, key: str) -> AttemptHeader | None:
        with self.reading() as connection:
            return reading_attempts.attempt_header(connection, key)

    def attempts(self, run: str) -> Iterator[Attempt]:
        """Yield a run's attempts in full, by turn and answer; read in chunks."""
        with self.reading() as connection:
            ids = reading_attempts.attempt_ids(connection, run)
        for some in _chunks(ids):
            with self.reading() as connection:
                found = reading_attempts.attempts_by_id(connection, self.library, some)
            yield from found

    def gradings(self, attempt: str) -> list[Grading]:
        """Return an attempt's gradings, oldest first."""
        with self.reading() as connection:
            number = reading_attempts.require_attempt(connection, attempt)
            return reading_attempts.gradings_by_attempt(connection, [number])[number]

    def trajectory(self, attempt: str) -> list[Attempt]:
        """Return the path from the first ancestor in this store, which may be in another run, to the attempt."""
        with self.reading() as connection:
            ids = reading_attempts.trajectory_ids(connection, attempt)
            return reading_attempts.attempts_by_id(connection, self.library, ids)

    def find_graded(self, problem: str, source: str, *, grader: str | None = None) -> Grading | None:
        """Return the newest verdict on a source (by its hash) for a problem (by its digest), over all runs."""
        with self.reading() as connection:
            return reading_attempts.find_graded(connection, problem, source, grader)

    def iterate(self, wanted: AttemptFilter | None = None) -> Iterator[tuple[Attempt, list[Grading]]]:
        """Yield attempts with their gradings in the order of insertion, up to the last one at the start."""
        with self.reading() as connection:
            matching = reading_attempts.matching_ids(connection, wanted or AttemptFilter())
        for ids in _chunks(matching):
            with self.reading() as connection:
                found = reading_attempts.attempts_by_id(connection, self.library, ids)
                gradings = reading_attempts.gradings_by_attempt(connection, ids)
            yield from ((attempt, gradings[number]) for number, attempt in zip(ids, found, strict=True))

    def reading(self) -> AbstractContextManager[Connection]:
        """Yield a connection for the caller's own queries."""
        return self._database.reading()


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), reading_attempts.CHUNK):
        yield ids[start : start + reading_attempts.CHUNK]
