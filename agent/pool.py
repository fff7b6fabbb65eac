"""A pool of workers that can all do the same work, one for each GPU: judges of a loop, or cards of a benchmark.

The least busy member gets the next piece of work. If an instrument fails, the work is tried once more, by another
member if there is one. A member that fails twice in a row where another succeeds is left out from then on, because a
GPU that fell off its bus fails at everything. Work that fails everywhere counts against no member, and the last member
stays.

Not covered: readmitting a member; moving work that hangs before its own time limit ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Generic, TypeVar

FAILURES_AT_MOST = 2
"""Failures in a row after which a member is left out. A single failure may pass: a checker that died is restarted for
the next piece of work.
"""

Member = TypeVar("Member", covariant=True)
Result = TypeVar("Result")

LeftOut = Callable[[Member, str], Awaitable[None]]
"""Called with a member that has just been left out, and the reason."""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Entry(Generic[Member]):
    """A member and its record."""

    member: Member
    busy: int = 0
    given: int = 0
    accidents: int = 0
    accident_s: float = -math.inf
    """Time of the latest failure."""
    left_out: bool = False


class Pool(Generic[Member]):
    """Shares work among members. Use from one event loop."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise ValueError("a pool needs a member")
        self._entries = [_Entry(member=member) for member in members]
        self._changed = asyncio.Condition()

    @property
    def members(self) -> list[Member]:
        """The members that are still in use."""
        return [entry.member for entry in self._in_use()]

    async def tried(
        self,
        work: Callable[[Member], Awaitable[Result]],
        trouble: Callable[[Result], str],
        *,
        at_once: int,
        again_alone: bool = False,
        left_out: LeftOut[Member] | None = None,
    ) -> Result:
        """Do `work` with one member; if `trouble` returns a reason to reject the result, do it once more.

        `at_once` is the most pieces of work under way over all members. With `again_alone`, a pool with a single member
        tries twice, too.
        """
        async with self._turn(at_once) as first:
            began_s = time.monotonic()
            result = await work(first.member)
        complaint = trouble(result)
        if not complaint:
            first.accidents = 0
            return result
        if len(self._in_use()) == 1 and not again_alone:
            return result
        async with self._turn(at_once, besides=first) as second:
            result = await work(second.member)
        if not trouble(result):
            second.accidents = 0
            if second is not first and self._count_failure(first, began_s) and left_out is not None:
                await left_out(first.member, complaint)
        return result

    @contextlib.asynccontextmanager
    async def _turn(self, at_once: int, besides: _Entry[Member] | None = None) -> AsyncIterator[_Entry[Member]]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._least_busy(at_once, besides) is not None)
            entry = self._least_busy(at_once, besides)
            assert entry is not None
            entry.busy += 1
            entry.given += 1
        try:
            yield entry
        finally:
            entry.busy -= 1
            async with self._changed:
                self._changed.notify_all()

    def _least_busy(self, at_once: int, besides: _Entry[Member] | None) -> _Entry[Member] | None:
        """Return the least busy member that has room; among equals, the one that was given the least work."""
        in_use = self._in_use()
        room = max(1, math.ceil(at_once / len(in_use)))
        others = [entry for entry in in_use if entry is not besides] or in_use
        free = [entry for entry in others if entry.busy < room]
        return min(free, key=lambda entry: (entry.busy, entry.given), default=None)

    def _in_use(self) -> list[_Entry[Member]]:
        return [entry for entry in self._entries if not entry.left_out]

    def _count_failure(self, entry: _Entry[Member], began_s: float) -> bool:
        """Count a failure; return True if the member is left out because of it. Pieces of work that overlapped with an
        earlier failure do not count again.
        """
        if entry.left_out or began_s < entry.accident_s or len(self._in_use()) == 1:
            return False
        entry.accidents += 1
        entry.accident_s = time.monotonic()
        entry.left_out = entry.accidents >= FAILURES_AT_MOST
        return entry.left_out
