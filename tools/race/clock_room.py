"""How the candidates of one process share a GPU: concurrently while they are checked, one by one while they are timed.

Taking the exclusive lease means waiting until all other work on the GPU has ended, with the GPU idle in the end.
Candidates that wait for the clock at the same time pay for this only once (`ClockRoom`). A candidate keeps its shared
lease for all of its checks; otherwise it would wait for the timing of others before each check (`Place`). It gives up
the lease between calls once another candidate has waited for the exclusive lease for some milliseconds: a race takes 50
ms, and the checks of eight candidates that end first would take ten times as long.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator

from triton_agent.tools.machine.lease import PATIENCE_S, Mode

STAY_S = 2.0
"""The exclusive lease is passed on among candidates for this long. All other users of the GPU wait meanwhile, possibly
including a trainer. Candidates that come later have to take the lease again."""
LEAST_STAY_S = 0.03
"""Least time that a place is kept, a few calls long. Without it, checks would make no progress while many problems are
timed."""


class ClockRoom:
    """Lets one candidate at a time use the GPU alone. The exclusive lease is passed on to candidates that wait."""

    def __init__(self, take_lease: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._take_lease = take_lease
        self._turn = threading.Lock()
        self._count = threading.Lock()
        self._waiting = 0
        self._lease: contextlib.ExitStack | None = None
        self._taken_s = 0.0
        self._asked_s = math.inf

    @property
    def is_awaited(self) -> bool:
        """True if a candidate waits for the exclusive lease."""
        return self._asked_s < math.inf

    @property
    def is_overdue(self) -> bool:
        """True if a candidate has waited too long for the exclusive lease."""
        return time.monotonic() - self._asked_s > PATIENCE_S

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Give the caller the GPU alone for the length of the block."""
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
        if self._lease is not None:
            return
        self._asked_s = time.monotonic()
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._take_lease())
                self._lease = stack.pop_all()
        finally:
            self._asked_s = math.inf
        self._taken_s = time.monotonic()

    def _pass_on(self) -> None:
        with self._count:
            awaited = self._waiting > 0
        if self._lease is not None and not (awaited and time.monotonic() - self._taken_s < STAY_S):
            lease, self._lease = self._lease, None
            lease.close()


class Place:
    """One candidate's lease of the GPU: shared from its first check on, exclusive while it is timed."""

    def __init__(
        self,
        lease: Callable[[Mode], contextlib.AbstractContextManager[None]],
        waiting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        overdue: Callable[[], bool] = bool,
    ) -> None:
        """`waiting` is entered during every wait for the lease, so that the wait does not count for the candidate.

        `overdue` returns True if a process has waited long enough for the exclusive lease. It is only asked once the
        place has been held for `LEAST_STAY_S`.
        """
        self._lease = lease
        self._waiting = waiting
        self._overdue = overdue
        self._kept: contextlib.ExitStack | None = None
        self._since_s = 0.0

    @contextlib.contextmanager
    def __call__(self, mode: Mode) -> Iterator[None]:
        """Shared: take the lease unless it is held, and keep it. Exclusive: give up the shared lease first."""
        if mode is Mode.SHARED:
            self._keep()
            yield
            return
        self.leave()
        with self._taken(mode):
            yield

    def _keep(self) -> None:
        if self._kept is None:
            self._kept = self._taken(Mode.SHARED)
            self._since_s = time.monotonic()

    def _taken(self, mode: Mode) -> contextlib.ExitStack:
        with contextlib.ExitStack() as stack:
            with self._waiting():
                stack.enter_context(self._lease(mode))
            return stack.pop_all()

    def pause(self) -> None:
        """Let a process that has waited too long have the exclusive lease. Call this with nothing queued on the GPU."""
        if self._kept is not None and time.monotonic() - self._since_s > LEAST_STAY_S and self._overdue():
            self.leave()
            self._keep()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Give up the shared lease during the block, which does not use the GPU."""
        was_kept = self._kept is not None
        self.leave()
        try:
            yield
        finally:
            if was_kept:
                self._keep()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Hold the shared lease during the block, and give it up afterwards."""
        try:
            with self(Mode.SHARED):
                yield
        finally:
            self.leave()

    def leave(self) -> None:
        """Give up the shared lease if it is held."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
