"""`triton-agent replay RUN --fork A`: what it refuses, what the new run starts with, and how it is shown."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.recorded_run import PROBLEM, RUN, Recorded, recorded
from tests.runs.commands import call

from triton_agent.memory.errors import NotInStore
from triton_agent.memory.store import Store
from triton_agent.runs.optimize.fork import Overrides, request_from
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.zygotes import Nursery

FORK = "20260301-101010-dddddd"


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery)


@pytest.fixture
def problem(told: Recorded, tmp_path: Path) -> Path:
    """The run's problem file, which tests may change."""
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM.read_text())
    return path


@pytest.fixture
def place(told: Recorded, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the run and a fork of it, set as the default store."""
    path = tmp_path / "store.db"
    monkeypatch.setenv("TRITON_AGENT_STORE", str(path))
    with Store.open(path) as store:
        run = dataclasses.replace(told.run, settings={**told.run.settings, "problem": str(problem)})
        dataclasses.replace(told, run=run).into(store)
        told.renamed(FORK, forked_from=f"{RUN}/1.0").into(store)
    return path


def test_a_problem_that_changed_since_is_refused(place: Path, problem: Path) -> None:
    problem.write_text(problem.read_text() + "\n# another\n")
    with pytest.raises(UsageError, match=f"the problem of run {RUN} has changed since"):
        call("replay", RUN, "--fork", "3.0")
    with Store.open(place) as store:
        assert len(store.runs()) == 2, "no run is begun"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--turns", "3"), "--turns: only with --fork"),
        (("--policy", "builtin", "--out", "x"), "--policy, --out: only with --fork"),
        (("--fork", "3.0", "--verify"), "--fork starts a new run"),
        (("--fork", "7.0"), "has no attempt '7.0'"),
        (("--fork", "3.0", "--turns", "0"), "--turns 0"),
        (("--fork", "3.0", "--policy", "genius"), "no such policy"),
        (("--fork", "3.0", "--budget", "soon"), "--budget soon"),
        (("--fork", "3.0", "--device", "tpu"), "--device tpu"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(place: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        call("replay", RUN, *arguments)


def test_a_run_that_is_not_there_is_named(place: Path) -> None:
    with pytest.raises(NotInStore, match="20200101"):
        call("replay", "20200101", "--fork", "best")


def test_what_is_not_named_anew_is_as_it_was(told: Recorded) -> None:
    request = request_from(told.run, told.attempts[1], Overrides())
    assert (request.policy, request.shapes, request.timeout_s) == ("scripted", "given", 120.0)
    assert request.turns == 2 + 4, "as many turns as the earlier run had, after the one it sets out from"


def test_turns_are_counted_on(told: Recorded) -> None:
    request = request_from(told.run, told.attempts[1], Overrides(turns=3, policy="builtin", budget="2m", seed=5))
    assert (request.turns, request.policy, request.seconds, request.seed) == (5, "builtin", 120.0, 5)
    fork = dataclasses.replace(told.run, settings=request.to_json(), forked_from=f"{RUN}/1.0")
    assert request_from(fork, told.attempts[2], Overrides()).turns == 3 + 3, (
        "a fork's own turns count, not those before"
    )


def test_a_run_by_parts_is_forked_by_its_parts(told: Recorded) -> None:
    whole = dataclasses.replace(told.run, settings={**told.run.settings, "parts": True})
    with pytest.raises(UsageError, match="fork the run of a part"):
        request_from(whole, told.attempts[1], Overrides())


def test_the_tree_shows_where_runs_went_on(place: Path) -> None:
    lines = call("runs", "tree", RUN).stdout.splitlines()
    above = next(number for number, line in enumerate(lines) if f"run {FORK}" in line)
    assert "1.0" in lines[above - 1] and lines[above].index("run") > lines[above - 1].index("1.0")
    assert f"forked from {RUN}/1.0" in call("runs", "tree", FORK).stdout.splitlines()[0]
    assert call("runs", "tree", RUN, "--json").json["forks"] == {FORK: f"{RUN}/1.0"}


@pytest.mark.slow
def test_a_fork_ships_what_it_finds(tmp_path: Path) -> None:
    """The run knows only a wrong kernel; the fork's author has a right one."""
    folder = Path(__file__).parents[1] / "kernels" / "row_sum_f32"
    for name, chosen in (("before", "wrong_first_block_only.py"), ("after", "right_loop.py")):
        (tmp_path / name).mkdir()
        (tmp_path / name / chosen).write_text((folder / chosen).read_text())
    where = ("--store", str(tmp_path / "db"), "--json")
    before = ("--policy", f"scripted:{tmp_path / 'before'}", "--turns", "1", "--out", str(tmp_path / "nothing"))
    assert _command("optimize", str(folder / "problem.py"), *before, *where).returncode == 1
    after = ("--fork", "0.0", "--policy", f"scripted:{tmp_path / 'after'}", "--turns", "2")
    done = _command("replay", "last", *after, "--out", str(tmp_path / "out"), *where)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert Path(outcome["file"]).parent == tmp_path / "out"
    with Store.open(tmp_path / "db") as store:
        newest, oldest = store.runs()
        (attempt,) = store.attempts(newest.id)
    assert newest.forked_from == attempt.parent == f"{oldest.id}/0.0"
    assert (attempt.turn, newest.best) == (1, attempt.key)


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=280)
