"""A value that is made at the first asking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Later(Generic[Made]):
    """Once, whoever asks; what it is made of is let go of then. Where that fails, the next who asks has it made."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make: Callable[[], Made] | None = make
        self._made: list[Made] = []
        self._lock = threading.Lock()

    def __call__(self) -> Made:
        with self._lock:
            if self._make is not None:
                self._made.append(self._make())
                self._make = None
            return self._made[0]
