"""Looks after the host memory of candidates where the kernel does not: no control group, or CUDA, which maps at will.

One thread for all workers of a driver looks every few hundredths of a second at what each of them holds (see
`holdings.py`) and kills the family that holds more than it may. Who asks afterwards is told how much that was.

Not covered: what is allocated and freed again between two looks, and a machine so short of memory that this thread
does not get its turn; workers volunteer for the kernel's own out-of-memory killer for that case.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from triton_agent.tools.isolate.holdings import Family, File, folder_bytes, started

POLL_S = 0.05
FILES_EVERY = 4
"""Files are looked at only every so many looks: they take longer to make, and to count."""

Lent = Callable[[], Mapping[File, int]]
"""Files that were put into a worker's hands, and their sizes: their pages are not the candidate's."""


def nothing() -> Mapping[File, int]:
    return {}


class Watch:
    """One worker under watch."""

    def __init__(self, pid: int, scratch: str, limit_bytes: int, lent: Lent = nothing) -> None:
        self.family = Family(pid)
        self.lent = lent
        self.scratch = scratch
        self.limit_bytes = limit_bytes
        self.exceeded_bytes = 0
        """What it held when it was killed for that; 0 for one that was not."""
        self._files_bytes = self._nameless_bytes = 0

    def look(self, turn: int) -> None:
        """Kill it if it holds too much."""
        private, shared = self.family.process_bytes()
        if turn % FILES_EVERY == 0:
            self._files_bytes = folder_bytes(self.scratch)
            self._nameless_bytes = self.family.nameless_bytes(besides=self.lent())
        held = private + max(shared, self._nameless_bytes) + self._files_bytes
        if held > self.limit_bytes:  # only then is it worth the time to see which of the shared pages are ours
            own = max(0, shared - self.family.lent_bytes(self.lent()))
            held = private + max(own, self._nameless_bytes) + self._files_bytes
        if held > self.limit_bytes:
            self.exceeded_bytes = held
            self._kill()

    def _kill(self) -> None:
        for pid in self.family.members():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if started(self.family.pid):  # a zombie at least, so its number is still its own
            with contextlib.suppress(OSError):
                os.killpg(self.family.pid, signal.SIGKILL)


class Watchdog:
    """The thread, started with the first worker, idle while there is none."""

    def __init__(self) -> None:
        self._watches: set[Watch] = set()
        self._changed = threading.Condition()
        self._running = False

    @contextlib.contextmanager
    def watching(self, pid: int, *, scratch: str, limit_bytes: int, lent: Lent = nothing) -> Iterator[Watch]:
        """Watch a worker for the length of the block; after it, nothing is ever sent to that number."""
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
        """Call before the worker is reaped."""
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
    """This process's own; a forked child has no thread of its parent's, so gets another."""
    return _watchdog_of(os.getpid())
