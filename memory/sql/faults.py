"""Translates database errors into those of `memory/errors.py`, and says which transactions are worth repeating."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError

from triton_agent.memory.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)

_PRIMARY_CODE = 0xFF
"""Mask of SQLite's extended error codes, whose lowest byte is the primary code."""
_TRY_AGAIN = ("40001", "40P01", "55P03")
"""PostgreSQL: transactions that could not be put in order, deadlock, lock not available."""
_FULL = ("53100", "54000")
_READ_ONLY = ("25006", "42501")
_DAMAGED = ("XX001", "XX002")


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate a database's error into one of `memory/errors.py`; other errors pass."""
    try:
        yield
    except SQLAlchemyError as error:
        raise fault_of(error, where) from error
    except sqlite3.Error as error:
        raise _sqlite_fault(error, where) from error


def fault_of(error: SQLAlchemyError, where: str) -> StoreError:
    """Return the store error that a database's error means."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(cause, sqlite3.Error):
        return _sqlite_fault(cause, where)
    state = getattr(cause, "sqlstate", None) or ""
    text = _first_line(cause or error)
    if state in _FULL:
        return StoreFull(text, where=where, remedy="free some space on the server's disk")
    if state in _READ_ONLY:
        return StoreReadOnly(text, where=where, remedy="ask for the right to write, or name another store")
    if state in _DAMAGED:
        return StoreDamaged(text, where=where, remedy="ask the server's administrator to restore a backup")
    if isinstance(error, (DataError, ProgrammingError)):
        return StoreError(f"a record cannot be stored ({text})", where=where)
    if state in _TRY_AGAIN:
        return StoreUnreachable(
            f"other transactions were in the way for too long ({text})", where=where, remedy="try again"
        )
    return StoreUnreachable(text, where=where, remedy="is the server up, and is the URL right?")


def may_pass(error: SQLAlchemyError) -> bool:
    """Return True if the transaction may succeed when tried again. After a clash of keys it may: it then sees the other
    record.
    """
    if isinstance(error, IntegrityError):
        return True
    cause = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(cause, sqlite3.Error):
        return _code(cause) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, DBAPIError) and (
        error.connection_invalidated or getattr(cause, "sqlstate", None) in _TRY_AGAIN
    )


def _sqlite_fault(error: sqlite3.Error, where: str) -> StoreError:
    code, text = _code(error), _first_line(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(text, where=where, remedy="free some space; what was acknowledged is safe")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly("it may not be written", where=where, remedy="see who owns the file and its folder")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        remedy = "repair it into a new file, or go back to a backup"
        what = "it is not a store" if code == sqlite3.SQLITE_NOTADB else "it is damaged"
        return StoreDamaged(f"{what} ({text})", where=where, remedy=remedy)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnreachable("another process has held it for too long", where=where, remedy="try again")
    return StoreUnreachable(text, where=where, remedy="check the permissions of the file and its folder")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
