"""Stores to test: a SQLite file, and a database of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from tests.memory import server

from triton_agent.memory.store import Store

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A running server; skips the test if there is none."""
    pytest.importorskip("psycopg", reason="PostgreSQL stores need psycopg")
    try:
        with server.running() as url:
            yield url
    except server.NoServer as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty migrated store to copy, since migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("migrated") / "store.db"
    Store.open(path).close()
    return path


@pytest.fixture(scope="session")
def migrated_database(postgres: str) -> str:
    """Name of an empty migrated database to copy."""
    url = new_database(postgres)
    Store.open(url).close()
    return sqlalchemy.make_url(url).database or ""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty, closed store on either database."""
    if request.param == "sqlite":
        return shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "store.db").as_posix()
    return new_database(request.getfixturevalue("postgres"), request.getfixturevalue("migrated_database"))


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with Store.open(place) as opened:
        yield opened


def new_database(url: str, template: str = "template1") -> str:
    """Make a database on that server and return its URL."""
    import psycopg

    name = f"store_{next(_numbers)}"
    with psycopg.connect(server.named(url, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.named(url, name)
