"""`triton-agent optimize` for its user: the shipped file, the output, and the state after a kill."""

from __future__ import annotations

import ast
import collections
import dataclasses
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

from triton_agent.memory.records import Attempt
from triton_agent.memory.store import Store
from triton_agent.tools.errors import TritonAgentError

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = ROOT / "tests" / "kernels" / "row_sum_f32" / "problem.py"
KILLS = int(os.environ.get("KILLS", "3"))
"""Number of moments at which a run is killed; `make kills` tries 50, which takes half an hour."""


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "triton_agent", "optimize", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Right and wrong kernels, in an order that makes the last one the best."""
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A run of a problem file with a byte-order mark, whose report had a folder in its way."""

    out: Path
    store: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, kernels: Path) -> Odd:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "problem.py").write_text(PROBLEM.read_text(), encoding="utf-8-sig")
    (folder / "out" / "report.html" / "in the way").mkdir(parents=True)
    only = folder / "kernels"
    only.mkdir()
    right = next(path for path in sorted(kernels.iterdir()) if "right" in path.name)
    (only / right.name).write_text(right.read_text())
    where = ("--turns", 1, "--parallel", 1, "--out", folder / "out", "--store", folder / "db")
    done = run(folder / "problem.py", "--policy", f"scripted:{only}", *where)
    return Odd(out=folder / "out", store=folder / "db", done=done)


@pytest.mark.xdist_group("odd_run")
def test_a_problem_file_with_a_byte_order_mark_is_like_any_other(odd: Odd) -> None:
    assert odd.done.returncode == 0, odd.done.stderr
    assert re.search(rf"`triton-agent promote \S+ --store {odd.store}` has measured it", odd.done.stdout)
    with Store.open(odd.store) as store:
        assert [store.run(summary.id).problem.source for summary in store.runs()] == [PROBLEM.read_text()]


@pytest.mark.xdist_group("odd_run")
def test_a_report_that_cannot_be_written_does_not_cost_the_result(odd: Odd) -> None:
    assert odd.done.returncode == 0, odd.done.stderr
    assert "the report cannot be written" in odd.done.stderr and "triton-agent report" in odd.done.stderr
    draft = re.search(r"^draft (\S+)$", odd.done.stdout, re.MULTILINE)
    assert draft and "class ModelNew" in Path(draft[1]).read_text()
    assert not list(odd.out.glob("*.partial"))


@pytest.mark.ci
@pytest.mark.slow
def test_where_nothing_passes_nothing_is_shipped(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "zeros.py").write_text(
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.new_zeros(1)\n"
    )
    where = ("--parallel", 1, "--out", tmp_path / "out", "--store", tmp_path / "db")
    done = run(PROBLEM, "--policy", f"scripted:{folder}", *where)
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
        ((PROBLEM, "--out", PROBLEM), f"{PROBLEM} is a file"),
        ((PROBLEM, "--out", PROBLEM / "sub"), f"{PROBLEM} is a file"),
        (("--resume", "20200101-000000-abcdef"), "20200101-000000-abcdef"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(tmp_path: Path, arguments: tuple, said: str) -> None:
    with pytest.raises(TritonAgentError, match=re.escape(said)):
        call("optimize", *map(str, arguments), "--store", str(tmp_path / "db"))


@pytest.mark.slow
def test_a_first_sigterm_ships_the_best_so_far(tmp_path: Path, kernels: Path) -> None:
    """SIGTERM as from a scheduler or `systemctl stop`: the search ends, and the best kernel is shipped."""
    options = ("--policy", f"scripted:{kernels}", "--parallel", 1, "--turns", 50, *_where(tmp_path))
    running = subprocess.Popen(
        command(PROBLEM, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "passed" in line:
            break
    os.killpg(running.pid, signal.SIGTERM)
    told, rest = running.communicate(timeout=200)
    assert running.returncode == 0, rest
    assert "ended: interrupted" in told and "draft" in told
    assert re.search(rf"to continue the search: triton-agent optimize --resume \S+ --store {tmp_path}", told)
    assert list((tmp_path / "out").glob("*_optimized.py"))


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_as_if_nothing_had_happened(tmp_path: Path, kernels: Path) -> None:
    """Every attempt and verdict is stored once, the end is the same, and so is the shipped file."""
    options = ("--policy", f"scripted:{kernels}", "--parallel", 2, "--turns", 4, "--seed", 1, "--json")
    expected, lasted = _undisturbed(tmp_path / "plain", options)
    chance = random.Random(7)
    seen: collections.Counter[str] = collections.Counter()
    for number in range(KILLS):
        folder = tmp_path / str(number)
        where = _where(folder)
        first_line = number % 5 != 0  # every fifth anywhere, the start of the processes included
        after_s = chance.uniform(0.0, lasted.after_begin_s if first_line else lasted.whole_s)
        _kill(command(PROBLEM, *options, *where), folder, after_s, since_first_line=first_line)
        left = _left_behind(folder / "db")
        resumed = ("--resume", left.run, "--json") if left.run else (PROBLEM, *options)
        done = run(*resumed, *where)
        assert done.returncode == 0, f"kill {number} after {after_s:.2f} s: {done.stderr}"
        again = _evaluated(done.stdout)
        assert not again & left.graded, "what has a verdict is not judged again"
        assert again & left.stored == left.stored - left.graded, "what was answered is judged, and not asked again"
        assert _story(folder) == expected, f"kill {number} after {after_s:.2f} s"
        assert _attempts(folder / "db")[: len(left.attempts)] == left.attempts, "what is stored stays as it was"
        seen[left.moment] += 1
        seen["evaluations repeated"] += len(again & left.under_way)
    print(f"\n{KILLS} kills: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lasted:
    """Duration of the undisturbed run."""

    whole_s: float
    after_begin_s: float
    """Seconds from the moment the run was in the store."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """The state that a killed run left in the store."""

    run: str = ""
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    stored: frozenset[str] = frozenset()
    """Names of stored attempts, as in `2.1`."""
    graded: frozenset[str] = frozenset()
    ended: bool = False

    @property
    def under_way(self) -> frozenset[str]:
        return self.stored - self.graded

    @property
    def moment(self) -> str:
        if not self.run:
            return "before the run was stored"
        return "while shipping" if self.ended else "in the loop"


def _where(folder: Path) -> tuple[str | Path, ...]:
    folder.mkdir(exist_ok=True)
    return ("--out", folder / "out", "--store", folder / "db")


def _undisturbed(folder: Path, options: tuple) -> tuple[dict[str, object], Lasted]:
    began = time.monotonic()
    process = _begun(command(PROBLEM, *options, *_where(folder)), folder)
    _await_first_line(process, folder)
    stored = time.monotonic()
    assert process.wait(280) == 0, (folder / "stderr").read_text()
    ended = time.monotonic()
    return _story(folder), Lasted(whole_s=ended - began, after_begin_s=ended - stored)


def _begun(argv: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as errors:
        return subprocess.Popen(argv, stdout=out, stderr=errors, start_new_session=True)


def _await_first_line(process: subprocess.Popen[bytes], folder: Path) -> None:
    while process.poll() is None and not (folder / "stdout").stat().st_size:
        time.sleep(0.02)


def _kill(argv: list[str], folder: Path, after_s: float, *, since_first_line: bool) -> None:
    process = _begun(argv, folder)
    if since_first_line:
        _await_first_line(process, folder)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _left_behind(path: Path) -> LeftBehind:
    if not path.exists():
        return LeftBehind()
    with Store.open(path) as store:
        runs = store.runs()
        if not runs:
            return LeftBehind()
        attempts = _attempts(path)
        graded = {attempt.key for attempt in attempts if store.gradings(attempt.key)}
        return LeftBehind(
            run=runs[0].id,
            attempts=attempts,
            stored=frozenset(_place(attempt.key) for attempt in attempts),
            graded=frozenset(map(_place, graded)),
            ended=store.end(runs[0].id) is not None,
        )


def _attempts(path: Path) -> list[Attempt]:
    with Store.open(path) as store:
        (summary,) = store.runs()
        return list(store.attempts(summary.id))


def _evaluated(lines: str) -> frozenset[str]:
    """Return the attempts that a process judged, by the events it printed."""
    events = [json.loads(line) for line in lines.splitlines()]
    return frozenset(_place(event["key"]) for event in events if event["kind"] == "evaluating")


def _place(key: str | None) -> str:
    return (key or "").rpartition("/")[2]


def _story(folder: Path) -> dict[str, object]:
    """Return what a run did and shipped, without its id and times."""
    with Store.open(folder / "db") as store:
        (summary,) = store.runs()
        attempts = list(store.attempts(summary.id))
        end = store.end(summary.id)
        verdicts = {
            _place(attempt.key): [item.evaluation.status for item in store.gradings(attempt.key)]
            for attempt in attempts
        }
        assert all(len(found) == 1 for found in verdicts.values())
        (shipped,) = (folder / "out").glob("*.py")
        assert (folder / "out" / "report.html").exists()
        return {
            "sources": [attempt.source for attempt in attempts],
            "parents": [_place(attempt.parent) for attempt in attempts],
            "verdicts": verdicts,
            "best": _place(end.best),
            "stop": end.stop_reason,
            "shipped": ast.unparse(
                ast.parse(shipped.read_text()).body[1:]
            ),  # its docstring has figures of random inputs
        }
