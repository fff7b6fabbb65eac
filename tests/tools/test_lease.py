"""Leases between real processes: who gets one, who waits, and what remains when a holder dies."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.lease import Mode, holders, lease

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
KEY = "GPU-5c2a0b1e-0000-1111-2222-333344445555"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "leases"


class Others:
    """Starts and ends processes that hold the lease."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def hold(self, mode: Mode = Mode.EXCLUSIVE, inside: str = "", wait_for_it: bool = True) -> subprocess.Popen[str]:
        """Start a process that holds the lease until its standard input is closed."""
        program = textwrap.dedent(f"""
            import os, sys, time
            from pathlib import Path
            from triton_agent.tools.machine.lease import Mode, lease
            with lease({KEY!r}, what="a test", mode=Mode({mode.value!r}), wait_s=30, folder=Path({str(self.folder)!r})):
                {inside or "pass"}
                print("held", flush=True)
                sys.stdin.read()
        """)
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self.started.append(process)
        if wait_for_it:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def others(folder: Path) -> Iterator[Others]:
    processes = Others(folder)
    yield processes
    processes.end()


def free(folder: Path, mode: Mode = Mode.EXCLUSIVE, wait_s: float = 0.0) -> bool:
    try:
        with lease(KEY, what="a look", mode=mode, wait_s=wait_s, folder=folder):
            return True
    except InstrumentError:
        return False


def test_a_held_lease_keeps_others_out_and_the_error_names_the_holder(folder: Path, others: Others) -> None:
    holder = others.hold()
    with pytest.raises(InstrumentError) as refused, lease(KEY, what="mine", wait_s=0.1, folder=folder):
        pass
    assert f"pid {holder.pid}" in str(refused.value) and "a test" in str(refused.value)
    assert refused.value.where == KEY


def test_leaving_the_block_frees_the_lease_and_leaves_no_note(folder: Path) -> None:
    with lease(KEY, what="mine", folder=folder):
        assert [holder.pid for holder in holders(KEY, folder)] == [os.getpid()]
        assert not free(folder)
    assert free(folder)
    assert not list(folder.glob("*.note"))


def test_an_error_inside_the_block_frees_the_lease(folder: Path) -> None:
    with pytest.raises(RuntimeError), lease(KEY, what="mine", folder=folder):
        raise RuntimeError
    assert free(folder)


def test_kill_9_of_the_holder_frees_the_lease_and_its_note_is_not_believed(folder: Path, others: Others) -> None:
    holder = others.hold()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert list(folder.glob("*.note"))
    assert holders(KEY, folder) == ()
    assert free(folder)


def test_a_forked_child_does_not_keep_the_lease_of_a_parent_that_died(folder: Path, others: Others) -> None:
    holder = others.hold(inside="os.fork() or (os.closerange(0, 3), time.sleep(6), os._exit(0))")
    holder.kill()
    holder.wait()
    assert free(folder, wait_s=1.0)


def test_sharers_share_and_keep_the_exclusive_out(folder: Path, others: Others) -> None:
    others.hold(Mode.SHARED)
    others.hold(Mode.SHARED)
    assert free(folder, Mode.SHARED)
    assert not free(folder, Mode.EXCLUSIVE)
    assert [holder.mode for holder in holders(KEY, folder)] == [Mode.SHARED, Mode.SHARED]


def test_the_exclusive_keeps_sharers_out(folder: Path, others: Others) -> None:
    others.hold(Mode.EXCLUSIVE)
    assert not free(folder, Mode.SHARED)


def test_sharers_cannot_starve_one_who_waits_for_all(folder: Path, others: Others) -> None:
    sharer = others.hold(Mode.SHARED)
    waiting = others.hold(Mode.EXCLUSIVE, wait_for_it=False)
    gate_closes_by = time.monotonic() + 60
    while free(folder, Mode.SHARED):  # until the other process has come to wait
        assert time.monotonic() < gate_closes_by
        time.sleep(0.02)
    sharer.communicate()  # closes its input, so it leaves
    assert waiting.stdout is not None and waiting.stdout.readline() == "held\n"


def test_who_waits_gets_in_when_the_holder_leaves(folder: Path, others: Others) -> None:
    holder = others.hold()
    waiting = others.hold(wait_for_it=False)
    holder.communicate()
    assert waiting.stdout is not None and waiting.stdout.readline() == "held\n"


def test_different_keys_do_not_meet_even_where_they_look_alike(folder: Path) -> None:
    with lease("GPU/1", what="mine", folder=folder), lease("GPU_1", what="mine", wait_s=0.0, folder=folder):
        pass
    with lease("GPU:1", what="mine", folder=folder), lease("GPU/1", what="mine", wait_s=0.0, folder=folder):
        pass


def test_the_folder_is_open_to_all_users_but_nobody_removes_anothers_lock(folder: Path) -> None:
    assert free(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert all(path.stat().st_mode & stat.S_IROTH for path in folder.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as two users")
def test_two_users_meet_at_one_lease() -> None:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        os.chmod(above, 0o777)
        shared = Path(above) / "leases"
        first = _as_user(65534, shared, 30)
        try:
            assert first.stdout is not None and first.stdout.readline() == "held\n"
            _, complaint = _as_user(65533, shared, 0.1).communicate(timeout=20)
            assert "InstrumentError" in complaint and f"pid {first.pid}" in complaint
        finally:
            first.kill()
            first.communicate()


def _as_user(uid: int, folder: Path, wait_s: float) -> subprocess.Popen[str]:
    program = textwrap.dedent(f"""
        import os, sys
        from pathlib import Path
        from triton_agent.tools.machine.lease import lease
        os.setgid({uid}); os.setuid({uid})
        with lease({KEY!r}, what="a test", wait_s={wait_s}, folder=Path({str(folder)!r})):
            print("held", flush=True)
            sys.stdin.read()
    """)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT
    )


def test_a_link_planted_in_place_of_the_lock_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    (tmp_path / "elsewhere").touch()
    (folder / f"{KEY}.gate").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InstrumentError, match="cannot be opened"), lease(KEY, what="mine", folder=folder):
        pass


def test_a_folder_where_anyone_may_remove_locks_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InstrumentError, match="sticky"), lease(KEY, what="mine", folder=folder):
        pass


def test_threads_of_one_process_share_it(folder: Path) -> None:
    together = threading.Barrier(4, timeout=20)

    def work() -> int:
        with lease(KEY, what="a thread", mode=Mode.SHARED, folder=folder):
            return together.wait()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert sorted(thread.result() for thread in [pool.submit(work) for _ in range(4)]) == [0, 1, 2, 3]


def test_a_thread_that_waits_behind_another_gives_up_in_time(others: Others, folder: Path) -> None:
    others.hold()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(lease(KEY, what="a thread", wait_s=0.3, folder=folder).__enter__) for _ in range(3)]
        assert all(isinstance(thread.exception(20), InstrumentError) for thread in waiting)


def test_a_child_forked_while_a_thread_waits_has_a_turn_of_its_own(others: Others, folder: Path) -> None:
    holder = others.hold()
    program = textwrap.dedent(f"""
        import os, sys, threading, time
        from pathlib import Path
        from triton_agent.tools.machine import lease as module
        folder = Path({str(folder)!r})
        def take():
            with module.lease({KEY!r}, what="either", wait_s=30, folder=folder):
                pass
        thread = threading.Thread(target=take)
        thread.start()
        while not any(turn.locked() for turn in module._AFTER_FORK._turns.values()):
            time.sleep(0.01)
        child = os.fork()
        if not child:
            take()
            os._exit(7)
        print("waiting", flush=True)
        thread.join()
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    others.started.append(process)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    holder.communicate("")
    assert process.wait(20) == 7
