"""The memory watchdog: which memory counts, which process is killed, and the resulting verdict."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.holdings import Family, folder_bytes
from triton_agent.tools.processes.watchdog import Watch, watchdog
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation, Finding, Status
from triton_agent.tools.sandbox import cgroup
from triton_agent.tools.settings import EvaluatorSettings

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is held is read from /proc")

MIB = 1 << 20

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(300)]
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x):
        {greed}
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""


@contextlib.contextmanager
def running(
    code: str, *, folder: Path | None = None, before: Callable[[int], None] | None = None
) -> Iterator[tuple[int, Family]]:
    """Start a process, then let it run the code; yield its pid and its `Family`, which was made before the code ran."""
    script = f"import os, time, mmap, sys; sys.stdin.readline()\n{code}\nprint(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=folder,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        family = Family(process.pid)
        if before is not None:
            before(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        try:
            yield process.pid, family
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_what_children_hold_counts() -> None:
    with running(f"os.fork() or os.fork(); hoard = b'x' * {64 * MIB}; time.sleep(0.3)") as (_, family):
        private, _ = family.process_bytes()
    assert 128 * MIB <= private < 256 * MIB


def test_shared_anonymous_memory_counts_though_no_limit_of_a_process_sees_it() -> None:
    with running(f"m = mmap.mmap(-1, {96 * MIB}); m.write(b'x' * {96 * MIB})") as (_, family):
        _, shared = family.process_bytes()
    assert 96 * MIB <= shared < 128 * MIB


def test_anonymous_files_count_mapped_or_not(tmp_path: Path) -> None:
    code = (
        f"f = os.memfd_create('hoard'); os.write(f, b'x' * {32 * MIB})\n"
        f"g = open('gone', 'wb'); g.write(b'x' * {16 * MIB}); g.flush(); os.unlink('gone')"
    )
    with running(code, folder=tmp_path) as (_, family):
        assert 48 * MIB <= family.nameless_bytes() < 64 * MIB


def test_files_count_once_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 8 * MIB)
    os.link(tmp_path / "deep" / "file", tmp_path / "again")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert 8 * MIB <= folder_bytes(str(tmp_path)) < 9 * MIB


def test_what_lost_its_parent_still_belongs_to_the_family() -> None:
    orphan = f"\nif os.fork() == 0:\n    os.setsid(); hoard = b'x' * {64 * MIB}; time.sleep(60)\ntime.sleep(0.3)"
    with running(orphan) as (pid, family):
        (child,) = set(family.members()) - {pid}
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        private, _ = family.process_bytes()
        os.kill(child, signal.SIGKILL)
    assert private >= 64 * MIB


def test_who_holds_too_much_is_killed_and_nobody_else(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:

        def watch(pid: int) -> None:
            limits[pid] = stack.enter_context(watchdog().watching(pid, scratch=str(tmp_path), limit_bytes=64 * MIB))

        limits: dict[int, Watch] = {}
        modest, _ = stack.enter_context(running(f"hoard = b'x' * {16 * MIB}", before=watch))
        greedy, _ = stack.enter_context(running(f"time.sleep(0.2); hoard = b'x' * {128 * MIB}", before=watch))
        eventually_dead(greedy)
        assert limits[greedy].exceeded_bytes > 64 * MIB
        assert limits[modest].exceeded_bytes == 0
        assert os.waitid(os.P_PID, modest, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


def test_many_files_are_held_as_memory_is(tmp_path: Path) -> None:
    """A candidate cannot write files itself, but the libraries that it uses may."""
    with contextlib.ExitStack() as stack:

        def watch(pid: int) -> None:
            limits.append(stack.enter_context(watchdog().watching(pid, scratch=str(tmp_path), limit_bytes=64 * MIB)))

        limits: list[Watch] = []
        files = f"[open(f'file{{i}}', 'wb').write(b'x' * {8 * MIB}) for i in range(16)]"
        greedy, _ = stack.enter_context(running(files, folder=tmp_path, before=watch))
        eventually_dead(greedy)
        assert limits[0].exceeded_bytes > 64 * MIB


def eventually_dead(pid: int) -> None:
    deadline = time.monotonic() + 5
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        assert time.monotonic() < deadline, "it was not killed"
        time.sleep(0.02)


# -- verdicts ------------------------------------------------------------------------------------------------------

GREEDY = {
    "Python's memory": "kept = [b'x' * (32 << 20) for _ in range(64)]",
    "shared memory": "import mmap; kept = mmap.mmap(-1, 640 << 20); kept.write(b'x' * (640 << 20))",
    "an operator's result": "x = x + torch.ones(160 << 20)[:300] - 1",
}
"""Code that takes too much memory: the first two in the tracer, the last in the executor."""


@pytest.mark.skipif(cgroup.delegated_group()[0] is not None, reason="here the kernel itself counts, in a control group")
@pytest.mark.parametrize("greed", GREEDY.values(), ids=GREEDY)
def test_a_greedy_candidate_ends_as_out_of_memory(greed: str, nursery: Nursery, tmp_path: Path) -> None:
    verdict = judge(greed, nursery, tmp_path)
    assert (verdict.status, verdict.finding) == (Status.OUT_OF_MEMORY, Finding.MEMORY), verdict.message


def test_a_modest_candidate_is_left_alone(nursery: Nursery, tmp_path: Path) -> None:
    """Memory that it allocates but does not touch takes no physical memory."""
    assert judge("kept = torch.ones(1 << 34), b'x' * (16 << 20)", nursery, tmp_path).status is Status.PASSED


def judge(greed: str, nursery: Nursery, folder: Path) -> Evaluation:
    path = folder / "problem.py"
    path.write_text(PROBLEM)
    settings = EvaluatorSettings(
        target=None, screen=False, memory_bytes=512 * MIB, shapes="given", remedies=False, modes=("eval",)
    )
    with Evaluator(parse_problem(str(path)), settings, nursery=nursery) as evaluator:
        return evaluator.evaluate(KERNEL.format(greed=greed))
