"""The evaluator's processes: none is left behind, and the death of one is never taken for a verdict.

Every orphan is inherited by the test process for as long as this file runs, so whatever is left behind shows among
its descendants. Candidates run in the evaluator's own workers, never here.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from triton_agent.tools.compile.targets import DEFAULT_TARGET
from triton_agent.tools.errors import InstrumentError, WorkerHungUp, WorkerLost
from triton_agent.tools.evaluate.checker_process import DEATHS_AT_MOST
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.evaluate.worker_pool import INTERPRETER, TRACER, Worker
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.processes.protocol import Reap, Reaped
from triton_agent.tools.processes.zygote import CHECKERS, TRACING
from triton_agent.tools.processes.zygotes import Nursery, bytecode_kept, own_nursery
from triton_agent.tools.results import Finding, Status
from triton_agent.tools.settings import EvaluatorSettings

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc"),
    pytest.mark.xdist_group("evaluator_processes"),
]

T = TypeVar("T")

PR_SET_CHILD_SUBREAPER = 36
QUICK = EvaluatorSettings(target=None, shapes="given", remedies=False, modes=("eval",), call_timeout_s=30.0)
"""Few cases and no compilation, since these tests are not about the checks of outputs."""
TARGET = "cuda:90"

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(301)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(y_ptr + offsets, x + x, mask=offsets < count)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""

WRONG = KERNEL.replace("x + x, mask", "x * x, mask")

SLOW = KERNEL.replace("    tl.store", "    for _ in range(8000):\n        x = x * 1.0\n    tl.store")
"""A right kernel whose check takes a second, so that something can happen to its executor meanwhile."""

ENDLESS = KERNEL.replace("y = torch.empty_like(x)", "while True:\n            y = torch.empty_like(x)")

DAEMONS = KERNEL.replace(
    "y = torch.empty_like(x)",
    "import os, time\n"
    "        for _ in range(3):\n"
    "            if os.fork() == 0:\n"
    "                os.setsid()\n"
    "                time.sleep(600)\n"
    "        time.sleep(0.5)\n"
    "        y = torch.empty_like(x)",
)
"""A candidate whose processes try to outlive the evaluation."""

DRIVER = """
import sys
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.problem.problem import parse_problem

settings = EvaluatorSettings(target=None, shapes="given", remedies=False, modes=("eval",), call_timeout_s=100.0)
with Evaluator(parse_problem(sys.argv[1]), settings) as evaluator:
    evaluator.evaluate(open(sys.argv[2]).read(), lambda stage: print(stage, flush=True))
"""


@pytest.fixture(autouse=True, scope="module")
def inherit_orphans() -> Iterator[None]:
    """Make this process adopt orphans of its descendants, so that they stay visible."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(str(tmp_path_factory.mktemp("nursery") / "zygote.log")) as shared:
        for mode in (TRACER, INTERPRETER):
            shared.mode(mode, TARGET).await_ready()
        yield shared


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ProblemSpec:
    path = tmp_path_factory.mktemp("problem") / "problem.py"
    path.write_text(PROBLEM)
    return parse_problem(str(path))


@pytest.fixture(scope="module")
def evaluator(spec: ProblemSpec, nursery: Nursery) -> Iterator[Evaluator]:
    with Evaluator(spec, QUICK, nursery=nursery) as made:
        yield made


# -- nothing is left behind ----------------------------------------------------------------------------------------


def test_close_leaves_no_process_and_no_file_behind(spec: ProblemSpec) -> None:
    before = living()
    evaluator = Evaluator(spec, QUICK)
    folder = evaluator._folder
    assert evaluator.evaluate(KERNEL).status is Status.PASSED
    assert not eventually(lambda: len(living() - before) != 5)  # the zygote, three for modes, the checker
    evaluator.close()
    assert not left_over(before)
    assert not folder.exists()


def test_closing_a_nursery_that_still_imports_leaves_no_process_behind(tmp_path: Path) -> None:
    before = living()
    nursery = Nursery(str(tmp_path / "zygote.log"))
    nursery.mode("interpreter", TARGET)
    nursery.close()
    assert not left_over(before)
    with pytest.raises(WorkerLost, match="closed"):
        nursery.base.request(Reap(pid=1, grace_s=0.0), Reaped)


def test_bytecode_is_kept_where_torch_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert bytecode_kept() == {}, "the torch of these tests has it"
    monkeypatch.setattr("importlib.util.cache_from_source", lambda path: str(tmp_path / "none"))
    kept = bytecode_kept()
    asked = [sys.executable, "-c", "import sys; print(sys.pycache_prefix, sys.dont_write_bytecode)"]
    told = subprocess.run(asked, env={**os.environ, **kept}, capture_output=True, text=True, check=True).stdout
    assert told.split() == [str(tmp_path / "cache" / "triton-agent" / "bytecode"), "False"]


def test_no_worker_outlives_its_verdict(evaluator: Evaluator) -> None:
    before = living()
    for source in (KERNEL, WRONG, "not python", "import torch\n"):
        evaluator.evaluate(source)
    assert not left_over(before)


def test_processes_that_a_candidate_starts_end_with_its_verdict(spec: ProblemSpec, nursery: Nursery) -> None:
    before = living()
    with Evaluator(spec, dataclasses.replace(QUICK, screen=False), nursery=nursery) as evaluator:
        idle = living()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(evaluator.evaluate, DAEMONS)
            most = 0
            while not waiting.done():
                most = max(most, len(living() - idle))
        waiting.result()
        assert most >= 2 + 3  # the candidate's own and what it started: else this test tests nothing
        assert not left_over(idle)
    assert not left_over(before)


def test_killing_the_driver_ends_everything_within_seconds(spec: ProblemSpec, tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text(ENDLESS)
    before = living()
    argv = [sys.executable, "-c", DRIVER, spec.path, str(candidate)]
    driver = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert driver.stdout is not None
    while driver.stdout.readline().strip() != "trace":
        assert driver.poll() is None, "it ended before"
    time.sleep(0.5)  # into the endless loop
    assert len(living() - before) >= 7  # the driver, three zygotes, the checker, the tracer, the executor
    driver.kill()
    driver.wait()
    driver.stdout.close()
    assert not left_over(before)


def test_killing_the_driver_ends_a_checker_that_is_still_preparing(tmp_path: Path) -> None:
    problem = tmp_path / "problem.py"
    problem.write_text(PROBLEM.replace("return x + x", "\n        while True:\n            x = x + x"))
    before = living()
    argv = [sys.executable, "-c", DRIVER, str(problem), str(problem)]
    driver = subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert eventually(lambda: len(living() - before) < 4, 30.0) is False  # the driver, two zygotes, the checker
    driver.kill()
    driver.wait()
    left = left_over(before)
    for pid in living() - before:
        os.kill(pid, signal.SIGKILL)
    assert not left


# -- sharing, and many at once -------------------------------------------------------------------------------------


def test_two_evaluators_share_one_nursery(
    spec: ProblemSpec, evaluator: Evaluator, nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "square.py").write_text(PROBLEM.replace("x + x", "x * x"))
    before, of_nursery = living(), living(nursery.base.origin.pid)
    with Evaluator(parse_problem(str(tmp_path / "square.py")), QUICK, nursery=nursery) as square:
        # Only descendants of this nursery count: other processes of the tests come and go when they like.
        assert len(living(nursery.base.origin.pid) - of_nursery) == 1  # a checker of its own, and nothing else
        assert square.evaluate(WRONG).status is Status.PASSED
        assert square.evaluate(KERNEL).finding is Finding.VALUES
        assert evaluator.evaluate(KERNEL).status is Status.PASSED
    assert not left_over(before)
    assert evaluator.evaluate(KERNEL).status is Status.PASSED


def test_where_problems_are_expected_a_later_one_has_torchs_compiler_imported(spec: ProblemSpec) -> None:
    with own_nursery() as nursery:
        assert nursery.for_checkers() is nursery.base
        nursery.expect_problems()
        prepared = nursery.mode(CHECKERS, "")
        assert not eventually(lambda: nursery.for_checkers() is not prepared, limit_s=60.0)
        libraries = Path(f"/proc/{nursery.for_checkers().origin.pid}/status").read_text()
        assert "Threads:\t1\n" in libraries, "a thread that there is before a fork is not there after it"
        with Evaluator(spec, QUICK, nursery=nursery) as evaluator:
            assert nursery.for_checkers() is prepared
            assert evaluator.evaluate(KERNEL).status is Status.PASSED


def test_a_first_checker_and_tracers_share_an_import_of_torchs_tracing(spec: ProblemSpec) -> None:
    with own_nursery() as nursery, Evaluator(spec, QUICK, nursery=nursery) as evaluator:
        shared = nursery.mode(TRACING, "")
        assert nursery.for_checkers() is shared and nursery.mode(TRACER, DEFAULT_TARGET).origin.zygote is shared
        assert evaluator.evaluate(KERNEL).status is Status.PASSED


def test_verdicts_reached_at_once_are_each_right(evaluator: Evaluator) -> None:
    sources = [f"{kernel}\n# {number}\n" for number in range(8) for kernel in (KERNEL, WRONG)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        evaluations = list(pool.map(evaluator.evaluate, sources))
    assert [evaluation.finding for evaluation in evaluations] == [None, Finding.VALUES] * 8
    assert len({evaluation.candidate for evaluation in evaluations}) == 16


def test_a_candidate_that_does_not_end_holds_up_no_other(evaluator: Evaluator) -> None:
    before = living()
    begun = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(evaluator.evaluate, ENDLESS, lambda stage: begun.set() if stage == "trace" else None)
        assert begun.wait(20)
        assert evaluator.evaluate(KERNEL).status is Status.PASSED
        assert not waiting.done()
        for pid in living() - before:
            os.kill(pid, signal.SIGKILL)  # no need to wait for its time limit
        assert waiting.result(20).finding is Finding.CRASHED


# -- a failed instrument is no verdict -----------------------------------------------------------------------------


def test_a_checker_that_dies_loses_its_verdict_and_the_next_finds_a_new_one(
    spec: ProblemSpec, nursery: Nursery
) -> None:
    before = living()
    with Evaluator(spec, QUICK, nursery=nursery) as evaluator:
        (checker,) = living() - before
        begun = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(evaluator.evaluate, ENDLESS, lambda stage: begun.set() if stage == "trace" else None)
            assert begun.wait(20)
            os.kill(checker, signal.SIGKILL)
            with pytest.raises(WorkerLost):
                waiting.result(10)
        assert evaluator.evaluate(KERNEL).status is Status.PASSED
        assert evaluator.evaluate(WRONG).finding is Finding.VALUES
        assert not eventually(lambda: len(living() - before) != 1)
    assert not left_over(before)


def test_a_checker_that_dies_every_time_is_given_up(spec: ProblemSpec, nursery: Nursery) -> None:
    before = living()
    with Evaluator(spec, QUICK, nursery=nursery) as evaluator:
        for _ in range(DEATHS_AT_MOST):
            begun = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(evaluator.evaluate, ENDLESS, lambda _, begun=begun: begun.set())
                assert begun.wait(20)
                assert evaluator._checker._child is not None
                os.kill(evaluator._checker._child.pid, signal.SIGKILL)
                with pytest.raises(WorkerLost):
                    waiting.result(10)
        with pytest.raises(WorkerLost, match="in a row"):
            evaluator.evaluate(KERNEL)
    assert not left_over(before)


def test_worker_dying_before_it_is_ready_is_no_verdict(
    evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = living()
    with monkeypatch.context() as patch:
        patch.setattr("triton_agent.tools.evaluate.worker_pool.tempfile.mkdtemp", lambda **_: str(tmp_path / "missing"))
        with pytest.raises(InstrumentError, match="before it was ready"):
            evaluator.evaluate(KERNEL)
    assert not left_over(before)
    assert evaluator.evaluate(KERNEL).status is Status.PASSED


def test_the_death_of_an_executor_is_told_by_its_own_exit_status(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with executors(evaluator, monkeypatch) as begun:
        verdict = evaluator.evaluate(SLOW, at_check(lambda: os.kill(pid_of(begun[-1][0]), signal.SIGSEGV)))
    assert verdict.finding is Finding.CRASHED
    assert "by signal SIGSEGV" in verdict.message, "and not the exit status of the tracer, which ended with the job"


def test_a_candidate_whose_executor_lost_its_channel_is_judged_again(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with executors(evaluator, monkeypatch) as begun:

        def hang_up_once() -> None:
            if len(begun) == 1:
                begun[0][1].shutdown(socket.SHUT_RDWR)

        assert evaluator.evaluate(SLOW, at_check(hang_up_once)).status is Status.PASSED
    assert len(begun) == 2


def test_an_executor_that_loses_its_channel_again_is_no_verdict(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with executors(evaluator, monkeypatch) as begun, pytest.raises(WorkerHungUp, match="its channel was closed"):
        evaluator.evaluate(SLOW, at_check(lambda: begun[-1][1].shutdown(socket.SHUT_RDWR)))
    assert len(begun) == 2
    assert evaluator.evaluate(WRONG).finding is Finding.VALUES


def test_a_candidate_that_ends_its_tracer_without_an_error_has_crashed(spec: ProblemSpec, nursery: Nursery) -> None:
    ends = KERNEL.replace("y = torch.empty_like(x)", "import os; os._exit(0)")
    with Evaluator(spec, dataclasses.replace(QUICK, screen=False), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(ends)
    assert verdict.finding is Finding.CRASHED and "with exit status 0" in verdict.message


def test_close_cleans_up_when_every_process_has_died(spec: ProblemSpec) -> None:
    before = living()
    with Evaluator(spec, QUICK) as evaluator:
        for pid in living() - before:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerLost):
            evaluator.evaluate(KERNEL)
    assert not left_over(before)
    assert not evaluator._folder.exists()


# -- looking at processes ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def executors(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Worker, socket.socket]]]:
    """Yield the executors that are started, each with a copy of its socket, which is closed with the block."""
    begun: list[tuple[Worker, socket.socket]] = []
    take = evaluator._pool._take

    def noted(kind: str) -> Worker:
        worker = take(kind)
        if kind == INTERPRETER:
            begun.append((worker, worker.channel.sock.dup()))
        return worker

    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(evaluator._pool, "_take", noted)
        yield begun
        for _, copy in begun:
            stack.enter_context(contextlib.closing(copy))


def at_check(act: Callable[[], None]) -> Callable[[str], None]:
    """Return a listener that acts when the executor has made its first calls, and before it makes others."""
    return lambda stage: act() if stage == "check" else None


def pid_of(worker: Worker) -> int:
    assert worker.child is not None
    return worker.child.pid


def living(ancestor: int = os.getpid()) -> set[int]:
    """Return the descendants of a process (by default this one) that have not ended."""
    states, parents = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        states[int(name)], parents[int(name)] = fields[0], int(fields[1])
    found = {ancestor}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return {pid for pid in found - {ancestor} if states[pid] not in "ZX"}


def left_over(before: set[int]) -> set[int]:
    """Return new processes that do not end. Those killed in a pid namespace take some milliseconds to disappear."""
    return eventually(lambda: living() - before)


def eventually(condition: Callable[[], T], limit_s: float = 5.0) -> T:
    """Return the condition's value as soon as it is false or empty, or at the timeout."""
    deadline = time.monotonic() + limit_s
    while (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value
