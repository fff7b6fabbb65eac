"""Those of one process who want the GPU alone have it one after another, under a single lease.

Taking an exclusive lease means waiting until everybody else's work on the GPU has drained, during which it stands idle.
With several candidates at the clock's door that is paid once for all of them, not once each.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

STAY_S = 1.0
"""Others wait meanwhile, a trainer on the same GPU among them; who comes later than this drains it anew."""


class ClockRoom:
    """The room has one key, which is passed on from hand to hand before it is given back."""

    def __init__(self, take_lease: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._take_lease = take_lease
        self._turn = threading.Lock()
        self._count = threading.Lock()
        self._waiting = 0
        self._lease: contextlib.ExitStack | None = None
        self._taken_s = 0.0

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The GPU is the caller's for the length of the block."""
        with self._count:
            self._waiting += 1
        with self._turn:
            with self._count:
                self._waiting -= 1
            self._take()
            try:
                yield
            finally:
                self._pass_on()

    def _take(self) -> None:
        if self._lease is None:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._take_lease())
                self._lease = stack.pop_all()
            self._taken_s = time.monotonic()

    def _pass_on(self) -> None:
        with self._count:
            awaited = self._waiting > 0
        if self._lease is not None and not (awaited and time.monotonic() - self._taken_s < STAY_S):
            lease, self._lease = self._lease, None
            lease.close()
