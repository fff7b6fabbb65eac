"""Reservations of a card's memory, made before the memory is allocated, so that concurrent work on the card fits.

A reservation is a number of bytes of one card, held by a triton-agent process while it works there, for a problem or
for baselines. Requests are granted in the order they were made, each as soon as its bytes fit beside those already
reserved. A reservation larger than the card is granted when there is no other. Reservations and the queue are notes of
`lease.py`, so they hold across processes and users, and those of a dead process vanish.

Not covered: a holder that takes more than it reserved, and programs that do not ask.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.machine.lease import FOLDER, Holder, Mode, holders, lease

POLL_S = 0.1
KEPT_FREE_BYTES = 2 << 30
"""Kept free on every card, for contexts of processes that reserve nothing, and for fragmentation."""


def capacity_of(gpu: Gpu) -> int:
    """Return the bytes of the card that may be reserved; 0 if its memory is unknown."""
    return max(0, (gpu.memory_bytes or 0) - KEPT_FREE_BYTES)


class Reservation:
    """A request for memory of a card. It is queued from its construction until it is granted or closed."""

    def __init__(self, card: str, size_bytes: int, *, capacity_bytes: int, what: str, folder: Path = FOLDER) -> None:
        """`card` is any text that names it, the same in every process; `what` tells others the purpose."""
        self._card, self._folder = card, folder
        self._size_bytes, self._capacity_bytes = size_bytes, capacity_bytes
        self._note = f"{size_bytes} bytes {uuid.uuid4().hex}: {what}"
        self._held = contextlib.ExitStack()
        self._queue = contextlib.ExitStack()
        self._queue.enter_context(lease(_queue(card), what=self._note, mode=Mode.SHARED, folder=folder))

    def granted(self) -> bool:
        """Return True once the memory is reserved; never waits for memory."""
        with lease(f"{self._card} memory gate", what="looking at reservations", folder=self._folder):
            queue = sorted(holders(_queue(self._card), self._folder), key=lambda holder: holder.since_s)
            if not queue or queue[0].what != self._note:
                return False
            reserved = sum(map(_bytes, reservations(self._card, self._folder)))
            if reserved and reserved + self._size_bytes > self._capacity_bytes:
                return False
            self.take()
            return True

    def take(self) -> None:
        """Reserve the memory even if it does not fit, for work that would otherwise wait for itself."""
        self._held.enter_context(lease(_granted(self._card), what=self._note, mode=Mode.SHARED, folder=self._folder))
        self._queue.close()

    def wait(self, say: Callable[[str], None], given_up: Callable[[], bool]) -> bool:
        """Wait for the memory without a time limit, and `say` so once. Return False if it was given up."""
        if self.granted():
            return True
        say(str(self))
        while not given_up():
            time.sleep(POLL_S)
            if self.granted():
                return True
        return False

    def __str__(self) -> str:
        """Return a sentence for the user who waits."""
        held = [
            f"{_gib(_bytes(one))} are held by pid {one.pid} of {one.user} ({one.what.partition(': ')[2] or one.what})"
            for one in reservations(self._card, self._folder)
        ]
        others = ", ".join(held) or "others came first"
        return f"waiting for {_gib(self._size_bytes)} of the GPU's memory: {others}"

    def close(self) -> None:
        """Release the memory, or leave the queue."""
        self._queue.close()
        self._held.close()


def reservations(card: str, folder: Path = FOLDER) -> tuple[Holder, ...]:
    """Return the current holders of memory of a card."""
    return holders(_granted(card), folder)


def _queue(card: str) -> str:
    return f"{card} memory queue"


def _granted(card: str) -> str:
    return f"{card} memory"


def _bytes(holder: Holder) -> int:
    """Return the bytes that a note reserves; 0 for a note of another program."""
    number = holder.what.partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
