"""`triton-agent runs`: stored runs are found, shown, compared, exported and removed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from tests.recorded_run import Recorded, recorded
from tests.runs.commands import call

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.store import Store
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.zygotes import Nursery

FIRST, TIMED, OPEN = "20260131-154500-3fa9c1", "20260201-101010-bbbbbb", "20260202-101010-cccccc"
ESCAPE = "\x1b[31mred\x07"


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


@pytest.fixture(scope="module")
def filled(told: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that ended, one that was timed, and one that is open."""
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with Store.open(path) as store:
        told.into(store)
        told.renamed(TIMED, policy="builtin").timed(a3_0=1.5).into(store)
        still = told.renamed(OPEN)
        plans = (dataclasses.replace(one, plan=ESCAPE) for one in still.attempts)
        dataclasses.replace(still, attempts=tuple(plans), end=None).into(store)
    return path


@pytest.fixture
def place(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the filled store, set as the default store."""
    path = tmp_path / "store.db"
    shutil.copy(filled, path)
    monkeypatch.setenv("TRITON_AGENT_STORE", str(path))
    return path


def ids(*arguments: str) -> list[str]:
    return [run["id"] for run in call("runs", "list", "--json", *arguments).json]


# -- list --------------------------------------------------------------------------------------------------------------


def test_runs_are_listed_the_newest_first(place: Path) -> None:
    assert ids() == [OPEN, TIMED, FIRST]
    shown = call("runs", "list").stdout
    assert "1.50x [1.48, 1.52]" in shown
    assert shown.index(OPEN) < shown.index(FIRST)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (("--status", "open"), [OPEN]),
        (("--status", "ended"), [TIMED, FIRST]),
        (("--status", "turns"), [TIMED, FIRST]),
        (("--status", "never"), []),
        (("--policy", "builtin"), [TIMED]),
        (("--problem", "problem"), [OPEN, TIMED, FIRST]),
        (("--problem", "other"), []),
        (("--limit", "1"), [OPEN]),
        (("--limit", "0"), [OPEN, TIMED, FIRST]),
        (("--status", "turns", "--limit", "1"), [TIMED]),
        (("--since", "2026-02-01"), []),
        (("--since", "2026-01-30"), [OPEN, TIMED, FIRST]),
        (("--since", "5000w"), [OPEN, TIMED, FIRST]),
    ],
)
def test_filters_narrow_the_list(place: Path, filters: tuple[str, ...], expected: list[str]) -> None:
    assert ids(*filters) == expected


@pytest.mark.parametrize("since", ["yesterday", "7", "99999999999999w", "2026-13-01"])
def test_a_time_that_is_none_is_refused(place: Path, since: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        call("runs", "list", "--since", since)


def test_a_store_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(NotInStore, match="no store"):
        call("runs", "list", "--store", str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []


# -- show, tree, diff --------------------------------------------------------------------------------------------------


def test_a_run_is_shown_with_its_problem_best_and_attempts(place: Path) -> None:
    shown = call("runs", "show", "20260201").stdout
    for word in (TIMED, "fewest bytes", "1 passed", "best: 3.0", "wrong_values", "library_work", "A plan for turn 3."):
        assert word in shown
    told = call("runs", "show", TIMED, "--json").json
    assert [one["status"] for one in told["attempts"]] == ["not_triton", "wrong_values", "no_answer", "passed"]
    assert told["best"] == f"{TIMED}/3.0"
    assert told["attempts"][3]["speedup"]["median"] == 1.5


def test_last_is_the_newest_run_and_an_open_one_tells_how_it_goes_on(place: Path) -> None:
    shown = call("runs", "show", "last").stdout
    assert OPEN in shown
    assert f"--resume {OPEN}" in shown
    assert "best so far: 3.0" in shown


def test_everything_of_one_attempt_is_shown(told: Recorded, place: Path) -> None:
    shown = call("runs", "show", FIRST, "--attempt", "3.0").stdout
    for word in ("You write Triton kernels.", "A plan for turn 3.", "softmax_kernel", "changes from 1.0", "screen"):
        assert word in shown
    raw = call("runs", "show", FIRST, "-a", "3.0", "--json").json
    assert raw["attempt"]["source"] == told.attempts[3].source
    assert raw["gradings"][0]["evaluation"]["status"] == "passed"


def test_without_a_name_the_newest_run_is_shown(place: Path) -> None:
    assert call("runs", "show").stdout == call("runs", "show", "last").stdout


def test_a_run_says_in_words_why_it_ended(place: Path) -> None:
    assert "all turns were used (turns)" in call("runs", "show", FIRST).stdout


def test_an_attempt_is_shown_by_one_name_with_its_run(place: Path) -> None:
    assert call("runs", "show", f"{FIRST}/3.0").stdout == call("runs", "show", FIRST, "--attempt", "3.0").stdout
    assert call("runs", "show", "last/best").stdout == call("runs", "show", "last", "--attempt", "best").stdout


def test_an_answer_without_a_file_is_shown_as_it_was_given(place: Path) -> None:
    assert "I do not know." in call("runs", "show", FIRST, "--attempt", "2.0").stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("show", "2027"), "2027"),
        (("show", "2026"), "more than one"),
        (("show", FIRST, "--attempt", "9.9"), "9.9"),
        (("show", f"{FIRST}/9.9"), "9.9"),
        (("show", f"{FIRST}/3.0", "--attempt", "2.0"), "two attempts"),
        (("diff", "3.0", f"{FIRST}/3.0"), "RUN/TURN.ANSWER"),
        (("diff", f"{FIRST}/7.0", f"{FIRST}/3.0"), "7.0"),
    ],
)
def test_a_name_that_fits_nothing_says_so(place: Path, arguments: tuple[str, ...], word: str) -> None:
    with pytest.raises(UsageError) as error:
        call("runs", *arguments)
    assert word in str(error.value)


def test_what_a_model_wrote_cannot_command_the_terminal(place: Path) -> None:
    for arguments in (("show", OPEN), ("tree", OPEN), ("show", OPEN, "-a", "3.0"), ("diff", "last/1.0", "last/3.0")):
        shown = call("runs", *arguments).stdout
        assert ESCAPE[:5] not in shown
        assert "\\x1b[31mred\\x07" in shown


def test_the_tree_puts_attempts_under_those_they_came_from(place: Path) -> None:
    lines = call("runs", "tree", TIMED).stdout.splitlines()
    child = next(at for at, line in enumerate(lines) if " 3.0 " in line)
    assert " 1.0 " in lines[child - 1]
    assert "best" in lines[child]
    told = call("runs", "tree", TIMED, "--json").json["tree"]
    assert [one["key"][-3:] for one in told] == ["0.0", "1.0", "2.0"]
    assert [one["key"][-3:] for one in told[1]["children"]] == ["3.0"]


def test_the_difference_of_attempts_of_two_runs(place: Path) -> None:
    shown = call("runs", "diff", f"{FIRST}/1.0", f"{TIMED}/best").stdout
    assert "wrong_values" in shown
    assert "1.50x" in shown
    assert "\n-    power = tl.exp" in shown
    same = call("runs", "diff", f"{FIRST}/3.0", f"{TIMED}/3.0")
    assert "(no difference)" in same.stdout
    assert call("runs", "diff", f"{FIRST}/3.0", f"{TIMED}/3.0", "--json").json["diff"] == []


# -- export and import -------------------------------------------------------------------------------------------------


def test_what_is_exported_here_is_there_after_an_import(place: Path, tmp_path: Path) -> None:
    file, other = str(tmp_path / "a.jsonl.gz"), str(tmp_path / "other.db")
    assert call("runs", "export", "-o", file, "--json").json["runs"] == 3
    taken = call("runs", "import", file, "--store", other, "--json").json["files"][0]
    assert (taken["runs"], taken["attempts"]) == (3, 12)
    again = call("runs", "import", file, "--store", other)
    assert "0 runs, 0 attempts, 0 gradings" in again.stdout
    assert ids("--store", other) == [OPEN, TIMED, FIRST]


def test_only_what_is_named_is_exported(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    call("runs", "export", "20260201", "-o", str(file))
    kinds = [json.loads(line).get("kind") for line in file.read_text().splitlines()]
    assert (kinds.count("run"), kinds.count("attempt")) == (1, 4)


def test_training_rows_are_written_and_what_was_left_out_is_told(place: Path, tmp_path: Path) -> None:
    sft = call("runs", "export", "-f", "trl-sft", "--which", "best", "-o", str(tmp_path / "a.jsonl"))
    assert "1 rows of 3 runs" in sft.stdout
    assert "2 attempts left out: not the best of its problem" in sft.stdout
    call("runs", "export", "-f", "trl-grpo", "-o", str(tmp_path / "b.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    assert {row["run"] for row in rows} == {FIRST, TIMED, OPEN}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-o", "a.txt"), "does not say its format"),
        (("-o", "a.jsonl", "-f", "parquet"), "contradicts the file's name"),
        (("-f", "csv"), "one of jsonl"),
        (("-f", "trl-sft", "--which", "good"), "--which good"),
        (("-f", "trl-sft", "--shape", "round"), "--shape round"),
        (("--policy", "nobody"), "no run matches"),
        (("-o", "no/such/folder/a.jsonl"), "there is no folder"),
        (("-f", "trl-sft", "--which", "wins", "--status", "open", "-o", "a.jsonl"), "nothing to train on"),
    ],
)
def test_an_export_that_cannot_be_says_why(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        call("runs", "export", *arguments)
    assert word in str(error.value)
    assert not (tmp_path / "a.jsonl").exists()


# -- prune -------------------------------------------------------------------------------------------------------------


def test_pruned_runs_are_gone_and_the_others_whole(told: Recorded, place: Path) -> None:
    done = call("runs", "prune", FIRST, "--yes", "--json").json
    assert (done["forgotten"]["runs"], done["forgotten"]["attempts"]) == (1, 4)
    assert ids() == [OPEN, TIMED]
    with Store.open(place, read_only=True) as store:
        kept = list(store.attempts(TIMED))
        assert [one.source for one in kept] == [one.source for one in told.attempts]
        assert [one.observation for one in kept] == [one.observation for one in told.attempts]


def test_pruning_shows_first_and_asks(place: Path) -> None:
    shown = call("runs", "prune", "--older-than", "1d", "--dry-run").stdout
    assert FIRST in shown
    assert "KiB" in shown
    with pytest.raises(UsageError, match="no terminal to ask"):
        call("runs", "prune", "--older-than", "1d")
    assert ids() == [OPEN, TIMED, FIRST]


def test_pruning_by_age_spares_the_open_and_the_best(place: Path) -> None:
    call("runs", "prune", "--older-than", "1d", "--keep-best", "--yes")
    assert ids() == [OPEN, TIMED]


def test_pruning_everything_by_mistake_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="which runs"):
        call("runs", "prune", "--yes")
    assert len(ids()) == 3
