"""The driver's side of the zygotes: starts them, has them fork children, and makes sure that no process is left."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

from triton_agent.tools import workspace
from triton_agent.tools.errors import WorkerLost
from triton_agent.tools.machine.hardware import VISIBLE
from triton_agent.tools.processes.codec import encode, from_plain, to_plain
from triton_agent.tools.processes.protocol import (
    CheckerSettings,
    Fork,
    Forked,
    ForkZygote,
    Reap,
    Reaped,
    WorkerSettings,
)
from triton_agent.tools.processes.wire import Channel, ChannelClosed, ChannelTimeout
from triton_agent.tools.processes.zygote import CHECKERS, TRACING

Answer = TypeVar("Answer")

START_TIMEOUT_S = 120.0
"""Importing torch takes 2 s from a warm cache, and up to half a minute from a cold disk."""
REQUEST_TIMEOUT_S = 30.0


class Zygote:
    """A running zygote; every method may be called from any thread."""

    def __init__(self, channel: Channel, origin: subprocess.Popen[bytes] | Child) -> None:
        self.channel = channel
        self.origin = origin
        """How it was started, which determines how it is ended: by this process, or by another zygote."""
        self._lock = threading.Lock()
        self._ready = False
        self._closed = False

    @classmethod
    def start(cls, log_path: str, card: str = "") -> Zygote:
        """Spawn the first zygote, which imports torch; its output goes to a file for post-mortems.

        With `-P`, modules in the working folder, such as a `random.py`, do not replace others. The zygote and all
        processes forked from it see no GPU except `card`.
        """
        ours, theirs = Channel.pair()
        argv = [sys.executable, "-P", "-m", "triton_agent.tools.processes.zygote", str(theirs.fileno())]
        with open(log_path, "ab") as log:
            process = subprocess.Popen(
                argv,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **kept_environment(card),
                    "TORCHINDUCTOR_CACHE_DIR": os.path.join(os.path.dirname(log_path), "inductor"),
                },
            )
        theirs.sock.close()
        return cls(ours, process)

    def await_ready(self) -> None:
        """Wait until its imports are done; every request waits for this, too."""
        with self._lock:
            self._await_ready()

    def _await_ready(self) -> None:
        if not self._ready:
            with _as_lost("a zygote did not start"):
                self.channel.receive(START_TIMEOUT_S)
            self._ready = True

    def fork(self, role: str, channel: Channel, settings: CheckerSettings | WorkerSettings) -> Child:
        """Fork a child that runs `role` with its end of `channel`, which is closed here."""
        return Child(self, self.request(Fork(role=role, settings=encode(settings)), Forked, channel).pid)

    def fork_zygote(self, mode: str, target: str) -> Zygote:
        """Fork a zygote for one mode."""
        ours, theirs = Channel.pair()
        return Zygote(ours, Child(self, self.request(ForkZygote(mode=mode, target=target), Forked, theirs).pid))

    def is_ready(self) -> bool:
        """Return True if its imports are done."""
        with self._lock:
            if not self._ready and self.channel.is_readable():
                self._await_ready()
            return self._ready

    def request(
        self, request: Fork | ForkZygote | Reap, answer: type[Answer], channel: Channel | None = None
    ) -> Answer:
        with self._lock, _as_lost("a zygote does not answer"):
            if self._closed:
                raise ChannelClosed("it was closed")
            self._await_ready()
            self.channel.send(to_plain(request), fds=(channel.fileno(),) if channel else ())
            if channel:
                channel.sock.close()
            plain, _ = self.channel.receive(REQUEST_TIMEOUT_S)
            reply: Answer = from_plain(answer, plain)
            return reply

    def close(self) -> None:
        """End the zygote and wait for its end; it is killed, since it holds no data."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.channel.close()
        if isinstance(self.origin, Child):
            with contextlib.suppress(WorkerLost):  # its parent has ended, and the process that inherited it reaps it
                self.origin.reap()
        else:
            self.origin.kill()
            self.origin.wait()


KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "CC",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "XDG_CACHE_HOME",
)
KEPT_PREFIXES = ("PYTHON", "CUDA", "NVIDIA", "NCCL_", "TORCH", "TRITON", "LC_", "OMP_", "MKL_")
"""Environment variables that our processes need. Keys and tokens are excluded: workers are copies of a zygote."""


def kept_environment(card: str = "") -> dict[str, str]:
    """Return the environment for our processes. A `card`, named by UUID, is the only GPU that they see."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    return {**kept, **bytecode_kept(), **({VISIBLE: card} if card else {})}


def bytecode_kept() -> dict[str, str]:
    """Return variables with which Python keeps bytecode in the user's cache, if torch was installed without any.

    That is so in many containers. Compiling all of torch's sources takes some five seconds in each new process.
    """
    found = importlib.util.find_spec("torch")
    if found is None or not found.origin or os.path.exists(importlib.util.cache_from_source(found.origin)):
        return {}
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = sys.pycache_prefix or os.path.join(cache, "triton-agent", "bytecode")
    return {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}


class Nursery:
    """The zygotes of a driver, shared by its evaluators, so that imports are done once and not once per problem.

    There is one nursery for each GPU: a `card`, named by UUID, is the only GPU that its processes see, as device 0.
    Without a name they see all GPUs that the driver sees, and use the first. If a nursery is made before it is needed,
    its imports run in the meantime.
    """

    def __init__(self, log_path: str, card: str = "") -> None:
        self.log_path = log_path
        self.card = card
        self.base = Zygote.start(log_path, card)
        self._modes: dict[tuple[str, str], Zygote] = {}
        self._lock = threading.Lock()

    def expect_problems(self) -> None:
        """Start the imports that checkers need; call this if many problems follow."""
        self.mode(CHECKERS, "")

    def for_checkers(self) -> Zygote:
        """Return the zygote to fork a checker from, without waiting for one."""
        for mode in (CHECKERS, TRACING):
            prepared = self._modes.get((mode, ""))
            with contextlib.suppress(WorkerLost):  # its imports failed; a checker tells of it, or can do without
                if prepared and prepared.is_ready():
                    return prepared
        return self.base

    def mode(self, mode: str, target: str) -> Zygote:
        """Return the zygote for a mode, started at first use; it may still be importing triton.

        A first tracer waits until torch's tracing is imported, which takes a second.
        """
        origin = self.mode(TRACING, "") if mode == "tracer" else self.base
        with self._lock:
            if (mode, target) not in self._modes:
                self._modes[mode, target] = origin.fork_zygote(mode, target)
            return self._modes[mode, target]

    def log_tail(self) -> str:
        with contextlib.suppress(OSError), open(self.log_path, errors="replace") as log:
            return log.read()[-2000:]
        return ""

    def close(self) -> None:
        for zygote in (*reversed(self._modes.values()), self.base):
            zygote.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextlib.contextmanager
def own_nursery(card: str = "", *, many_problems: bool = False) -> Iterator[Nursery]:
    """Make a nursery with its own temporary folder."""
    folder = workspace.make()
    try:
        with Nursery(str(folder / "zygote.log"), card) as nursery:
            if many_problems:
                nursery.expect_problems()
            yield nursery
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Child:
    """One forked process. It stays a zombie until `reap`, so its pid cannot be reused."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self.zygote = zygote
        self.pid = pid

    def reap(self, grace_s: float = 0.0) -> int:
        """End the process, killing it after `grace_s`, and its group; return the exit code, or minus a signal."""
        if grace_s and self._awaits_end(grace_s):
            grace_s = 0.0
        return self.zygote.request(Reap(pid=self.pid, grace_s=grace_s), Reaped).status

    def _awaits_end(self, limit_s: float) -> bool:
        """Wait for its end here, without blocking the zygote; return False if the kernel does not allow it."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            poll = select.poll()  # select() refuses descriptors above 1023
            poll.register(descriptor, select.POLLIN)
            poll.poll(limit_s * 1e3)
        finally:
            os.close(descriptor)
        return True


@contextlib.contextmanager
def _as_lost(what: str) -> Any:
    try:
        yield
    except (ChannelClosed, ChannelTimeout) as error:
        raise WorkerLost(
            f"{what} ({error})", remedy="run `triton-agent doctor` to see whether torch imports here"
        ) from error
