"""Supervises a child process that shares a GPU, and stops it while another process wants the GPU alone.

The child does not take leases itself. It stops itself (SIGSTOP) once it is ready to use the GPU; from then on a thread
of its parent supervises it. The child runs while that thread holds the shared lease. When a process waits for the
exclusive lease, the thread stops the child at whatever it is doing, waits until the GPU has finished the child's queued
work, and gives up the lease. Once it has the lease again, the child continues. So no process waits much longer than
one turn of the child. While nothing of the child is on the GPU, such as while a compiler works on the processor, it is
stopped at once.

SIGKILL also ends a stopped process, so a child that dies with its parent dies even while it is stopped, and the kernel
releases the lease of a dead parent. Processes that the child itself has started are not stopped, so they must not use
the GPU.
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
"""Least length of a turn. Without it, the child would make no progress on a card with race after race. If it is longer,
every race on the card waits longer."""
DRAIN_S = 0.25
"""Wait after stopping the child, until its queued work is done. An autotuner queues at most a tenth of a second of
kernels before it reads the time."""
POLL_S = 0.02
LOOKS = 2
"""A process counts as waiting if it is seen in this many consecutive checks; a single one may be a sharer that passes
the gate."""

STOPPED = os.CLD_STOPPED

Lease = Callable[[], contextlib.AbstractContextManager[None]]


class GivingWay:
    """Supervises one child until it ends, and reaps it; or until `is_done`, and then lets it run without a lease.

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
        uses_gpu: Callable[[], bool] = lambda: True,
        is_done: Callable[[], bool] = bool,
    ) -> None:
        """`limit_s`: the child is killed after this running time; time when it is stopped does not count.

        `longest_call_s`: the longest time that a single queued call may take, as far as it is known.
        `uses_gpu`: returns False while nothing of the child is queued on the GPU.
        `is_done`: returns True once the child may run without supervision.
        """
        self.in_time = True
        """False if the child was killed at its time limit. Valid once supervision has ended."""
        self._pid = pid
        self._lease = lease
        self._awaited = awaited
        self._longest_call_s = longest_call_s
        self._uses_gpu = uses_gpu
        self._is_done = is_done
        self._released = False
        self._left_s = limit_s
        self._ended = threading.Event()
        threading.Thread(target=self._supervise, name="giving way", daemon=True).start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True if supervision has ended, at the latest after `timeout_s`. The caller must not hold the lease."""
        return self._ended.wait(timeout_s)

    def end(self) -> None:
        """Kill the child, whatever it is doing, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._ended.wait()
        if self._released:
            self._released = False
            os.waitpid(self._pid, 0)

    def _supervise(self) -> None:
        try:
            # The child does not use the GPU before it first stops itself, so that part needs no lease.
            alive = self._runs_on(until=lambda: False)
            while alive:
                with self._lease():
                    os.kill(self._pid, signal.SIGCONT)
                    alive = self._runs_on(until=self._end_of_turn())
                    if alive and self._is_done():
                        self._released = True
                        return
                    alive = alive and self._stop_and_drain()
        except InstrumentError:
            pass  # the lease could not be taken: the other processes on the card matter more than this child's result
        finally:
            if not self._released:
                os.kill(self._pid, signal.SIGKILL)  # also after an unexpected exception, since callers wait for the end
                os.waitpid(self._pid, 0)
            self._ended.set()

    def _runs_on(self, *, until: Callable[[], bool]) -> bool:
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

    def _stop_and_drain(self) -> bool:
        """Stop the child and wait until its work on the card is done; return False if it has ended instead."""
        os.kill(self._pid, signal.SIGSTOP)
        while (state := self._state()) is None:
            time.sleep(POLL_S)
        if state == STOPPED and self._uses_gpu():
            time.sleep(DRAIN_S + self._longest_call_s())
        return state == STOPPED

    def _state(self) -> int | None:
        """Return how the child has ended or stopped, None while it is running. An ended child is not reaped."""
        seen = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        return None if seen is None else seen.si_code

    def _end_of_turn(self) -> Callable[[], bool]:
        """Return a function that says whether this turn should end."""
        began_s, seen = time.monotonic(), 0

        def waits() -> bool:
            nonlocal seen
            if self._is_done():
                return True
            seen = seen + 1 if self._awaited() else 0
            return seen >= LOOKS and (time.monotonic() - began_s > TURN_S or not self._uses_gpu())

        return waits
