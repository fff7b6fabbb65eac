"""`triton-agent optimize` as its user meets it: what comes out, what is said, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.runs.commands import call

from triton_agent.memory.store import Store
from triton_agent.tools.errors import TritonAgentError

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ROOT / "tests" / "kernels" / "row_sum_f32" / "problem.py"
KILLS = int(os.environ.get("KILLS", "3"))
"""How many moments a run is killed at; `KILLS=50` for the whole promise, which takes ten minutes."""


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "triton_agent", "optimize", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Right and wrong kernels, in an order that makes the last the best."""
    folder = tmp_path_factory.mktemp("kernels")
    files = sorted((ROOT / "tests" / "kernels" / "row_sum_f32").glob("*.py"), reverse=True)
    for number, path in enumerate(
        path for path in files if path.name.startswith("right") or "first_block" in path.name
    ):
        (folder / f"{number}_{path.name}").write_text(path.read_text())
    return folder


@pytest.mark.slow
def test_a_problem_becomes_a_draft_that_passes_and_a_report(tmp_path: Path) -> None:
    done = run(PROBLEM, "--turns", 1, "--parallel", 1, "--out", tmp_path / "out", "--store", tmp_path / "db", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    outcome = events[-1]
    assert outcome["kind"] == "outcome" and outcome["draft"] is True and outcome["speedup"] is None
    assert [event["kind"] for event in events].count("graded") == 1
    draft = Path(outcome["file"])
    assert draft.parent == tmp_path / "out"
    judged = [sys.executable, "-m", "triton_agent", "evaluate", str(PROBLEM), str(draft), "--json"]
    verdict = subprocess.run(judged, capture_output=True, text=True, timeout=200)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    page = Path(outcome["report"]).read_text()
    assert page.lower().startswith("<!doctype html>") and outcome["run"] in page


def test_where_nothing_passes_nothing_is_shipped(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "zeros.py").write_text(
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.new_zeros(1)\n"
    )
    done = run(PROBLEM, "--policy", f"scripted:{folder}", "--out", tmp_path / "out", "--store", tmp_path / "db")
    assert done.returncode == 1
    assert "no kernel passed" in done.stdout
    assert not list((tmp_path / "out").glob("*.py"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to optimize"),
        (("missing.py",), "missing.py"),
        ((PROBLEM, "--policy", "genius"), "no such policy"),
        ((PROBLEM, "--policy", "scripted:/nowhere"), "no such folder"),
        ((PROBLEM, "--budget", "soon"), "--budget soon"),
        ((PROBLEM, "--turns", "0"), "--turns 0"),
        ((PROBLEM, "--device", "tpu"), "--device tpu"),
        (("--resume", "20200101-000000-abcdef"), "20200101-000000-abcdef"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(tmp_path: Path, arguments: tuple, said: str) -> None:
    with pytest.raises(TritonAgentError, match=re.escape(said)):
        call("optimize", *map(str, arguments), "--store", str(tmp_path / "db"))


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_as_if_nothing_had_happened(tmp_path: Path, kernels: Path) -> None:
    """Every stored attempt once, every verdict once, and the same end."""
    options = ("--policy", f"scripted:{kernels}", "--parallel", 2, "--turns", 4, "--seed", 1)
    began = time.monotonic()
    assert run(PROBLEM, *options, "--out", tmp_path / "plain", "--store", tmp_path / "plain.db").returncode == 0
    undisturbed_s = time.monotonic() - began
    expected = _story(tmp_path / "plain.db")
    chance = random.Random(7)
    for number in range(KILLS):
        where = ("--out", tmp_path / f"out{number}", "--store", tmp_path / f"{number}.db")
        _killed(command(PROBLEM, *options, *where), after_s=chance.uniform(0.2, 1.0) * undisturbed_s)
        with Store.open(tmp_path / f"{number}.db") as store:
            begun = [summary.id for summary in store.runs()]
        resumed = ("--resume", begun[0]) if begun else (PROBLEM, *options)
        assert run(*resumed, *where).returncode == 0
        assert _story(tmp_path / f"{number}.db") == expected


def _killed(argv: list[str], after_s: float) -> None:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _story(path: Path) -> dict[str, object]:
    """What a run did, without the times at which it did it."""
    with Store.open(path) as store:
        (summary,) = store.runs()
        attempts = list(store.attempts(summary.id))
        end = store.end(summary.id)
        verdicts = {
            (attempt.turn, attempt.index): [item.evaluation.status for item in store.gradings(attempt.key)]
            for attempt in attempts
        }
        assert all(len(found) == 1 for found in verdicts.values())
        return {
            "sources": [attempt.source for attempt in attempts],
            "parents": [(attempt.parent or "").rpartition("/")[2] for attempt in attempts],
            "verdicts": verdicts,
            "best": (end.best or "").rpartition("/")[2],
            "stop": end.stop_reason,
        }
