"""What is made while nobody needs it yet: the checker's clock, behind the facts that its driver waits for.

Candidates are written and compiled meanwhile; the first that has been found right waits for what is left of the making.
What goes wrong behind the answer is nobody's: whoever waits has it made anew. What goes wrong then is told to all who
waited for it, and the next who comes has it made anew. The maker takes the GPU for itself, so nobody may wait here
with a place at the GPU in hand.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

TELL_EVERY_S = 15.0
"""Whoever waits for a verdict takes a checker that says nothing for stuck, after a minute at the earliest."""

Made = TypeVar("Made")


class Attempt(concurrent.futures.Future[Made]):
    """One making, and what came of it."""

    def __init__(self, *, asked_for: bool) -> None:
        super().__init__()
        self.asked_for = asked_for
        self.next: Attempt[Made] | None = None
        """Where it was nobody's and failed: what all who waited for it wait for then."""


class LateClock(Generic[Made]):
    """Every method may be called from any thread."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._attempt: Attempt[Made] | None = None
        """Under way, or the one that succeeded."""
        self.made: Made | None = None

    def begin(self) -> None:
        """Without waiting for it."""
        self._join(asked_for=False)

    def wait(self, tell: Callable[[], None]) -> Made:
        """Until it is made; `tell` is called now and then meanwhile."""
        failed: Attempt[Made] | None = None
        while True:
            attempt = self._join(asked_for=True, after=failed)
            while concurrent.futures.wait([attempt], timeout=TELL_EVERY_S).not_done:
                tell()
            if attempt.asked_for or attempt.exception() is None:
                return attempt.result()
            failed = attempt

    def _join(self, *, asked_for: bool, after: Attempt[Made] | None = None) -> Attempt[Made]:
        """The attempt that there is, or a new one, begun in a thread of its own."""
        with self._lock:
            there = after.next if after is not None and after.next is not None else self._attempt
            attempt = there or Attempt(asked_for=asked_for)
            if after is not None:
                after.next = attempt
            if there is None:
                self._attempt = attempt
                threading.Thread(target=self._carry_out, args=(attempt,), name="late clock", daemon=True).start()
            return attempt

    def _carry_out(self, attempt: Attempt[Made]) -> None:
        try:
            self.made = made = self._make()
        except BaseException as error:
            with self._lock:
                self._attempt = None
            attempt.set_exception(error)
        else:
            attempt.set_result(made)
