"""Lets the threads that judge candidates run one after the other, since they would slow each other down.

A judging thread calls torch a thousand times, for some microseconds each, and gives up Python's lock during each call.
With a dozen such threads, every call ends in a wait for the lock, which takes longer than the call. So a thread holds a
baton, which it puts down only while it waits for a worker or for the GPU. No result depends on it: a thread that does
not get the baton soon, since another is busy for long, goes on without.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

PATIENCE_S = 0.02
"""Longest wait for the baton: several times the time between two waits of a candidate."""


class Baton:
    """A baton that threads pass on. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here = threading.local()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the baton, and hold it for the length of the block. Not to be nested in one thread."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextlib.contextmanager
    def put_down(self) -> Iterator[None]:
        """Let others have the baton during the block, which waits. Does nothing in a thread outside of `held`."""
        if not getattr(self._here, "takes_part", False):
            yield
            return
        self._give()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._here.takes_part = True
        self._here.has_it = self._lock.acquire(timeout=PATIENCE_S)

    def _give(self) -> None:
        had_it, self._here.has_it, self._here.takes_part = self._here.has_it, False, False
        if had_it:
            self._lock.release()


BATON = Baton()
"""The baton of this process's judging threads."""
