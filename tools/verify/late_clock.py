"""What is made while nobody needs it yet: the checker's clock, behind the facts that its driver waits for.

Candidates are written and compiled meanwhile; the first that has been found right waits for what is left of the making.
What goes wrong is met again, and told, by whoever asks: then it is made anew. The maker takes the GPU for itself, so
nobody may wait here with a place at the GPU in hand.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

TELL_EVERY_S = 15.0
"""Whoever waits for a verdict takes a checker that says nothing for stuck, after a minute at the earliest."""

Made = TypeVar("Made")


class LateClock(Generic[Made]):
    """Every method may be called from any thread."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._making = threading.Lock()
        self.made: Made | None = None

    def begin(self) -> None:
        """In a thread of its own."""
        threading.Thread(target=self._try, name="late clock", daemon=True).start()

    def _try(self) -> None:
        with contextlib.suppress(Exception):
            self.wait(lambda: None)

    def wait(self, tell: Callable[[], None]) -> Made:
        """Until it is made, by another or by the caller; `tell` is called now and then meanwhile."""
        while not self._making.acquire(timeout=TELL_EVERY_S):
            tell()
        try:
            if self.made is None:
                self.made = self._make()
            return self.made
        finally:
            self._making.release()
