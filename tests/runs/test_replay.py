"""`triton-agent replay`: a stored run is played by keys, and judged again on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recorded_run import PROBLEM, RUN, Recorded, recorded
from tests.runs.commands import call

from triton_agent.memory.observation import ProblemView
from triton_agent.memory.store import Store
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.history.stored_problem import restored
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

WAIT_S = 60.0


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


# -- printed -----------------------------------------------------------------------------------------------------------


def test_every_step_is_printed_in_its_order(place: Path) -> None:
    shown = call("replay", RUN, "--plain").stdout
    assert [int(number) for number in re.findall(r"step (\d) of 4", shown)] == [1, 2, 3, 4]
    for word in ("A plan for turn 0.", "I do not know.", "softmax_kernel", "changes from 1.0", "passed", "took "):
        assert word in shown


def test_the_way_to_one_attempt_goes_over_its_parents(place: Path) -> None:
    shown = call("replay", RUN, "--attempt", "best", "--plain").stdout
    assert "step 2 of 2" in shown
    assert re.findall(rf"{RUN}  (\d\.\d)", shown) == ["1.0", "3.0"]


def test_playing_back_needs_no_network_and_no_torch(place: Path) -> None:
    code = f"""
import socket, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "triton", "langgraph", "transformers"):
            raise ImportError(f"{{name}} is not to be had")
class NoSocket(socket.socket):
    def __init__(self, *arguments, **keywords):
        raise OSError("no network")
sys.meta_path.insert(0, Refuse())
socket.socket = NoSocket
from triton_agent.runs.cli.main import main
sys.argv = ["triton-agent", "replay", {RUN!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "step 4 of 4" in done.stdout


# -- at a terminal -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Terminal:
    """A pseudo terminal that runs `replay`."""

    pid: int
    descriptor: int
    before: list[object]
    seen: str = ""

    def until(self, text: str) -> str:
        """Return the output up to `text`."""
        ends, new = time.monotonic() + WAIT_S, ""
        while text not in new:
            assert time.monotonic() < ends, f"{text!r} was not shown: {new[-2000:]!r}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    new += os.read(self.descriptor, 1 << 16).decode(errors="replace")
        return new

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def settings(self) -> list[object]:
        return termios.tcgetattr(self.descriptor)

    def code(self) -> int:
        """Exit code, or 128 plus the number of the signal that ended it."""
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.descriptor], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.descriptor, 1 << 16).decode(errors="replace")
        raise AssertionError("it did not end")


@pytest.fixture
def terminal(place: Path) -> Iterator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored, and inherited, where the tests run in the background
        os.environ |= {"TERM": "xterm-256color", "LINES": "20", "COLUMNS": "100"}
        os.execv(sys.executable, [sys.executable, "-m", "triton_agent", "replay", RUN])
    try:
        yield Terminal(pid, descriptor, termios.tcgetattr(descriptor))
    finally:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)


def test_keys_leaf_forward_and_back_scroll_and_leave(terminal: Terminal) -> None:
    terminal.until("1/4 0.0 not_triton")
    terminal.press("n")
    assert f"{RUN}  1.0" in terminal.until("2/4 1.0 wrong_values")
    terminal.press("\x1b[C")
    terminal.until("3/4 2.0 no_answer")
    terminal.press("p")
    terminal.until("2/4 1.0 wrong_values")
    terminal.press("\x1b[D\x1b[D\x1b[D")
    terminal.until("1/4 0.0 not_triton")
    terminal.press("nnnnn")
    terminal.until("4/4 3.0 passed")
    terminal.press("d")
    terminal.until("4/4 3.0 passed")
    terminal.press("G")
    assert "grader" in terminal.until("100%")
    assert terminal.settings() != terminal.before
    terminal.press("q")
    assert terminal.code() == 0
    assert terminal.settings() == terminal.before
    assert terminal.seen.rstrip().endswith("\x1b[?1049l")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_as_before_however_it_ends(terminal: Terminal, number: signal.Signals) -> None:
    terminal.until("1/4")
    os.kill(terminal.pid, number)
    assert terminal.code() == exit_codes.INTERRUPTED
    assert terminal.settings() == terminal.before
    assert "\x1b[?25h\x1b[?1049l" in terminal.seen


def test_suspended_and_continued_it_shows_the_page_again(terminal: Terminal) -> None:
    terminal.until("1/4")
    os.kill(terminal.pid, signal.SIGTSTP)
    terminal.until("\x1b[?1049l")
    _, status = os.waitpid(terminal.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert terminal.settings() == terminal.before
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.until("1/4")
    terminal.press("q")
    assert terminal.code() == 0
    assert terminal.settings() == terminal.before


# -- judged again ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command's evaluators use the processes that the tests share."""
    from triton_agent.runs.history import judge_again

    real = judge_again.evaluator_for
    monkeypatch.setattr(judge_again, "evaluator_for", lambda spec, settings, say: real(spec, settings, nursery=nursery))


def test_verdicts_that_come_out_as_stored_agree(place: Path, shared: None) -> None:
    done = call("replay", RUN, "--verify", "--json")
    assert done.code == 0
    assert [(one["attempt"], one["agreement"]) for one in done.json["outcomes"]] == [
        ("0.0", "same"),
        ("1.0", "same"),
        ("3.0", "same"),
    ]
    assert all(one["ratio"] == "not compared" for one in done.json["outcomes"])


def test_a_stored_verdict_that_is_false_is_found(told: Recorded, tmp_path: Path, shared: None) -> None:
    """The wrong kernel carries the verdict of the right one, as if the verifier had become stricter."""
    praised = dataclasses.replace(told.gradings[3], attempt=told.attempts[1].key)
    forged = dataclasses.replace(told, gradings=(told.gradings[0], praised, *told.gradings[2:]))
    with Store.open(tmp_path / "store.db") as store:
        forged.timed(a1_0=2.0).into(store)
    done = call("replay", RUN, "-a", "1.0", "--verify", "--store", str(tmp_path / "store.db"))
    assert done.code == exit_codes.NOT_PASSED
    assert "differs" in done.stdout
    assert "1.0, stored" in done.stdout


def test_regrading_puts_new_verdicts_beside_the_old(told: Recorded, place: Path, shared: None) -> None:
    assert call("replay", RUN, "--attempt", "1.0", "--regrade").code == 0
    with Store.open(place) as store:
        first, second = store.gradings(f"{RUN}/1.0")
        assert first == told.gradings[1]
        assert second.evaluation is not None
        assert first.evaluation is not None
        assert second.evaluation.status is first.evaluation.status
        assert second.graded_at > first.graded_at
        assert len(store.gradings(f"{RUN}/3.0")) == 1


@pytest.mark.slow
def test_only_a_problem_of_ones_own_is_trusted(
    told: Recorded, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: Nursery
) -> None:
    """The stored text may come from an import; the file on this machine is the user's own."""
    from triton_agent.runs.history import judge_again

    asked: list[bool] = []
    real = judge_again.evaluator_for

    def watched(spec: ProblemSpec, settings: EvaluatorSettings, say: object) -> Evaluator:
        asked.append(settings.trust)
        return real(spec, dataclasses.replace(settings, trust=True), nursery=nursery)

    monkeypatch.setattr(judge_again, "evaluator_for", watched)
    call("replay", RUN, "--attempt", "0.0", "--verify")
    view = dataclasses.replace(told.run.problem, spec={**told.run.problem.spec, "path": "/gone/problem.py"})
    with Store.open(tmp_path / "elsewhere.db") as store:
        dataclasses.replace(told, run=dataclasses.replace(told.run, problem=view)).into(store)
    done = call("replay", RUN, "--attempt", "0.0", "--verify", "--store", str(tmp_path / "elsewhere.db"))
    assert (done.code, asked) == (0, [True, False])


def test_verifying_alone_keeps_nothing(place: Path, shared: None) -> None:
    call("replay", RUN, "--attempt", "1.0", "--verify")
    with Store.open(place) as store:
        assert len(store.gradings(f"{RUN}/1.0")) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((RUN, "--attempt", "2.0", "--verify"), "wrote a candidate"),
        ((RUN, "--device", "tpu"), "--device tpu"),
        ((RUN, "--verify", "--jobs", "-1"), "--jobs -1"),
        ((RUN, "--json"), "--verify"),
    ],
)
def test_what_cannot_be_replayed_is_refused(place: Path, arguments: tuple[str, ...], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        call("replay", *arguments)


# -- the problem -------------------------------------------------------------------------------------------------------


def stored(path: Path) -> ProblemView:
    spec = parse_problem(str(path))
    return ProblemView(digest=spec.digest, name=spec.name, spec=spec.to_json(), source=path.read_text(), fingerprint="")


def test_an_unchanged_problem_is_loaded_from_its_file(tmp_path: Path) -> None:
    assert restored(stored(PROBLEM), tmp_path).path == str(PROBLEM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fate", ["gone", "changed"])
def test_a_problem_whose_file_is_gone_or_changed_is_loaded_from_what_was_stored(tmp_path: Path, fate: str) -> None:
    file = tmp_path / "problem.py"
    file.write_text(PROBLEM.read_text())
    view = stored(file)
    file.unlink() if fate == "gone" else file.write_text(PROBLEM.read_text() + "\nROWS = 5\n")
    (tmp_path / "anew").mkdir()
    again = restored(view, tmp_path / "anew")
    assert again.digest == view.digest
    assert Path(again.path).read_text() == PROBLEM.read_text()


def test_a_problem_that_needs_a_module_that_changed_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("SCALE = 2\n")
    file = tmp_path / "problem.py"
    file.write_text("import parts\n" + PROBLEM.read_text())
    view = stored(file)
    (tmp_path / "parts.py").write_text("SCALE = 3\n")
    (tmp_path / "anew").mkdir()
    with pytest.raises(NotJudgeableHere, match="not the whole problem"):
        restored(view, tmp_path / "anew")
