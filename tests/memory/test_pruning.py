"""Removing runs leaves a store as if they had never been added, and waits until no other process has it open."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.recorded_run import RUN, Recorded, recorded

from triton_agent.memory.errors import NotInStore, StoreUnreachable
from triton_agent.memory.pruning import Forgotten, forget, sizes_bytes
from triton_agent.memory.sql.tables import Blob, Failure, GradingRow, Technique, ViewRow
from triton_agent.memory.store import Store
from triton_agent.tools.processes.zygotes import Nursery

KEPT = "20260201-101010-bbbbbb"


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery).timed(a3_0=1.5)


def contents(store: Store) -> dict[str, Any]:
    """Return what a store contains, without row numbers."""
    with store.reading() as connection:
        rows = {
            "blobs": select(Blob.sha),
            "gradings": select(GradingRow.digest),
            "problems": select(ViewRow.digest),
            "failures": select(Failure.key, Failure.finding, Failure.message, Failure.occurrences),
            "techniques": select(Technique.name, Technique.wins, Technique.losses, Technique.standing),
        }
        found = {name: sorted(map(tuple, connection.execute(query))) for name, query in rows.items()}
    return found | {"runs": store.runs(), "attempts": [list(store.attempts(run.id)) for run in store.runs()]}


def test_what_is_left_is_as_if_the_others_had_never_been(told: Recorded, place: str, tmp_path: Path) -> None:
    with Store.open(tmp_path / "only.db") as only:
        told.renamed(KEPT).into(only)
        expected = contents(only)
    with Store.open(place) as store:
        told.renamed(KEPT).into(store)
        told.into(store)
        told.renamed("20260203-101010-dddddd", policy="another").into(store)
        assert contents(store) != expected
    done = forget(place, [RUN, "20260203-101010-dddddd"])
    assert (done.runs, done.attempts, done.gradings) == (2, 8, 8)
    with Store.open(place) as store:
        assert contents(store) == expected


def test_a_store_that_forgot_everything_is_empty_and_takes_the_same_again(told: Recorded, place: str) -> None:
    with Store.open(place) as store:
        told.into(store)
        before = contents(store)
    done = forget(place, [RUN])
    assert done == Forgotten(runs=1, attempts=4, gradings=4, texts=len(before["blobs"]))
    with Store.open(place) as store:
        assert not any(contents(store).values())
        told.into(store)
        assert contents(store) == before


def test_nothing_is_forgotten_while_another_process_has_the_store_open(told: Recorded, place: str) -> None:
    """The other process would go on referring to blobs that it knows as stored."""
    with Store.open(place) as store:
        told.into(store)
        before = contents(store)
    code = (
        "import sys\nfrom triton_agent.memory.store import Store\n"
        f"with Store.open({place!r}) as store:\n    store.runs()\n    print('open', flush=True)\n    sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreUnreachable, match="somebody else"):
            forget(place, [RUN])
        other.stdin.close()
    with Store.open(place) as store:
        assert contents(store) == before
    assert forget(place, [RUN]).runs == 1


def test_a_run_that_is_not_there_forgets_nothing(told: Recorded, place: str) -> None:
    with Store.open(place) as store:
        told.into(store)
    with pytest.raises(NotInStore, match="20990101"):
        forget(place, [RUN, "20990101"])
    with Store.open(place) as store:
        assert [run.id for run in store.runs()] == [RUN]
        with store.reading() as connection:
            assert sizes_bytes(connection)[RUN] > 1000


def test_the_file_gets_smaller_and_stays_sound(told: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        for number in range(20):
            told.renamed(f"20260101-{number:06}-aaaaaa").into(store)
        names = [run.id for run in store.runs()]
    before = path.stat().st_size
    forget(path, names[1:])
    assert path.stat().st_size < before
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
