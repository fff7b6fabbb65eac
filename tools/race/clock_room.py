"""How the candidates of one process share a GPU: in parallel while they are checked, one by one while they are timed.

To take the exclusive lease is to wait until all other work on the GPU has ended, and the GPU is idle meanwhile.
Candidates that wait for the clock together pay for that once (`ClockRoom`). A candidate keeps its shared lease for all
of its checks, or it would wait for the clocks of others before each one (`Place`). Where checks take long, they pause
for a candidate that has waited for the exclusive lease.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator

from triton_agent.tools.machine.lease import Mode

STAY_S = 2.0
"""Others wait meanwhile, a trainer on the same GPU among them; who comes later than this drains it anew."""
PATIENCE_S = 1.0
"""After this wait for the exclusive lease, checks under way give up their shared lease at their next pause."""
LEAST_STAY_S = 0.25
"""A place is kept for as long at least: between the clocks of many problems, checks would not get on."""


class ClockRoom:
    """The room has one key, which is passed on from hand to hand before it is given back."""

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
        """`waiting` surrounds every wait for the lease: others' work is not on the candidate's time.

        `overdue`: whether somebody has waited long for all places to be given up; asked once the place has been held
        for a while.
        """
        self._lease = lease
        self._waiting = waiting
        self._overdue = overdue
        self._kept: contextlib.ExitStack | None = None
        self._since_s = 0.0

    @contextlib.contextmanager
    def __call__(self, mode: Mode) -> Iterator[None]:
        """Shared, the place is taken if it is not held, and kept; alone, it is given up first."""
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
        """Let in who has waited too long for the exclusive lease. Call this with nothing queued on the GPU."""
        if self._kept is not None and time.monotonic() - self._since_s > LEAST_STAY_S and self._overdue():
            self.leave()
            self._keep()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Hold the place, and give it up afterwards."""
        try:
            with self(Mode.SHARED):
                yield
        finally:
            self.leave()

    def leave(self) -> None:
        """Give up the shared lease, if it is held."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
