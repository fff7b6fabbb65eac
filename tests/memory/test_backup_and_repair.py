"""Backups of a store in use, and the repair of a damaged one."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from tests.memory import samples

from triton_agent.memory.backup import backup
from triton_agent.memory.errors import StoreDamaged
from triton_agent.memory.records import Event
from triton_agent.memory.repair import repair
from triton_agent.memory.sql import packing
from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError

RUN = "20260131-120000-3fa9c1"
ATTEMPTS = 120


def fill(store: Store, attempts: int = ATTEMPTS) -> None:
    store.add_run(samples.run())
    pairs = [samples.attempt(turn, completion=samples.sampled(f"answer {turn}")) for turn in range(attempts)]
    store.add_attempts([(attempt, samples.passed(attempt, 1.5)) for attempt in pairs])
    store.add_event(Event(run=RUN, kind="stage", at=samples.NOON, data={"n": 1}))
    store.end_run(samples.end())


def contents(store: Store) -> object:
    return [
        *((store.run(s.id), s, store.end(s.id), store.events(s.id), store.headers(s.id)) for s in store.runs()),
        *store.iterate(),
    ]


def test_a_backup_holds_the_same_and_is_a_store(store: Store, tmp_path: Path) -> None:
    fill(store)
    made = backup(store, tmp_path / "copy.db")
    assert (made.runs, made.attempts, made.bytes) == (1, ATTEMPTS, made.path.stat().st_size)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    with Store.open(made.path) as copy:
        assert contents(copy) == contents(store)
        copy.add_attempt(samples.attempt(0, 1))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".copy")]


def test_a_backup_is_of_one_moment_while_others_write(store: Store, tmp_path: Path) -> None:
    fill(store, 10)
    done = threading.Event()

    def write() -> None:
        turn = 1000
        while not done.is_set():
            attempt = samples.attempt(turn)
            store.add_attempt(attempt, samples.passed(attempt))
            turn += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [backup(store, tmp_path / f"{number}.db") for number in range(3)]
    finally:
        done.set()
        writer.join()
    for number, one in enumerate(made):
        with Store.open(one.path, read_only=True) as copy:
            (summary,) = copy.runs()
            assert len(copy.headers(RUN)) == summary.attempts == summary.judged == one.attempts >= 10, number


def test_a_backup_overwrites_nothing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(UsageError, match="a file of that name"):
        backup(store, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"


def damaged(path: Path, holes: list[tuple[float, int]]) -> None:
    """Overwrite bytes at fractions of the file's length."""
    with Store.open(path) as store:
        fill(store)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    size = path.stat().st_size
    with path.open("r+b") as file:
        for share, length in holes:
            file.seek(int(size * share) // 8192 * 8192)
            file.write(b"\xa5" * length)


def test_a_sound_store_is_repaired_without_loss(tmp_path: Path) -> None:
    damaged(tmp_path / "a.db", [])
    done = repair(tmp_path / "a.db", tmp_path / "b.db")
    assert done.kept == {"runs": 1, "attempts": ATTEMPTS, "gradings": ATTEMPTS, "ends": 1, "events": 1}
    assert set(done.lost.values()) == {0}
    with Store.open(tmp_path / "a.db") as one, Store.open(tmp_path / "b.db") as other:
        assert contents(one) == contents(other)


@pytest.mark.parametrize("share", [0.3, 0.45, 0.6, 0.75, 0.9])
def test_what_can_be_read_of_a_damaged_store_is_saved_whole(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.db"
    damaged(path, [(share, 3 * 8192)])
    before = path.read_bytes()
    done = repair(path, tmp_path / "b.db")
    assert path.read_bytes() == before
    assert done.kept["attempts"] + done.lost["attempts"] == ATTEMPTS
    with Store.open(tmp_path / "b.db") as store:
        saved = list(store.iterate())
        assert len(saved) == done.kept["attempts"]
        for attempt, gradings in saved:
            assert attempt == samples.attempt(attempt.turn, completion=samples.sampled(f"answer {attempt.turn}"))
            assert gradings in ([], [samples.passed(attempt, 1.5)])


def test_damage_within_some_texts_costs_the_attempts_they_belong_to_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    damaged(path, [])
    for turn in (50, 90):
        stored = packing.squeeze((samples.attempt(turn).source or "").encode())[40:80]
        path.write_bytes(path.read_bytes().replace(stored, bytes(40)))
    done = repair(path, tmp_path / "b.db")
    assert (done.lost["attempts"], done.lost["gradings"]) == (2, 2)
    with Store.open(tmp_path / "b.db") as store:
        assert [header.turn for header in store.headers(RUN)] == [k for k in range(ATTEMPTS) if k not in (50, 90)]


def test_damage_is_noticed_when_it_is_read_or_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    damaged(path, [(0.3, 8192), (0.5, 8192), (0.7, 8192)])
    with Store.open(path) as store:
        with pytest.raises(StoreDamaged, match="damaged"):
            backup(store, tmp_path / "copy.db")
        with pytest.raises(StoreDamaged):
            contents(store)
    assert not (tmp_path / "copy.db").exists()


def test_a_changed_byte_within_a_text_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store.open(path) as store:
        store.add_run(samples.run())
        attempt = samples.attempt(completion=samples.sampled())
        store.add_attempt(attempt, samples.failed(attempt))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET log_probabilities = zeroblob(length(log_probabilities))")
        connection.execute("UPDATE gradings SET digest = zeroblob(32)")
    with Store.open(path) as store:
        with pytest.raises(StoreDamaged, match="a record changed"):
            store.attempt(f"{RUN}/0.0")
        with pytest.raises(StoreDamaged, match="a record changed"):
            store.gradings(f"{RUN}/0.0")


def test_a_file_without_a_readable_beginning_is_given_up_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"\x00" * 100_000)
    with pytest.raises(StoreDamaged, match="go back to a backup"):
        repair(tmp_path / "a.db", tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
    with pytest.raises(UsageError, match="no such file"):
        repair(tmp_path / "none.db", tmp_path / "b.db")
