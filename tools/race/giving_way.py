"""A child process that works on a GPU beside others, and stands still while somebody wants the card alone.

The child knows nothing of leases. It stops itself (SIGSTOP) once it is ready for the GPU; from there on a thread of its
parent keeps it. It runs while that thread holds the lease shared. When somebody waits to have the card alone, the child
is stopped wherever it is, what it had queued is let run out, and the lease is given up; with the lease back, it goes
on. So nobody waits longer than a turn, whatever the child does; its turns grow as it needs more of them.

A stopped process ends by SIGKILL like any other: a child that is to die with its parent does so in the middle of that,
and the lease of a dead parent is free. What the child itself has started is not stopped: it must leave the GPU alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

from triton_agent.tools.errors import InstrumentError

TURN_S = 1.0
"""Its first turn lasts this long at least before it gives way: on a card with race after race it would not get on."""
LONGER = 2.0
"""Times the turn before: each stop costs it the races of others, who will all wait for it in the end."""
LONGEST_TURN_S = 8.0
DRAIN_S = 0.25
"""Wait after the stop: an autotuner queues at most a tenth of a second of kernels before it looks at the clock."""
POLL_S = 0.02
LOOKS = 2
"""Consecutive looks at which a waiting process must be seen."""

STOPPED = os.CLD_STOPPED

Lease = Callable[[], contextlib.AbstractContextManager[None]]


class GivingWay:
    """Keeps one child from its construction until it has ended, and reaps it, or until it needs no keeper any more.

    `wait` may be called from any thread.
    """

    def __init__(
        self,
        pid: int,
        lease: Lease,
        awaited: Callable[[], bool],
        *,
        limit_s: float,
        longest_call_s: Callable[[], float] = float,
        is_done: Callable[[], bool] = bool,
    ) -> None:
        """`limit_s`: of its own time, when it is ended; what it stands still or waits for the lease is not on it.

        `longest_call_s`: how long something may take that it has queued in one piece, as far as it is known.
        `is_done`: it needs no keeper any more, and goes on without one.
        """
        self.in_time = True
        """False if the child was ended at its time limit. Valid once it has ended."""
        self._pid = pid
        self._lease = lease
        self._awaited = awaited
        self._longest_call_s = longest_call_s
        self._is_done = is_done
        self._goes_on = False
        self._left_s = limit_s
        self._ended = threading.Event()
        threading.Thread(target=self._keep, name="giving way", daemon=True).start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True if nothing has to be kept any more by then. The caller must not hold the lease."""
        return self._ended.wait(timeout_s)

    def end(self) -> None:
        """End the child, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._ended.wait()
        if self._goes_on:
            self._goes_on = False
            os.waitpid(self._pid, 0)

    def _keep(self) -> None:
        try:
            alive, turn_s = self._runs(until=lambda: False), TURN_S  # before it asks for the GPU
            while alive:
                with self._lease():
                    os.kill(self._pid, signal.SIGCONT)
                    alive = self._runs(until=self._somebody_waits(turn_s))
                    if alive and self._is_done():
                        self._goes_on = True
                        return
                    alive = alive and self._stands_still()
                turn_s = min(LONGER * turn_s, LONGEST_TURN_S)
        except InstrumentError:
            pass  # the lease is not to be had: others need the card more than what comes of this
        finally:
            if not self._goes_on:
                os.kill(self._pid, signal.SIGKILL)  # whatever it is that went wrong, nobody waits for it in vain
                os.waitpid(self._pid, 0)
            self._ended.set()

    def _runs(self, *, until: Callable[[], bool]) -> bool:
        """Wait until the child stops by itself or `until` holds; return False once it has ended."""
        began_s = time.monotonic()
        try:
            while not until():
                if time.monotonic() - began_s > self._left_s:
                    self.in_time = False
                    os.kill(self._pid, signal.SIGKILL)
                if (state := self._state()) is not None:
                    return state == STOPPED
                time.sleep(POLL_S)
            return True
        finally:
            self._left_s -= time.monotonic() - began_s

    def _stands_still(self) -> bool:
        """Stopped, and nothing of it left on the card; False if it has ended instead."""
        os.kill(self._pid, signal.SIGSTOP)
        while (state := self._state()) is None:
            time.sleep(POLL_S)
        if state == STOPPED:
            time.sleep(DRAIN_S + self._longest_call_s())
        return state == STOPPED

    def _state(self) -> int | None:
        """How it is, unless it is running; an ended one is not reaped by asking."""
        seen = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        return None if seen is None else seen.si_code

    def _somebody_waits(self, turn_s: float) -> Callable[[], bool]:
        """Asked again and again in one turn, which lasts so long at least."""
        began_s, seen = time.monotonic(), 0

        def waits() -> bool:
            nonlocal seen
            if self._is_done():
                return True
            seen = seen + 1 if self._awaited() else 0
            return seen >= LOOKS and time.monotonic() - began_s > turn_s

        return waits
