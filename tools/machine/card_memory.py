"""Reservations of a card's memory, made before the memory is allocated, so that concurrent work on the card fits.

A reservation is a number of bytes of one card, held by a triton-agent process while it works there: for a problem, a
baseline or a worker. Requests are granted in the order they were made, each as soon as its bytes fit beside those
already reserved. A reservation larger than the card is granted when there is no other. Reservations and the queue are
notes of `lease.py`, so those of a dead process vanish.

Not covered: a holder that takes more than it reserved, and programs that do not ask.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.machine.lease import FOLDER, Holder, Mode, holders, lease

POLL_S = 0.05
KEPT_FREE_BYTES = 2 << 30
"""Kept free on every card, for contexts of processes that reserve nothing, and for fragmentation."""


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
            key = _granted(self._card)
            self._held.enter_context(lease(key, what=self._note, mode=Mode.SHARED, folder=self._folder))
            self._queue.close()
            return True

    def close(self) -> None:
        """Release the memory, or leave the queue."""
        self._queue.close()
        self._held.close()


@contextlib.contextmanager
def reserved(
    card: str, size_bytes: int, *, capacity_bytes: int, what: str, wait_s: float = 3600.0, folder: Path = FOLDER
) -> Iterator[None]:
    """Hold a reservation for the duration of the block; after `wait_s`, raise `InstrumentError` naming the holders."""
    deadline_s = time.monotonic() + wait_s
    request = Reservation(card, size_bytes, capacity_bytes=capacity_bytes, what=what, folder=folder)
    with contextlib.closing(request):
        while not request.granted():
            if time.monotonic() > deadline_s:
                who = "; ".join(map(str, reservations(card, folder))) or "others that wait"
                size = f"{size_bytes / 2**30:.1f} GiB"
                raise InstrumentError(
                    f"{size} of the GPU's memory did not become free within {wait_s:g} s; held by {who}",
                    where=card,
                    remedy="let that work end, or work on fewer problems at once",
                )
            time.sleep(POLL_S)
        yield


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
