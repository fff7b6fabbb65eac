"""Lets the threads that judge candidates run one after the other, since they would slow each other down.

A judging thread calls torch a thousand times, for some microseconds each, and gives up Python's lock during each call.
With a dozen such threads, every call ends in a wait for the lock, which takes longer than the call. Here a thread keeps
its turn until it waits for a worker or for the GPU. No result depends on it: a thread that does not get its turn soon,
since another is busy for long, goes on without.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

PATIENCE_S = 0.02
"""Longest wait for a turn: several times the time between two waits of a candidate."""


class Turns:
    """One turn that threads pass on. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here = threading.local()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for the turn, and hold it for the length of the block."""
        self._take()
        try:
            yield
        finally:
            self._pass_on()

    @contextlib.contextmanager
    def passed_on(self) -> Iterator[None]:
        """Let others have the turn for the length of the block, which waits. Does nothing in a thread without it."""
        if not getattr(self._here, "takes_part", False):
            yield
            return
        self._pass_on()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._here.takes_part = True
        self._here.has_it = self._lock.acquire(timeout=PATIENCE_S)

    def _pass_on(self) -> None:
        had_it, self._here.has_it, self._here.takes_part = self._here.has_it, False, False
        if had_it:
            self._lock.release()


TURNS = Turns()
"""Of this process."""
