"""A supervised process on a GPU is stopped while another process has the card alone: real processes and leases."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.lease import Mode, awaited, holders, lease
from triton_agent.tools.race import giving_way
from triton_agent.tools.race.giving_way import GivingWay

KEY = "GPU-5c2a0b1e-0000-1111-2222-333344445555"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
LONG_S = 60.0

WORKER = """
import os, signal, sys, time
os.kill(os.getpid(), signal.SIGSTOP)
with open(sys.argv[1], "a", buffering=1) as beats:
    while not os.path.exists(sys.argv[1] + ".enough"):
        beats.write(f"{time.monotonic()}\\n")
        time.sleep(0.002)
"""
"""Writes the times at which it works to a file, until the file `.enough` appears."""


class Working:
    """A working child and its supervisor."""

    def __init__(self, folder: Path, *, limit_s: float = LONG_S, uses_gpu: Callable[[], bool] = lambda: True) -> None:
        self.folder, self.limit_s, self._uses_gpu = folder / "leases", limit_s, uses_gpu
        self._beats = folder / "beats"
        self._process = subprocess.Popen([sys.executable, "-S", "-c", WORKER, str(self._beats)])
        self.pid = self._process.pid
        until(lambda: state_of(self.pid) == "T")
        self.keeper = self._kept()

    def _kept(self) -> GivingWay:
        shared = functools.partial(lease, KEY, what="a compiler", mode=Mode.SHARED, folder=self.folder)
        self.folder.mkdir(exist_ok=True)
        is_awaited = functools.partial(awaited, KEY, self.folder)
        return GivingWay(self.pid, shared, is_awaited, limit_s=self.limit_s, uses_gpu=self._uses_gpu)

    def alone(self) -> contextlib.AbstractContextManager[None]:
        return lease(KEY, what="a race", wait_s=LONG_S, folder=self.folder)

    def beats(self) -> list[float]:
        text = self._beats.read_text() if self._beats.exists() else ""
        return [float(line) for line in text.splitlines()]

    def works_on(self) -> None:
        """Wait until the child has worked again."""
        before = len(self.beats())
        until(lambda: len(self.beats()) > before)

    def is_enough(self) -> None:
        Path(f"{self._beats}.enough").touch()

    def end(self) -> None:
        self.is_enough()
        if not self.keeper.wait(0):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        assert self.keeper.wait(LONG_S)


def until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_way, "TURN_S", 0.05)


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Working]:
    worker = Working(tmp_path)
    yield worker
    worker.end()


def test_it_stands_still_while_others_have_the_card_alone_and_goes_on_afterwards(working: Working) -> None:
    for _ in range(3):
        working.works_on()
        with working.alone():
            began_s = time.monotonic()
            time.sleep(0.1)
            ended_s = time.monotonic()
            assert state_of(working.pid) == "T"
        assert not [at_s for at_s in working.beats() if began_s < at_s < ended_s]
    working.works_on()
    working.is_enough()
    assert working.keeper.wait(LONG_S) and working.keeper.in_time
    assert holders(KEY, working.folder) == ()


def test_others_who_share_do_not_stop_it(working: Working) -> None:
    working.works_on()
    with lease(KEY, what="a check", mode=Mode.SHARED, wait_s=LONG_S, folder=working.folder):
        working.works_on()
        assert {holder.mode for holder in holders(KEY, working.folder)} == {Mode.SHARED}


def test_it_does_not_touch_the_card_before_it_may(tmp_path: Path) -> None:
    (tmp_path / "leases").mkdir()
    with lease(KEY, what="a race", folder=tmp_path / "leases"):
        worker = Working(tmp_path)
        time.sleep(0.1)
        assert worker.beats() == []
    worker.works_on()
    worker.end()


def test_its_time_does_not_run_while_it_waits_and_ends_it_where_it_works(tmp_path: Path) -> None:
    (tmp_path / "leases").mkdir()
    limit_s = 1.0
    with lease(KEY, what="a race", folder=tmp_path / "leases"):
        worker = Working(tmp_path, limit_s=limit_s)
        assert not worker.keeper.wait(1.5 * limit_s)
    assert worker.keeper.wait(LONG_S)
    assert not worker.keeper.in_time and worker.beats()
    assert state_of(worker.pid) == "gone"
    worker.end()


def test_one_that_dies_leaves_the_card_to_others(working: Working) -> None:
    working.works_on()
    os.kill(working.pid, signal.SIGKILL)
    assert working.keeper.wait(LONG_S) and working.keeper.in_time
    with lease(KEY, what="a race", wait_s=0.0, folder=working.folder):
        pass


@pytest.mark.parametrize("trouble", [InstrumentError("held by another"), OSError("no such folder")])
def test_it_is_ended_where_its_lease_is_not_to_be_had(
    trouble: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def refused() -> Iterator[None]:
        raise trouble
        yield

    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    process = subprocess.Popen([sys.executable, "-S", "-c", WORKER, str(tmp_path / "beats")])
    keeper = GivingWay(process.pid, refused, lambda: False, limit_s=LONG_S)
    assert keeper.wait(LONG_S)
    until(lambda: not any(thread.name == "giving way" for thread in threading.enumerate()))
    assert [told_of.exc_type for told_of in told] == [OSError] * isinstance(trouble, OSError)
    assert state_of(process.pid) == "gone" and not (tmp_path / "beats").exists()


PARENT = """
import functools, os, sys, time
from pathlib import Path
from triton_agent.tools.sandbox import privileges
from triton_agent.tools.race import giving_way
from triton_agent.tools.machine.lease import Mode, awaited, lease
folder = Path(sys.argv[1])
giving_way.TURN_S = 0.05
pid = os.fork()
if pid == 0:
    privileges.die_with_parent()
    exec(sys.argv[2])
shared = functools.partial(lease, sys.argv[3], what="a compiler", mode=Mode.SHARED, folder=folder)
keeper = giving_way.GivingWay(pid, shared, functools.partial(awaited, sys.argv[3], folder), limit_s=60.0)
print(pid, flush=True)
time.sleep(60)
"""


def test_a_parent_that_is_killed_leaves_neither_a_stopped_child_nor_a_lease(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    folder.mkdir()
    work = "import time\nos.kill(os.getpid(), 19)\nwhile True: time.sleep(0.01)"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), work, KEY], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until(lambda: bool(holders(KEY, folder)) and state_of(pid) != "T")
    with lease(KEY, what="a race", wait_s=LONG_S, folder=folder):
        assert state_of(pid) == "T"
        parent.kill()
        parent.communicate()
        until(lambda: state_of(pid) in ("gone", "Z"))
    with lease(KEY, what="a race", wait_s=0.0, folder=folder):
        assert holders(KEY, folder)


def test_a_turn_lasts_although_others_wait(working: Working) -> None:
    ends = []
    for _ in range(3):
        working.works_on()
        with working.alone():
            ends.append(time.monotonic())
    third = [at_s for at_s in working.beats() if ends[1] < at_s < ends[2]]
    assert third[-1] - third[0] > giving_way.TURN_S / 2


def test_it_stops_at_once_while_nothing_of_it_is_on_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving_way, "TURN_S", 2 * LONG_S)  # `alone` would fail before the end of such a turn
    monkeypatch.setattr(giving_way, "DRAIN_S", 2 * LONG_S)
    worker = Working(tmp_path, uses_gpu=lambda: False)
    for _ in range(2):
        worker.works_on()
        with worker.alone():
            assert state_of(worker.pid) == "T"
    worker.works_on()
    worker.end()
