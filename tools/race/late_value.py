"""A value that is made in the background: the checker's clock, behind the facts that its driver waits for.

Candidates are written, traced and compiled meanwhile. Making the clock takes the GPU's exclusive lease, so nobody may
wait here while holding a shared one.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

TELL_EVERY_S = 15.0
"""The driver takes a checker that says nothing for stuck, after a minute at the earliest."""

Made = TypeVar("Made")


class LateClock(Generic[Made]):
    """Every method may be called from any thread."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="late clock")
        self._attempt: concurrent.futures.Future[Made] | None = None

    @property
    def made(self) -> Made | None:
        """The value, or None as long as it is not there."""
        attempt = self._attempt
        return attempt.result() if attempt is not None and attempt.done() and not attempt.exception() else None

    def begin(self) -> concurrent.futures.Future[Made]:
        """Start, unless it is being made or was; return without waiting. What failed before is made anew."""
        with self._lock:
            if self._attempt is None or (self._attempt.done() and self._attempt.exception()):
                self._attempt = self._pool.submit(self._make)
            return self._attempt

    def wait(self, tell: Callable[[], None]) -> Made:
        """Return the value once it is made, or raise what went wrong; `tell` is called now and then meanwhile."""
        attempt = self.begin()
        while concurrent.futures.wait([attempt], timeout=TELL_EVERY_S).not_done:
            tell()
        return attempt.result()
