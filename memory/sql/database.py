"""Locates the store and connects to it: a SQLite file by default, PostgreSQL by URL.

Every write is one transaction that is on disk when it returns. On SQLite that takes `synchronous=FULL`: with a
write-ahead log, NORMAL survives `kill -9`, but not a power cut. Writers take the write lock when they begin, so that
nothing they read can change before they commit. Files are readable by their owner only.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
import sqlalchemy
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from triton_agent.memory.errors import NotInStore, StoreDamaged, StoreReadOnly, StoreUnreachable
from triton_agent.memory.sql import schema
from triton_agent.memory.sql.faults import fault_of, may_pass, translated
from triton_agent.tools.errors import UsageError

Result = TypeVar("Result")

VARIABLE = "TRITON_AGENT_STORE"
BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for the lock. Commits take milliseconds; only a migration or a suspended process takes
longer.
"""
TRIES = 8
FIRST_PAUSE_S = 0.02
CACHE_KIB = 64 << 10
"""Holds the upper levels of the indices of a million attempts."""
CHECKPOINT_PAGES = 4_000
"""32 MB of log before a checkpoint: fewer, larger writes than with SQLite's default of 1,000 pages."""
PAGE_BYTES = 8192
"""A stored answer is about 10 KB; larger pages than SQLite's default of 4,096 bytes need fewer overflow pages for it.
"""
LOG_LIMIT_BYTES = 64 << 20


def default_path() -> Path:
    """The default store, in the platform's folder for user data."""
    return Path(platformdirs.user_data_dir("triton-agent")) / "store.db"


def locate(where: str | Path | None) -> Path | URL:
    """Return the store's file or URL: as given, otherwise from the environment, otherwise the default file."""
    given = where if where is not None else os.environ.get(VARIABLE) or default_path()
    if isinstance(given, Path) or "://" not in given:
        return Path(given).expanduser()
    try:
        url = sqlalchemy.make_url(given)
    except ArgumentError:
        raise UsageError("the store's URL cannot be read", remedy="postgresql://user@host/database") from None
    if url.get_backend_name() == "sqlite" and url.database:
        return Path(url.database).expanduser()
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise UsageError(
            f"a store on {url.get_backend_name()} is not known",
            where=url.render_as_string(hide_password=True),
            remedy="a path for SQLite, or postgresql://user@host/database",
        )
    return url.set(drivername="postgresql+psycopg")


class Database:
    """An open store: read and write transactions; a write that failed for a temporary reason is repeated."""

    def __init__(self, where: str | Path | None = None, *, read_only: bool = False) -> None:
        place = locate(where)
        self.path = place if isinstance(place, Path) else None
        self.where = str(place) if isinstance(place, Path) else place.render_as_string(hide_password=True)
        self.read_only = read_only
        with translated(self.where):
            self._engine = _open_file(place, read_only) if isinstance(place, Path) else _open_server(place, read_only)
            try:
                self._bring_up_to_date()
            except BaseException:
                self._engine.dispose()
                raise

    @property
    def dialect(self) -> str:
        return self._engine.dialect.name

    def url_for_drivers(self) -> str:
        """URL for clients other than SQLAlchemy. It contains the password: never show it."""
        return self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one state of the store: for as long as it is held (SQLite), or for each query
        (PostgreSQL).
        """
        with translated(self.where), self._engine.connect() as connection:
            yield connection

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in a transaction and return its result after the commit. `work` may run more than once."""
        if self.read_only:
            raise StoreReadOnly("it was opened for reading only", where=self.where)
        for attempt in range(TRIES):
            try:
                with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                    result = work(connection)
                return result
            except SQLAlchemyError as error:
                if attempt == TRIES - 1 or not may_pass(error):
                    raise fault_of(error, self.where) from error
                time.sleep(FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))
        raise AssertionError("the loop returns or raises")

    def close(self) -> None:
        self._engine.dispose()

    def _bring_up_to_date(self) -> None:
        with self.reading() as connection:
            current = schema.is_current(connection, self.where)
        if current:
            return
        if self.read_only:
            with self.reading() as connection:
                schema.require_current(connection, self.where)
        self.write(lambda connection: schema.migrate(connection, self.where))


def _open_server(url: URL, read_only: bool) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise UsageError(
            "a PostgreSQL store needs the package psycopg", remedy="pip install 'triton-agent[postgres]'"
        ) from None
    # The server's default may be off; an acknowledged record has to be on its disk.
    options = "-c synchronous_commit=on" + (" -c default_transaction_read_only=on" if read_only else "")
    return sqlalchemy.create_engine(
        url, connect_args={"options": options, "connect_timeout": 10}, pool_pre_ping=True, hide_parameters=True
    )


def _open_file(path: Path, read_only: bool) -> Engine:
    if read_only:
        _require_file(path)
    else:
        _make_file(path)
    target = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rw'}"
    if read_only and not os.access(path.resolve().parent, os.W_OK) and not _log_of(path).exists():
        target += "&immutable=1"  # SQLite would have to make the log's index beside it, and cannot
    engine = sqlalchemy.create_engine(
        f"sqlite:///{path}",
        creator=lambda: sqlite3.connect(target, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False),
        poolclass=sqlalchemy.QueuePool,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _settings_for_reading if read_only else _settings_for_writing)
    event.listen(engine, "begin", _begin)
    return engine


def _settings_for_reading(raw: Any, _record: object) -> None:
    raw.isolation_level = None
    cursor = raw.cursor()
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    cursor.execute("PRAGMA temp_store = MEMORY")
    cursor.close()


def _settings_for_writing(raw: Any, record: object) -> None:
    _settings_for_reading(raw, record)
    cursor = raw.cursor()
    cursor.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    cursor.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Begin explicitly: Python's driver begins at the first change, which is too late for a writer's lock."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _require_file(path: Path) -> None:
    if not path.exists():
        raise NotInStore("there is no store", where=str(path), remedy="name one: --store, TRITON_AGENT_STORE")
    if not path.is_file():
        raise UsageError("the store has to be a file", where=str(path))
    try:
        path.open("rb").close()
    except OSError as error:
        raise StoreUnreachable(error.strerror or "it may not be read", where=str(path)) from None


def _make_file(path: Path) -> None:
    """Create an empty file and its folder, readable by this user only; an existing file is checked and kept."""
    if path.exists():
        _require_file(path)
        _refuse_foreign(path)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreUnreachable(
            f"it cannot be made: {error.strerror}", where=str(path), remedy="name another place: --store"
        ) from None


def _refuse_foreign(path: Path) -> None:
    """Refuse files that are not stores, so that a mistyped path is not overwritten."""
    with path.open("rb") as file:
        start = file.read(16)
    if start and not start.startswith(b"SQLite format 3\0"):
        raise StoreDamaged("it is not a store, or its beginning is damaged", where=str(path))
    if not start:
        return
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as raw:
        raw.execute("BEGIN")  # one state for both answers: another process may be migrating
        (tables,) = raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = raw.execute("PRAGMA application_id").fetchone()  # the header alone may be older than the log
    if tables and mark != schema.APPLICATION_ID:  # without any, it is ours from just before the first migration
        raise UsageError("it is another program's database", where=str(path), remedy="name another file: --store")


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
