"""Who of the candidates of a new problem goes first to the GPU, so that a first win is known seconds sooner.

One has the GPU without the others until it was raced; these are compiled meanwhile. It is the first of those that were
handed in, for an author begins with what it thinks best, unless another is ready much sooner.
"""

from __future__ import annotations

import threading
import time

LEAD_S = 6.0
"""A forerunner that is not through by then runs no further ahead."""
PREFERENCE_S = 1.0
"""So long those that are compiled wait for one that was handed in before them."""
OTHERS_S = 8.0
"""So long one that was no win lets others race before it has the original compiled, which keeps them all waiting."""


class Forerunner:
    """Of one checker. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way: dict[object, int] = {}
        """Candidates that were not raced yet, with their numbers."""
        self._leader: object = None
        self._over = False
        self._until_s = 0.0

    def sets_out(self, candidate: object, number: int) -> None:
        """It was handed in, behind those with lower numbers."""
        with self._changed:
            self._under_way[candidate] = number

    def let_go_ahead(self, candidate: object) -> None:
        """Returns at once for whoever goes first, and for the others when that one is through."""
        with self._changed:
            self._changed.wait_for(lambda: self._leader is not None or self._is_next(candidate), PREFERENCE_S)
            if self._leader is None:
                self._leader, self._until_s = candidate, time.monotonic() + LEAD_S
                self._changed.notify_all()
            if self._leader is not candidate:
                self._changed.wait_for(lambda: self._over, max(0.0, self._until_s - time.monotonic()))

    def _is_next(self, candidate: object) -> bool:
        return self._under_way.get(candidate, 0) <= min(self._under_way.values(), default=0)

    def gives_way(self, candidate: object) -> None:
        """It waits for something itself; of any other nothing is changed by that."""
        with self._changed:
            self._over = self._over or self._leader is candidate
            self._changed.notify_all()

    def is_through(self, candidate: object) -> None:
        """It was raced, or has failed."""
        with self._changed:
            self._under_way.pop(candidate, None)
        self.gives_way(candidate)

    def await_others(self) -> None:
        """Until all that have set out are through."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, OTHERS_S)
