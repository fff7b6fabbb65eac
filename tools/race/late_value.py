"""Makes the checker's clock in the background, while the driver already has the facts about the problem.

Candidates are written, traced and compiled meanwhile. Making the clock takes the GPU's exclusive lease, so a thread
that holds a shared lease must not wait for it.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

TELL_EVERY_S = 15.0
"""Time between progress messages. The driver considers a checker stuck after a minute of silence at the earliest."""

Made = TypeVar("Made")


class LateClock(Generic[Made]):
    """A clock that is made in a background thread. All methods are thread-safe."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="late clock")
        self._attempt: concurrent.futures.Future[Made] | None = None

    @property
    def made(self) -> Made | None:
        """The clock, or None until it is ready."""
        attempt = self._attempt
        return attempt.result() if attempt is not None and attempt.done() and not attempt.exception() else None

    def begin(self) -> concurrent.futures.Future[Made]:
        """Start making the clock, unless that has begun; return a future at once. After a failure, try again."""
        with self._lock:
            if self._attempt is None or (self._attempt.done() and self._attempt.exception()):
                self._attempt = self._pool.submit(self._make)
            return self._attempt

    def wait(self, tell: Callable[[], None]) -> Made:
        """Return the clock once it is made, or raise the exception; `tell` is called periodically meanwhile."""
        attempt = self.begin()
        while concurrent.futures.wait([attempt], timeout=TELL_EVERY_S).not_done:
            tell()
        return attempt.result()
