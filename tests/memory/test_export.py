"""Export and import: a store of either kind exports the bytes that it imported from the other kind."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.memory.conftest import new_database
from tests.recorded_run import Recorded, recorded

from triton_agent.memory.errors import RecordConflict
from triton_agent.memory.exchange import jsonl
from triton_agent.memory.exchange.entries import entries, read_entries
from triton_agent.memory.exchange.intake import require_sound, take_in
from triton_agent.memory.exchange.plain import canonical, from_plain, to_plain
from triton_agent.memory.records import Completion, Grading, InstrumentFailure
from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.zygotes import Nursery

pytestmark = pytest.mark.xdist_group("export")  # what is made once is made in one process


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


@pytest.fixture
def store(told: Recorded, tmp_path: Path) -> Iterator[Store]:
    """A store with two runs: one with timings and an odd answer, one that is open and was graded twice."""
    with Store.open(tmp_path / "first.db") as opened:
        timed = told.renamed("20260201-101010-bbbbbb").timed(a3_0=1.5)
        odd = dataclasses.replace(timed.attempts[2].completion, text="\ud800 \x00 é ∑", log_probabilities=None)
        attempts = [*timed.attempts]
        attempts[2] = dataclasses.replace(attempts[2], completion=odd, plan="line\r\nline\x85")
        dataclasses.replace(timed, attempts=tuple(attempts)).into(opened)
        dataclasses.replace(told, end=None).into(opened)
        failure = InstrumentFailure(kind="WorkerLost", what="it died")
        second = dataclasses.replace(told.gradings[3], evaluation=None, failure=failure)
        opened.add_grading(second)
        yield opened


def exported(store: Store, path: Path) -> bytes:
    jsonl.write_entries(entries(store, [store.run(run.id) for run in store.runs()]), path)
    return path.read_bytes()


def taken_in(store: Store, path: Path) -> Any:
    return take_in(store, read_entries(jsonl.parse_entries(path)))


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz"])
def test_an_imported_store_exports_the_same_bytes(store: Store, tmp_path: Path, name: str) -> None:
    first = exported(store, tmp_path / name)
    with Store.open(tmp_path / "second.db") as second:
        taken = taken_in(second, tmp_path / name)
        assert (taken.runs, taken.attempts, taken.gradings, taken.there_already) == (2, 8, 9, 0)
        assert exported(second, tmp_path / f"again-{name}") == first


def test_parquet_goes_there_and_back_without_loss(store: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow", reason="pyarrow is not installed") and __import__(
        "triton_agent.memory.exchange.parquet", fromlist=["parquet"]
    )
    runs = [store.run(run.id) for run in store.runs()]
    count = parquet.write_entries(entries(store, runs), tmp_path / "runs.parquet")
    with Store.open(tmp_path / "second.db") as second:
        take_in(second, read_entries(parquet.parse_entries(tmp_path / "runs.parquet")))
        again = [second.run(run.id) for run in second.runs()]
        assert parquet.write_entries(entries(second, again), tmp_path / "again.parquet") == count
        assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "runs.parquet").read_bytes()
        assert exported(second, tmp_path / "b.jsonl") == exported(store, tmp_path / "a.jsonl")


def test_sqlite_and_postgresql_export_the_same_bytes(store: Store, postgres: str, tmp_path: Path) -> None:
    first = exported(store, tmp_path / "a.jsonl")
    with Store.open(new_database(postgres)) as second:
        taken_in(second, tmp_path / "a.jsonl")
        assert exported(second, tmp_path / "b.jsonl") == first
    with Store.open(tmp_path / "third.db") as third:
        taken_in(third, tmp_path / "b.jsonl")
        assert exported(third, tmp_path / "c.jsonl") == first


def test_importing_twice_adds_nothing(store: Store, tmp_path: Path) -> None:
    first = exported(store, tmp_path / "a.jsonl")
    taken = taken_in(store, tmp_path / "a.jsonl")
    assert (taken.runs, taken.attempts, taken.gradings, taken.others) == (0, 0, 0, 0)
    assert exported(store, tmp_path / "b.jsonl") == first


def test_a_run_that_went_on_gets_what_it_lacks(told: Recorded, store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "half.db") as half:
        dataclasses.replace(told, attempts=told.attempts[:2], events=told.events[:2], end=None).into(half)
        exported(store, tmp_path / "a.jsonl")
        taken = taken_in(half, tmp_path / "a.jsonl")
        assert (taken.runs, taken.attempts) == (1, 6)
        assert exported(half, tmp_path / "b.jsonl") == (tmp_path / "a.jsonl").read_bytes()


def test_a_run_that_was_altered_is_refused(told: Recorded, store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "other.db") as other:
        dataclasses.replace(told, run=dataclasses.replace(told.run, policy="somebody")).into(other)
        exported(other, tmp_path / "a.jsonl")
    with pytest.raises(RecordConflict, match="with different content"):
        taken_in(store, tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda text: text[: len(text) // 2], "JSON|cut off"),
        (lambda text: "\n".join(text.split("\n")[:-2]) + "\n", "cut off"),
        (lambda text: "\n".join([*text.split("\n")[:3], *text.split("\n")[4:]]), "has to come earlier in the file"),
        (lambda text: text.replace('"status":"passed"', '"status":"perfect"'), "status"),
        (lambda text: text.replace('"version":1', '"version":2', 1), "not known here"),
        (lambda text: text.replace('"turn":0', '"turn":"zero"'), "turn"),
        (lambda text: text.replace('"policy":', '"colour":1,"policy":', 1), "colour"),
        (lambda text: '{"messages": []}\n' + text, "not a file that"),
        (lambda text: "", "cut off"),
    ],
)
def test_a_file_that_is_not_sound_is_refused_before_anything_is_stored(
    store: Store, tmp_path: Path, damage: Any, word: str
) -> None:
    path = tmp_path / "a.jsonl"
    exported(store, path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(UsageError, match=word):
        require_sound(read_entries(jsonl.parse_entries(path)))


def test_a_packed_file_that_is_cut_off_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    exported(store, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="unpack"):
        require_sound(read_entries(jsonl.parse_entries(path)))
    path.write_bytes(b"no gzip at all")
    with pytest.raises(UsageError, match="unpack"):
        require_sound(read_entries(jsonl.parse_entries(path)))


def test_a_packed_file_tells_neither_time_nor_name(store: Store, tmp_path: Path) -> None:
    raw = exported(store, tmp_path / "named.jsonl.gz")
    assert raw[4:8] == b"\0\0\0\0"
    assert b"named" not in raw[:64]
    assert gzip.decompress(raw) == exported(store, tmp_path / "plain.jsonl")


def test_an_export_that_fails_leaves_the_old_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    before = exported(store, path)

    def broken() -> Iterator[Any]:
        yield from entries(store, [store.run(store.runs()[0].id)])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jsonl.write_entries(broken(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.glob(".*part")] == []


def test_numbers_have_one_form_whatever_database_kept_them(told: Recorded) -> None:
    one = Completion(text="", policy="p", token_ids=(1, 2), log_probabilities=(-1.0, float("-inf")))
    other = Completion(text="", policy="p", token_ids=(1, 2), log_probabilities=(-1, float("-inf")))
    assert canonical(to_plain(one)) == canonical(to_plain(other))
    again = from_plain(Completion, json.loads(canonical(to_plain(one))), "here")
    assert again.log_probabilities == (-1.0, float("-inf"))
    assert all(isinstance(value, float) for value in again.log_probabilities or ())


def test_every_record_reads_back_equal(told: Recorded) -> None:
    for grading in told.gradings:
        assert from_plain(Grading, json.loads(canonical(to_plain(grading))), "here") == grading


def test_without_pyarrow_parquet_says_what_to_install(store: Store, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from triton_agent.runs.cli.main import main\n"
        f"sys.argv = ['x', 'runs', 'export', '-o', {str(tmp_path / 'a.parquet')!r}]; main()"
    )
    environment = {**os.environ, "TRITON_AGENT_STORE": str(tmp_path / "first.db")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 2, done.stderr
    assert "triton-agent[parquet]" in done.stderr
    assert not (tmp_path / "a.parquet").exists()
