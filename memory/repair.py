"""Saves what can be read of a damaged SQLite store into a new one.

First it reads the rows of every table in the order of their numbers, skipping pages that cannot be read. Then each run,
attempt and grading that is complete and matches its hashes is added to the new store as usual, so that indices and
counts are right. The rest is dropped and counted. The damaged file is not changed.

If the root page of a table is lost, so is the whole table; a tool that reads single pages, such as `.recover` of the
sqlite3 shell, may still find some of it.

PostgreSQL has tools of its own; a backup of such a store is a SQLite file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Table, func, select

from triton_agent.memory.backup import new_file
from triton_agent.memory.errors import StoreDamaged, StoreError, StoreFull, StoreUnreachable
from triton_agent.memory.records import Event, Grading, RunEnd
from triton_agent.memory.sql import reading_attempts, reading_runs
from triton_agent.memory.sql.faults import translated
from triton_agent.memory.sql.preparing import Prepared, Record
from triton_agent.memory.sql.tables import AnswerRow, AttemptRow, End, EventRow, GradingRow, RunRow, TableBase
from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError

ROWS_AT_ONCE = 500
LARGEST_JUMP = 1 << 40
"""Largest gap in row numbers that is searched for more rows."""
_KINDS = ("runs", "attempts", "gradings", "ends", "events")
"""Tables that are numbered without gaps, so that missing records can be counted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Counts of saved and lost records by kind: `runs`, `attempts`, `gradings`, `ends`, `events`."""

    path: Path
    kept: dict[str, int]
    lost: dict[str, int]


def repair(damaged: Path, into: Path) -> Repair:
    """Make a new store from what can be read in `damaged`."""
    if not damaged.is_file():
        raise UsageError("there is no such file", where=str(damaged))
    kept: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    with new_file(into) as part, tempfile.TemporaryDirectory(dir=into.parent, prefix=".repair-") as folder:
        rows = Path(folder) / "rows.db"
        _save_rows(damaged, rows, lost)
        with Store.open(rows) as source, Store.open(part) as target:
            _Rescue(source, target, kept, lost).run()
            lost["attempts"] = max(lost["attempts"], _expected_attempts(source) - kept["attempts"])
        with contextlib.closing(sqlite3.connect(part)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    return Repair(path=into, kept={kind: kept[kind] for kind in _KINDS}, lost={kind: lost[kind] for kind in _KINDS})


# Rows


def _save_rows(damaged: Path, rows: Path, lost: Counter[str]) -> None:
    """Copy readable rows into an undamaged database with the same tables."""
    Store.open(rows).close()
    with (
        translated(str(damaged)),
        contextlib.closing(sqlite3.connect(f"{damaged.resolve().as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(rows)) as target,
    ):
        target.execute("PRAGMA synchronous = OFF")  # it is thrown away in the end
        tables = _tables_of(source)
        for table in TableBase.metadata.sorted_tables:
            names = [column.name for column in table.c if column.name in tables.get(table.name, ())]
            if names:
                missing = _save_table(source, target, table, names)
                if table.name in _KINDS:
                    lost[table.name] += missing
        target.commit()


def _tables_of(source: sqlite3.Connection) -> dict[str, set[str]]:
    try:
        names = [row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: {row[1] for row in source.execute(f'PRAGMA table_info("{name}")')} for name in names}
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(
            f"not even the list of its tables can be read ({error})", remedy="go back to a backup"
        ) from None


def _save_table(source: sqlite3.Connection, target: sqlite3.Connection, table: Table, names: Sequence[str]) -> int:
    """Copy the readable rows of a table; return how many row numbers are missing."""
    columns = ", ".join(f'"{name}"' for name in names)
    places = ", ".join("?" * (len(names)))
    statement = f'INSERT OR IGNORE INTO "{table.name}" ({columns}) VALUES ({places})'
    count = last = 0
    for numbered in _walk(source, f'SELECT rowid, {columns} FROM "{table.name}" NOT INDEXED'):
        target.executemany(statement, [row[1:] for row in numbered])
        count, last = count + len(numbered), numbered[-1][0]
    return last - count


def _walk(source: sqlite3.Connection, query: str) -> Iterator[list[Any]]:
    """Yield rows in the order of their numbers, many at a time, skipping those that cannot be read."""
    after = 0

    def rows_after(number: int, limit: int) -> list[Any] | None:
        try:
            return source.execute(f"{query} WHERE rowid > ? ORDER BY rowid LIMIT ?", (number, limit)).fetchall()
        except (sqlite3.DatabaseError, OverflowError):
            return None

    while True:
        rows = rows_after(after, ROWS_AT_ONCE) or rows_after(after, 1)
        if rows is None:
            beyond = _beyond_damage(lambda number: rows_after(number, 1) is not None, after)
            if beyond is None:
                return
            after = beyond
        elif rows:
            yield rows
            after = rows[-1][0]
        else:
            return


def _beyond_damage(opens: Callable[[int], bool], after: int) -> int | None:
    """Find the first readable row number after a damaged range: double the jump, then bisect."""
    jump = 1
    while not opens(after + jump):
        jump *= 2
        if jump > LARGEST_JUMP:
            return None
    low, high = after + jump // 2, after + jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if opens(middle) else (middle, high)
    return high


# Records


def _expected_attempts(rows: Store) -> int:
    """Count attempts by the tables of runs and answers, in case their own table is lost."""
    with rows.reading() as connection:
        counted = connection.execute(select(func.sum(RunRow.attempts))).scalar() or 0
        last = connection.execute(select(func.max(AnswerRow.attempt_id))).scalar() or 0
    return int(max(counted, last))


class _Rescue:
    """Copies complete records from one store to another in batches and counts them."""

    def __init__(self, source: Store, target: Store, kept: Counter[str], lost: Counter[str]) -> None:
        self._source = source
        self._target = target
        self._kept = kept
        self._lost = lost
        self._pending: list[tuple[str, Prepared]] = []

    def run(self) -> None:
        self._runs()
        self._attempts()
        self._bodies(End, RunEnd)
        self._bodies(EventRow, Event)
        self._flush()

    def _runs(self) -> None:
        with self._source.reading() as connection:
            ids = list(connection.execute(select(RunRow.id).order_by(RunRow.seq)).scalars())
        for id in ids:
            with self._or_lost("runs"):
                self._add("runs", self._source.run(id))

    def _attempts(self) -> None:
        with self._source.reading() as connection:
            ids = list(connection.execute(select(AttemptRow.id).order_by(AttemptRow.id)).scalars())
            for number in ids:
                with self._or_lost("attempts"):
                    (attempt,) = reading_attempts.attempts_by_id(connection, self._source.library, [number])
                    self._add("attempts", attempt)
                query = select(GradingRow.body, GradingRow.digest).where(GradingRow.attempt_id == number)
                for row in connection.execute(query.order_by(GradingRow.id)).all():
                    with self._or_lost("gradings"):
                        self._add("gradings", reading_runs.record_of(Grading, row))

    def _bodies(self, table: type[End] | type[EventRow], kind: type[RunEnd] | type[Event]) -> None:
        with self._source.reading() as connection:
            rows = connection.execute(select(table.body, table.digest).order_by(table.id)).all()
        for row in rows:
            with self._or_lost(table.__tablename__):
                self._add(table.__tablename__, reading_runs.record_of(kind, row))

    @contextlib.contextmanager
    def _or_lost(self, kind: str) -> Iterator[None]:
        """Count a record as lost if it cannot be read or does not match its hash."""
        try:
            yield
        except (StoreError, ValueError, KeyError, TypeError):
            self._lost[kind] += 1

    def _add(self, kind: str, record: Record) -> None:
        self._pending.append((kind, self._target.prepare(record)))
        if len(self._pending) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        outcomes = self._target.commit([prepared for _, prepared in pending])
        for (kind, _), outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, (StoreFull, StoreUnreachable)):
                raise outcome
            (self._kept if outcome is None else self._lost)[kind] += 1
