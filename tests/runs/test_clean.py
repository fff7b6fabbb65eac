"""`triton-agent clean` and the care of a store: every removal is shown, and the store is removed only if named."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import platformdirs
import pytest
from tests.recorded_run import RUN, Recorded, recorded
from tests.runs.commands import call

from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.zygotes import Nursery

NO_PROCESS = 2**22 + 1
"""Above the largest process id that Linux hands out."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folders with files in each: caches, data, a store and its log, scratch of dead and living processes."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("TRITON_AGENT_STORE", raising=False)
    cache, data = (Path(at("triton-agent")) for at in (platformdirs.user_cache_dir, platformdirs.user_data_dir))
    (cache / "ceilings").mkdir(parents=True)
    (cache / "ceilings" / "a.json").write_bytes(bytes(3000))
    data.mkdir(parents=True)
    for name in ("store.db", "store.db-wal", "store.db-checkpoints", "export.jsonl"):
        (data / name).write_bytes(bytes(1000))
    for owner in (NO_PROCESS, os.getpid()):
        scratch = tmp_path / "TMPDIR" / f"triton-agent-{owner}-abc"
        scratch.mkdir()
        (scratch / "output.txt").write_bytes(bytes(500))
    (tmp_path / "TMPDIR" / "triton-agent-bug-1.txt").write_text("story")
    (tmp_path / "TMPDIR" / "another-file").write_text("not ours")
    return tmp_path


def left(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*") if path.is_file()}


def test_a_dry_run_shows_sizes_and_removes_nothing(home: Path) -> None:
    before = left(home)
    shown = call("clean", "--dry-run").stdout
    assert "ceilings" in shown
    assert "2.9 KiB" in shown
    assert "store.db" not in shown
    assert left(home) == before


def test_everything_goes_but_the_store_and_what_is_in_use(home: Path) -> None:
    assert call("clean", "--yes").code == 0
    assert left(home) == {"store.db", "store.db-wal", "store.db-checkpoints", "output.txt", "another-file"}
    assert (home / "TMPDIR" / f"triton-agent-{os.getpid()}-abc" / "output.txt").exists()


def test_the_store_goes_where_it_is_named_and_nothing_else_then(home: Path) -> None:
    call("clean", "store", "--yes")
    assert not any(name.startswith("store.db") for name in left(home))
    assert {"a.json", "export.jsonl"} <= left(home)


def test_nothing_goes_where_nobody_can_be_asked(home: Path) -> None:
    before = left(home)
    with pytest.raises(UsageError, match="no terminal to ask"):
        call("clean")
    assert left(home) == before


def test_a_store_elsewhere_in_the_data_folder_is_spared(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Path(platformdirs.user_data_dir("triton-agent")) / "mine"
    mine.mkdir()
    (mine / "runs.db").write_bytes(b"")
    monkeypatch.setenv("TRITON_AGENT_STORE", str(mine / "runs.db"))
    call("clean", "data", "--yes")
    assert "runs.db" in left(home)


def test_what_is_no_heap_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="caches"):
        call("clean", "caches")
    with pytest.raises(UsageError, match="server"):
        call("clean", "store", "--store", "postgresql://somewhere/runs")


def test_programs_are_told_what_went(home: Path) -> None:
    told = call("clean", "cache", "--yes", "--json").json
    assert [item["heap"] for item in told["removed"]] == ["cache"]
    assert told["removed"][0]["size_bytes"] == 3000
    assert call("clean", "cache").stdout == "nothing to remove\n"


# -- backup and repair -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


@pytest.fixture
def place(told: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        told.into(store)
    monkeypatch.setenv("TRITON_AGENT_STORE", str(path))
    return path


def test_a_backup_is_a_store(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert call("runs", "backup", str(copy), "--json").json["attempts"] == 4
    assert call("runs", "list", "--store", str(copy), "--json").json == call("runs", "list", "--json").json
    with pytest.raises(UsageError, match="of that name"):
        call("runs", "backup", str(copy))


def test_a_sound_store_is_left_as_it_is(place: Path) -> None:
    before = place.read_bytes()
    assert call("runs", "repair").code == 0
    assert place.read_bytes() == before


def test_a_damaged_store_is_replaced_by_what_can_be_read_of_it(place: Path) -> None:
    with contextlib.closing(sqlite3.connect(place)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_attempts_source_sha'"
        (page,), (size,) = (connection.execute(text).fetchone() for text in (query, "PRAGMA page_size"))
    raw = bytearray(place.read_bytes())
    raw[(page - 1) * size : page * size] = bytes(size)
    place.write_bytes(raw)
    with pytest.raises(UsageError, match="no terminal to ask"):
        call("runs", "repair")
    assert place.read_bytes() == bytes(raw)
    done = call("runs", "repair", "--yes", "--json")
    assert done.json["damage"]
    assert (done.code, sum(done.json["lost"].values())) == (0, 0)
    assert done.json["kept"]["attempts"] == 4
    assert Path(done.json["broken_file"]).read_bytes() == bytes(raw)
    assert call("runs", "repair").code == 0
    assert call("runs", "list", "--json").json[0]["id"] == RUN
