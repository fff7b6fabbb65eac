"""Copies a store while it is in use into one checked SQLite file, which is a store itself.

SQLite is copied page by page by its own backup call; PostgreSQL row by row, from one snapshot. The copy gets its name
only after it is complete and was checked. An existing file is never overwritten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, func, insert, select

from triton_agent.memory.errors import StoreDamaged, StoreUnreachable
from triton_agent.memory.sql.database import Database
from triton_agent.memory.sql.faults import translated
from triton_agent.memory.sql.tables import AttemptRow, RunRow, TableBase
from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError

ROWS_AT_ONCE = 1_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    path: Path
    runs: int
    attempts: int
    bytes: int


def backup(store: Store, path: Path) -> Backup:
    """Copy `store` to a new file. Other processes may read and write meanwhile; their new records are not in the
    copy.
    """
    with new_file(path) as part:
        if store.database.dialect == "sqlite":
            _copy_pages(store.database, part)
        else:
            _copy_rows(store.database, part)
        _check(part)
        with Store.open(part, read_only=True) as copy, copy.reading() as connection:
            runs = connection.execute(select(func.count()).select_from(RunRow)).scalar_one()
            attempts = connection.execute(select(func.count()).select_from(AttemptRow)).scalar_one()
    return Backup(path=path, runs=runs, attempts=attempts, bytes=path.stat().st_size)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a private temporary file, which gets the name `path` when the block ends without an error."""
    if path.exists():
        raise UsageError("there is a file of that name", where=str(path), remedy="name another, or move it away")
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise StoreUnreachable(f"nothing can be written there: {error.strerror}", where=str(path.parent)) from None
    part = Path(name)
    try:
        os.close(descriptor)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            raise UsageError("a file of that name appeared meanwhile", where=str(path)) from None
    finally:
        for leftover in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
            leftover.unlink(missing_ok=True)


def _copy_pages(database: Database, part: Path) -> None:
    with database.reading() as connection, contextlib.closing(sqlite3.connect(part)) as copy:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _copy_rows(database: Database, part: Path) -> None:
    with contextlib.closing(Database(part)) as copy, database.reading() as source:
        source = source.execution_options(isolation_level="REPEATABLE READ", stream_results=True)
        copy.write(lambda target: copy_tables(source, target))
    with contextlib.closing(sqlite3.connect(part)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def copy_tables(source: Connection, target: Connection) -> None:
    """Copy all rows of all tables, parents before children."""
    for table in TableBase.metadata.sorted_tables:
        found = source.execute(select(*table.c)).mappings()
        for rows in found.partitions(ROWS_AT_ONCE):
            target.execute(insert(table), [dict(row) for row in rows])


def _check(part: Path) -> None:
    """Check every page of the copy; a damaged source shows here, too."""
    with translated(str(part)), contextlib.closing(sqlite3.connect(part)) as connection:
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise StoreDamaged(f"the store is damaged, and so would be its copy ({answer})", remedy="repair it")
