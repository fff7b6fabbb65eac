"""What a clock times: calls that take no arguments, one for each set of inputs, in rotation.

One set of inputs for all calls would let a cache, or a memory of earlier answers, look like speed. Two subjects to be
compared should take the same inputs: where a buffer lies can make a difference of its own. The state that a clock
learns about a subject while warming it up is kept with the subject.

Not covered: making the inputs, and checking what the calls return.
"""

from __future__ import annotations

import collections
import functools
import statistics
from collections.abc import Callable, Iterable, Sequence

Call = Callable[[], object]

REMEMBERED = 9
FIRST_GUESS_MS = 0.1


class Subject:
    """What is timed: one call for each set of inputs, in rotation, and what the clock has learned of it."""

    def __init__(self, calls: Sequence[Call], refresh: Callable[[int], None] | None = None) -> None:
        """`refresh` runs before each call, outside the timed region; it may overwrite inputs in place."""
        if not calls:
            raise ValueError("a subject needs at least one call")
        self.calls = tuple(calls)
        self.refresh = refresh
        self.queueing_ms: collections.deque[float] = collections.deque(maxlen=REMEMBERED)
        """How long the host took to queue one call, lately."""
        self.waits_for_gpu = False
        """Found to wait for the GPU itself; holding that back would be in vain."""
        self.repeats = 1
        """Calls to one reading of the device time."""

    def usual_queueing_ms(self) -> float:
        """How long the host takes to queue one call; hold-ups of the host do not count."""
        return statistics.median(self.queueing_ms) if self.queueing_ms else FIRST_GUESS_MS

    def prepared(self, turn: int) -> Call:
        """The call whose turn it is, its inputs renewed."""
        if self.refresh is not None:
            self.refresh(turn)
        return self.calls[turn % len(self.calls)]


def subject_over(function: Callable[..., object], argument_sets: Iterable[tuple[object, ...]]) -> Subject:
    """A subject that calls `function` with each set of arguments in turn."""
    return Subject([functools.partial(function, *arguments) for arguments in argument_sets])
