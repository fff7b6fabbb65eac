"""Migrates a store's tables to the newest schema and refuses stores that are newer than this program.

For a store that is up to date this costs one query; Alembic is imported only for a migration. A migration runs in one
transaction: if it is killed, nothing has changed.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection

from triton_agent.memory.errors import StoreReadOnly, StoreTooNew
from triton_agent.memory.sql.tables import REVISION, SCHEMA_TABLE

APPLICATION_ID = 0x5472_4167
"""Marks our SQLite files in their header, for example for `file`."""
_ADVISORY_LOCK = 0x7269_746F
"""Number of the lock that keeps two processes from migrating one PostgreSQL database at once; chosen arbitrarily."""


def revision_of(connection: Connection) -> str | None:
    """Return the newest migration that was run; None for a database without a store."""
    if not sqlalchemy.inspect(connection).has_table(SCHEMA_TABLE):
        return None
    found: str | None = connection.execute(sqlalchemy.text(f"SELECT version_num FROM {SCHEMA_TABLE}")).scalar()
    return found


def is_current(connection: Connection, where: str) -> bool:
    """Return True if no migration is needed; refuse a store that is newer than this program."""
    found = revision_of(connection)
    _refuse_newer(found, where)
    return found == REVISION


def require_current(connection: Connection, where: str) -> None:
    """Refuse a store that needs a migration, for readers, who cannot migrate."""
    if not is_current(connection, where):
        found = revision_of(connection)
        has = "holds no store" if found is None else f"is of schema {found}, and this program reads {REVISION}"
        raise StoreReadOnly(f"it {has}", where=where, remedy="open it once for writing: that migrates it")


def migrate(connection: Connection, where: str) -> None:
    """Migrate inside the caller's transaction, if needed."""
    if connection.dialect.name == "postgresql":
        connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADVISORY_LOCK})
    if is_current(connection, where):
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, REVISION)


def _refuse_newer(found: str | None, where: str) -> None:
    if found is not None and found > REVISION:
        raise StoreTooNew(
            f"it is of schema {found}; this program knows up to {REVISION}",
            where=where,
            remedy="update triton-agent, or name another store: --store, TRITON_AGENT_STORE",
        )
