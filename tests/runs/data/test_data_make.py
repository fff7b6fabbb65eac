"""`triton-agent data make`: equal seeds give equal bytes, and an interrupted run continues."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_agent.memory.listing import AttemptFilter
from triton_agent.memory.store import Store
from triton_agent.policy.answer import without_notes
from triton_agent.policy.train.data.candidates import TRAIN, DataSettings
from triton_agent.policy.train.extra import missing_modules
from triton_agent.runs.data.command import MakeRequest, run
from triton_agent.runs.data.composing import compose_all
from triton_agent.runs.data.folder import COMPOSING, SOLVED, DatasetFolder
from triton_agent.tools.errors import UsageError
from triton_agent.tools.versions import TRITON_OF_TORCH

SETTINGS = DataSettings(count=40, seed=7, difficulties=("tiny",), held_out=0.1)


class Killed(Exception):
    """Stands for a kill of the process."""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def composed(path: Path) -> DatasetFolder:
    folder = DatasetFolder.begin(path, SETTINGS, ())
    folder.write_problems(compose_all(folder, (), 1))
    return folder


def request(out: Path, **changes: object) -> MakeRequest:
    plain = {
        **{"out": str(out), "count": None, "seed": None, "difficulties": (), "held_out": None, "against": ()},
        **{"jobs": 1, "audit": False, "solve": False, "turns": 1, "faults": 1, "judged": 1.0, "prompt_tokens": 4000},
        **{"device": "cpu", "target": "none", "resume": False, "json": True},
    }
    return MakeRequest(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return composed(tmp_path_factory.mktemp("data") / "whole").path


def test_an_interrupted_dataset_is_continued_to_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken"

    def kill(done: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        compose_all(DatasetFolder.begin(path, SETTINGS, ()), (), 1, kill)
    with (path / COMPOSING).open("a") as file:
        file.write('[{"name": "half a li')  # the process was killed while it wrote
    folder = DatasetFolder.continued(path)
    assert not folder.composed
    folder.write_problems(compose_all(folder, (), 1))
    assert contents(path) == contents(whole)


@pytest.mark.ci
@pytest.mark.slow
def test_the_command_gives_the_same_bytes_with_several_processes(whole: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "triton_agent", "data", "make", str(tmp_path / "again"), "--count", "40"]
    argv += ["--seed", "7", "--difficulty", "tiny", "--jobs", "2", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problems"] == {"train": 36, "held_out": 4}
    assert contents(tmp_path / "again") == contents(whole)


def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "triton_agent", "data", "make", str(tmp_path / "killed"), "--count", "100000"]
    command = subprocess.Popen([*argv, "--difficulty", "tiny", "--jobs", "2"], stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "killed" / COMPOSING).exists, within_s=300)
        children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        assert len(children) >= 2
    finally:
        command.kill()
        command.wait()
    wait_until(lambda: not any(runs(child) for child in children), within_s=60)


def wait_until(reached: Callable[[], bool], *, within_s: float) -> None:
    limit = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < limit
        time.sleep(0.1)


def runs(pid: str) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_files_manifest_and_card_agree(whole: Path) -> None:
    rows = DatasetFolder.continued(whole).problems()
    assert {path.stem for path in (whole / "problems").rglob("*.py")} == {row["name"] for row in rows}
    assert all((whole / "problems" / row["split"] / f"{row['name']}.py").read_text() == row["source"] for row in rows)
    card = (whole / "README.md").read_text()
    assert "40 PyTorch modules" in card
    assert "36 to train on and 4 held out" in card
    assert "0 in both" in card


def test_problems_like_those_of_a_folder_are_left_out_and_its_files_never_run(whole: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    row = next(row for row in DatasetFolder.continued(whole).problems() if row["split"] == TRAIN)
    (given / "benchmark.py").write_text(row["source"] + "\nraise SystemExit('run')\n")
    folder = DatasetFolder.begin(tmp_path / "apart", SETTINGS, ())
    accepted = compose_all(folder, [given], 1)
    assert row["fingerprint"] not in {other["fingerprint"] for other in accepted.rows}
    assert accepted.refused["like a problem of --against"] >= 1


def test_a_folder_that_is_in_use_is_not_overwritten(whole: Path) -> None:
    before = contents(whole)
    with pytest.raises(UsageError, match="not empty"):
        run(request(whole))
    with pytest.raises(UsageError, match="seed: 7 there, 8 now"):
        run(request(whole, resume=True, seed=8))
    assert contents(whole) == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"difficulties": ("giant",)}, "--difficulty giant"),
        ({"held_out": 0.9}, "--held-out"),
        ({"count": 0}, "--count"),
        ({"jobs": -1}, "--jobs -1"),
        ({"turns": 0}, "--turns 0"),
        ({"faults": -1}, "--faults -1"),
        ({"prompt_tokens": 0}, "--prompt-tokens 0"),
        ({"against": ("nowhere",)}, "--against nowhere"),
        ({"resume": True}, "no dataset"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        run(request(tmp_path / "none", **changes))
    assert not (tmp_path / "none").exists()


@pytest.mark.train
@pytest.mark.skipif("datasets" in missing_modules(), reason="needs the extra `train`")
def test_the_folder_is_loaded_by_the_datasets_library(whole: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    found = load_dataset(str(whole), cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in found.items()} == {"train": 36, "held_out": 4}
    assert found["train"][0]["steps"]
    assert "class Model" in found["held_out"][0]["source"]


def test_a_folder_whose_beginning_was_killed_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / ".dataset.json.part").write_text('{"compo')
    assert DatasetFolder.begin(tmp_path, SETTINGS, ()).settings == SETTINGS


@pytest.mark.slow
def test_a_kill_between_store_and_journal_solves_no_problem_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "killed"
    asked = {"count": 2, "difficulties": ("tiny",), "held_out": 0.0, "solve": True}
    append = DatasetFolder.append

    def kill(folder: DatasetFolder, name: str, data: object) -> None:
        if name == SOLVED:
            raise Killed
        append(folder, name, data)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(DatasetFolder, "append", kill)
        run(request(out, **asked))
    with Store.open(out / "attempts.db", read_only=True) as store:
        before = {attempt.key for attempt, _ in store.iterate(AttemptFilter())}
    assert before and not (out / SOLVED).exists()
    assert run(request(out, resume=True, solve=True)) == 0
    with Store.open(out / "attempts.db", read_only=True) as store:
        runs = [store.run(one.id) for one in store.runs()]
        assert before < {attempt.key for attempt, _ in store.iterate(AttemptFilter())}
    solved = list(DatasetFolder.continued(out).lines(SOLVED))
    assert sorted(run for line in solved for run in line["runs"]) == sorted(run.id for run in runs)
    first = [run.settings["problem"] for run in runs if run.policy == "builtin"]
    assert len(first) == len(set(first)) == 2
    assert {line["outcome"] for line in solved} == {"passed"}


@pytest.mark.slow
def test_an_interrupted_dataset_says_how_it_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("triton_agent.runs.data.command.compose_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(request(tmp_path / "data"))
    assert "is kept" in capsys.readouterr().err


@pytest.mark.ci
@pytest.mark.slow
def test_solved_problems_give_conversations_with_verified_answers_and_real_messages(tmp_path: Path) -> None:
    out = tmp_path / "solved"
    asked = {"count": 3, "difficulties": ("tiny",), "held_out": 0.3, "solve": True, "audit": True, "jobs": 2}
    assert run(request(out, **asked)) == 0
    folder = DatasetFolder.continued(out)
    trained = {row["name"]: row for row in folder.problems() if row["split"] == TRAIN}
    said = list(folder.lines("conversations.jsonl"))
    supported = {(".".join(map(str, torch)), triton) for torch, triton in TRITON_OF_TORCH}
    assert {row["problem"] for row in said} <= trained.keys()
    assert {row["kind"] for row in said} >= {"single", "repair"}
    for row in said:
        assert row["fingerprint"] == trained[row["problem"]]["fingerprint"]
        assert row["device"] == "cpu" and "class ModelNew" in row["completion"][0]["content"]
        assert "decided:" not in row["completion"][0]["content"]
        assert re.search(r"Turns left: [1-4], this one included", row["prompt"][-1]["content"])
        stated = re.search(r"versions: `torch (\d+\.\d+)\.0\S*, triton (\d+\.\d+\.\d+)`", row["prompt"][-1]["content"])
        assert row["kind"] == "repair" or (stated and stated.groups() in supported), "any supported versions"
        if row["kind"] == "repair":
            assert row["fault"] and row["status_before"] != "passed"
            assert f"verdict: {row['status_before']}" in row["prompt"][-1]["content"]
    with Store.open(folder.path / "attempts.db", read_only=True) as store:
        stored = [(attempt, gradings[-1].evaluation) for attempt, gradings in store.iterate(AttemptFilter())]
    first = {without_notes(attempt.source or "").strip(): verdict for attempt, verdict in stored if not attempt.turn}
    repairs = [(attempt, verdict) for attempt, verdict in stored if attempt.turn]
    assert repairs and all(first[(attempt.source or "").strip()] == verdict for attempt, verdict in repairs)
    before = contents(out)
    assert run(request(out, resume=True, solve=True)) == 0
    after = contents(out)
    assert {name: text for name, text in after.items() if "attempts.db" not in name} == {
        name: text for name, text in before.items() if "attempts.db" not in name
    }


@pytest.mark.ci
@pytest.mark.slow
def test_without_judging_the_authors_first_answers_are_taken_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "answered"
    asked = {"count": 3, "difficulties": ("tiny",), "held_out": 0.3, "solve": True, "judged": 0.0}
    assert run(request(out, **asked)) == 0
    folder = DatasetFolder.continued(out)
    trained = {row["name"] for row in folder.problems() if row["split"] == TRAIN}
    said = list(folder.lines("conversations.jsonl"))
    assert {row["problem"] for row in said} == trained and len(said) == len(trained)
    assert all(row["kind"] == "single" and row["judged"] is False for row in said)
    assert all("class ModelNew" in row["completion"][0]["content"] for row in said)
    assert {line["outcome"] for line in folder.lines(SOLVED)} == {"not judged"}
    with Store.open(folder.path / "attempts.db", read_only=True) as store:
        assert not any(gradings for _, gradings in store.iterate(AttemptFilter()))
    assert f"{len(said)} in one that was not judged" in (out / "README.md").read_text()
    before = contents(out)["conversations.jsonl"]
    assert run(request(out, resume=True, solve=True)) == 0
    assert contents(out)["conversations.jsonl"] == before
