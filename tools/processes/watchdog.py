"""Limits the host memory of workers if the kernel does not: without a control group, or with CUDA's large mappings.

One thread in the driver regularly reads how much memory each worker and its children hold (see `holdings.py`), and
kills workers that exceed their limit. `Watch.exceeded_bytes` then records the amount.

Not covered: memory that is allocated and freed between two readings, and a machine so short of memory that this thread
does not run; for that case workers make themselves the first choice of the kernel's out-of-memory killer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from triton_agent.tools.processes.holdings import Family, File, folder_bytes, started

POLL_S = 0.05
FILES_EVERY = 4
"""Files are counted only at every fourth reading, because counting them takes longer."""

Lent = Callable[[], Mapping[File, int]]
"""Returns the files lent to a worker, with their sizes. Their pages do not count as the worker's memory."""


def nothing() -> Mapping[File, int]:
    return {}


class Watch:
    """One worker and its limit."""

    def __init__(self, pid: int, scratch: str, limit_bytes: int, lent: Lent = nothing) -> None:
        self.family = Family(pid)
        self.lent = lent
        self.scratch = scratch
        self.limit_bytes = limit_bytes
        self.exceeded_bytes = 0
        """Memory that the worker held when it was killed for exceeding its limit; 0 if it was not."""
        self._files_bytes = self._nameless_bytes = 0

    def look(self, turn: int) -> None:
        """Kill the worker if it holds too much memory."""
        private, shared = self.family.process_bytes()
        if turn % FILES_EVERY == 0:
            self._files_bytes = folder_bytes(self.scratch)
            self._nameless_bytes = self.family.nameless_bytes(besides=self.lent())
        held = private + max(shared, self._nameless_bytes) + self._files_bytes
        if held > self.limit_bytes:  # find out which shared pages were lent only if it matters, since that is slow
            own = max(0, shared - self.family.lent_bytes(self.lent()))
            held = private + max(own, self._nameless_bytes) + self._files_bytes
        if held > self.limit_bytes:
            self.exceeded_bytes = held
            self._kill()

    def _kill(self) -> None:
        for pid in self.family.members():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if started(self.family.pid):  # the process exists, if only as a zombie, so its pid was not reused
            with contextlib.suppress(OSError):
                os.killpg(self.family.pid, signal.SIGKILL)


class Watchdog:
    """The watching thread, started with the first worker and idle while there is none."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._changed = threading.Condition()
        self._running = False

    @contextlib.contextmanager
    def watching(self, pid: int, *, scratch: str, limit_bytes: int, lent: Lent = nothing) -> Iterator[Watch]:
        """Watch a worker for the duration of the block; afterwards no signal is sent to its pid."""
        watch = Watch(pid, scratch, limit_bytes, lent)
        with self._changed:
            self._watches.add(watch)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="memory watchdog", daemon=True).start()
            self._changed.notify()
        try:
            yield watch
        finally:
            self.forget(watch)

    def forget(self, watch: Watch) -> None:
        """Stop watching a worker; call this before the worker is reaped."""
        with self._changed:
            self._watches.discard(watch)

    def _run(self) -> None:
        turn = 0
        while True:
            with self._changed:
                while not self._watches:
                    self._changed.wait()
                for watch in list(self._watches):
                    if not watch.exceeded_bytes:
                        watch.look(turn)
            turn += 1
            time.sleep(POLL_S)


@functools.lru_cache(maxsize=1)
def _watchdog_of(pid: int) -> Watchdog:
    return Watchdog()


def watchdog() -> Watchdog:
    """Return the watchdog of this process. A forked child needs its own, since a fork does not copy the thread."""
    return _watchdog_of(os.getpid())
