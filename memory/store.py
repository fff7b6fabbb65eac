"""The store: every run, attempt and grading, kept for good and found again.

    with Store.open() as store:
        store.add_run(run)
        store.add_attempt(attempt, grading)
        for summary in store.runs(): ...

What a method adds is on disk when it returns, and callers that come at the same time share one commit. Adding the same
again does nothing; adding something else under the same key is a `RecordConflict`. Nothing is ever changed or removed.
Threads may share a store, and so may processes its file. Settings lose whatever looks like a secret on their way in;
see `redaction.py`.

What earlier runs teach is in `recall.py`; copies and rescue are in `backup.py` and `repair.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection, func, select

from triton_agent.memory import reading_attempts, reading_runs
from triton_agent.memory.commits import Committer
from triton_agent.memory.database import Database
from triton_agent.memory.errors import NotInStore
from triton_agent.memory.library import Library
from triton_agent.memory.listing import AttemptFilter, AttemptHeader, RunFilter, RunSummary
from triton_agent.memory.preparing import Prepared
from triton_agent.memory.records import Attempt, Event, Grading, Run, RunEnd
from triton_agent.memory.tables import Attempt as AttemptRow


class Store:
    """An open store; a context manager."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._committer = Committer(database)
        self.library = Library()
        """What is read often."""

    @classmethod
    def open(cls, where: str | Path | None = None, *, read_only: bool = False) -> Store:
        """A SQLite file or `postgresql://...`; by default what TRITON_AGENT_STORE says, else the user's own file.

        Made and migrated as needed, unless it is opened for reading only.
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
        """For those who ask it what this class does not answer."""
        return self._database

    # Adding

    def add_run(self, run: Run) -> None:
        self._committer.add([self.prepare(run)])

    def end_run(self, end: RunEnd) -> None:
        """A run that goes on later may end again; the last end counts."""
        self._committer.add([self.prepare(end)])

    def add_attempt(self, attempt: Attempt, grading: Grading | None = None) -> None:
        self._committer.add([self.prepare(attempt, grading)])

    def add_attempts(self, attempts: Iterable[Attempt | tuple[Attempt, Grading | None]]) -> None:
        """All in one commit. Where one is refused, the others are kept and the first refusal is raised."""
        pairs = (item if isinstance(item, tuple) else (item, None) for item in attempts)
        self._committer.add([self.prepare(attempt, grading) for attempt, grading in pairs])

    def add_grading(self, grading: Grading) -> None:
        self._committer.add([self.prepare(grading)])

    def add_event(self, event: Event) -> None:
        self._committer.add([self.prepare(event)])

    def prepare(self, record: Run | RunEnd | Attempt | Grading | Event, grading: Grading | None = None) -> Prepared:
        """Everything about adding that needs no database; see `GroupWriter`."""
        if isinstance(record, Attempt):
            return self._committer.preparer.attempt(record, grading)
        return self._committer.preparer.prepare(record)

    def commit(self, batch: Sequence[Prepared]) -> list[Exception | None]:
        """Write what was prepared, together with what others want written now; each with its own outcome."""
        return self._committer.commit(batch)

    # Runs

    def run(self, id: str) -> Run:
        """By its id, or the beginning of it if no other run's id begins so."""
        with self.reading() as connection:
            return reading_runs.get_run(connection, self.library, id)

    def find_run(self, name: str) -> str:
        """The whole id."""
        with self.reading() as connection:
            return reading_runs.find_run(connection, name)

    def runs(self, wanted: RunFilter | None = None) -> list[RunSummary]:
        """Newest first."""
        with self.reading() as connection:
            return reading_runs.list_runs(connection, wanted or RunFilter())

    def end(self, run: str) -> RunEnd | None:
        """How it ended last; None while it is open."""
        with self.reading() as connection:
            return reading_runs.get_end(connection, run)

    def events(self, run: str) -> list[Event]:
        """In the order in which they were added."""
        with self.reading() as connection:
            return reading_runs.get_events(connection, run)

    # Attempts

    def attempt(self, key: str) -> Attempt:
        with self.reading() as connection:
            return reading_attempts.attempts_by_id(
                connection, self.library, [reading_attempts.require_attempt(connection, key)]
            )[0]

    def has_attempt(self, key: str) -> bool:
        """What a run that goes on asks before it does anything."""
        with self.reading() as connection:
            try:
                return reading_attempts.attempt_id(connection, key) is not None
            except NotInStore:
                return False

    def headers(self, run: str) -> list[AttemptHeader]:
        """A line for each attempt of a run, by turn and answer."""
        with self.reading() as connection:
            return reading_attempts.attempt_headers(connection, run)

    def attempts(self, run: str) -> Iterator[Attempt]:
        """The attempts of a run in full, by turn and answer; read as they are asked for."""
        with self.reading() as connection:
            ids = reading_attempts.attempt_ids(connection, run)
        for some in _chunks(ids):
            with self.reading() as connection:
                found = reading_attempts.attempts_by_id(connection, self.library, some)
            yield from found

    def gradings(self, attempt: str) -> list[Grading]:
        """Oldest first."""
        with self.reading() as connection:
            number = reading_attempts.require_attempt(connection, attempt)
            return reading_attempts.gradings_by_attempt(connection, [number])[number]

    def trajectory(self, attempt: str) -> list[Attempt]:
        """From its first ancestor that is in this store, which may be in another run, down to it."""
        with self.reading() as connection:
            ids = reading_attempts.trajectory_ids(connection, attempt)
            return reading_attempts.attempts_by_id(connection, self.library, ids)

    def find_graded(self, problem: str, source: str, *, grader: str | None = None) -> Grading | None:
        """The newest verdict on a source (by its hash) for a problem (by its digest), from whatever run."""
        with self.reading() as connection:
            return reading_attempts.find_graded(connection, problem, source, grader)

    def iterate(self, wanted: AttemptFilter | None = None) -> Iterator[tuple[Attempt, list[Grading]]]:
        """Attempts with their gradings in the order in which they were added, up to what is there when it begins."""
        wanted, after = wanted or AttemptFilter(), 0
        with self.reading() as connection:
            last = connection.execute(select(func.max(AttemptRow.id))).scalar() or 0
        while after < last:
            with self.reading() as connection:
                ids = reading_attempts.matching_ids(connection, wanted, after, reading_attempts.CHUNK)
                ids = [number for number in ids if number <= last]
                found = reading_attempts.attempts_by_id(connection, self.library, ids)
                gradings = reading_attempts.gradings_by_attempt(connection, ids)
            yield from ((attempt, gradings[number]) for number, attempt in zip(ids, found, strict=True))
            after = ids[-1] if len(ids) == reading_attempts.CHUNK else last

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection for queries of one's own."""
        return self._database.reading()


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), reading_attempts.CHUNK):
        yield ids[start : start + reading_attempts.CHUNK]
