"""Migrations, the location of the store, and the errors if it cannot be used."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from tests.memory import samples
from tests.memory.conftest import new_database

from triton_agent.memory.errors import (
    NotInStore,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreachable,
)
from triton_agent.memory.records import Distribution, SamplingRecord
from triton_agent.memory.sql import pieces
from triton_agent.memory.sql.database import locate
from triton_agent.memory.sql.schema import revision_of
from triton_agent.memory.sql.tables import REVISION, SCHEMA_TABLE, TableBase
from triton_agent.memory.store import Store
from triton_agent.tools.errors import TritonAgentError, UsageError

RUN = "20260131-120000-3fa9c1"


def test_migrations_make_the_tables_that_the_models_describe(place: str) -> None:
    with Store.open(place) as store, store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": SCHEMA_TABLE, "compare_type": True})
        assert compare_metadata(context, TableBase.metadata) == []


def test_opening_twice_at_once_migrates_once(postgres: str, tmp_path: Path) -> None:
    for place in (str(tmp_path / "store.db"), new_database(postgres)):
        script = f"from triton_agent.memory.store import Store; Store.open({place!r}).close()"
        opening = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
        assert [process.wait(60) for process in opening] == [0, 0]
        with Store.open(place) as store:
            assert store.runs() == []


def test_a_store_of_a_newer_schema_is_refused_and_left_alone(place: str) -> None:
    with Store.open(place) as store:
        store.database.write(
            lambda connection: connection.execute(sqlalchemy.text(f"UPDATE {SCHEMA_TABLE} SET version_num = '9999'"))
        )
    for read_only in (False, True):
        with pytest.raises(StoreTooNew, match=r"schema 9999.*\n.*update triton-agent"):
            Store.open(place, read_only=read_only)


NEWER_FACTS = ("log_probabilities_of", "adapter_version", "tokenizer", "sampling", "group")


def test_completions_of_the_first_schema_are_read_with_what_they_do_not_say_unknown(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = samples.attempt(completion=samples.sampled())
    with Store.open(place) as store, monkeypatch.context() as first_schema:
        first_schema.setattr(pieces, "_SEPARATE", (*pieces._SEPARATE, *NEWER_FACTS))  # its bodies lack these
        store.add_run(samples.run())
        store.add_attempt(told)
        store.database.write(
            lambda connection: connection.execute(sqlalchemy.text(f"UPDATE {SCHEMA_TABLE} SET version_num = '0001'"))
        )
    with Store.open(place) as store:
        assert store.reading and store.attempt(told.key) is not None
        found = store.attempt(told.key).completion
        with store.reading() as connection:
            assert revision_of(connection) == REVISION
    assert found.sampling == SamplingRecord() and found.log_probabilities_of is Distribution.UNKNOWN
    assert found.tokenizer == found.group == found.adapter_version == ""
    assert found == dataclasses.replace(told.completion, **{name: getattr(found, name) for name in NEWER_FACTS})


def test_the_file_and_its_folder_are_the_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    before = os.umask(0)
    try:
        with Store.open(path) as store:
            store.add_run(samples.run())
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_place_is_given_or_from_the_environment_or_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_AGENT_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert locate(None) == tmp_path / "triton-agent" / "store.db"
    monkeypatch.setenv("TRITON_AGENT_STORE", "~/elsewhere.db")
    assert locate(None) == Path.home() / "elsewhere.db"
    assert locate(tmp_path) == tmp_path
    assert locate("sqlite:////a/b.db") == Path("/a/b.db")
    assert locate("postgresql://me:hunter2@host/db").drivername == "postgresql+psycopg"  # type: ignore[union-attr]
    for wrong in ("mysql://me:hunter2@host/db", "no-such://x", "://"):
        with pytest.raises(UsageError) as caught:
            locate(wrong)
        assert "hunter2" not in str(caught.value)


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StoreUnreachable, match="is the server up") as caught:
        Store.open("postgresql://me:hunter2@127.0.0.1:1/db")
    assert "hunter2" not in str(caught.value)


def test_reading_needs_a_store_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(NotInStore, match="there is no store"):
        Store.open(tmp_path / "none.db", read_only=True)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreReadOnly, match="holds no store"):
        Store.open(tmp_path / "empty.db", read_only=True)
    with pytest.raises(UsageError, match="the store has to be a file"):
        Store.open(tmp_path)


def test_other_files_are_refused_and_not_touched(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("mine, and not a database\n" * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    for path, error in ((text, StoreDamaged), (other, UsageError)):
        before = path.read_bytes()
        with pytest.raises(error):
            Store.open(path)
        with pytest.raises(TritonAgentError):
            Store.open(path, read_only=True)
        assert path.read_bytes() == before


def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.add_run(samples.run())
        store.add_attempt(samples.attempt())
        with store.reading() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            pages = raw.execute("PRAGMA page_count").fetchone()[0]
            raw.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(StoreFull, match=r"full[\s\S]*free some space"):
            store.add_attempts([samples.attempt(turn, source="x" * 100 + str(turn)) for turn in range(1, 200)])
        assert list(store.attempts(RUN)) == [samples.attempt()]
    with Store.open(path) as store:
        store.add_attempt(samples.attempt(1))
        assert len(store.headers(RUN)) == store.runs()[0].attempts == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "store.db"
    with Store.open(path) as store:
        store.add_run(samples.run())
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(StoreError):
            Store.open(path)
        with Store.open(path, read_only=True) as store:
            assert store.run(RUN) == samples.run()
    finally:
        path.parent.chmod(0o700)


def test_many_readers_and_a_waiting_writer_do_not_disturb_each_other(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store, Store.open(tmp_path / "store.db") as other:
        store.add_run(samples.run())
        with other.reading() as connection:
            seen = connection.execute(sqlalchemy.text("SELECT count(*) FROM attempts")).scalar()
            store.add_attempt(samples.attempt())  # does not wait for the reader
            assert connection.execute(sqlalchemy.text("SELECT count(*) FROM attempts")).scalar() == seen == 0
        assert len(other.headers(RUN)) == 1
