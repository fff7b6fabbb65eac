"""Keeps requests and tokens per minute below limits: the user's, and those that a server states in its headers.

A request waits before it is sent, so that the server does not reject it. Concurrent answers share one pace. Tokens are
estimated when a request is sent and corrected when its answer has arrived. Not covered: limits over hours or days,
which the server enforces by rejecting requests.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from triton_agent.tools.errors import UsageError

MINUTE_S = 60.0
KINDS = ("requests", "tokens")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits per minute; None for no limit."""

    requests: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in KINDS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name}-per-minute {value}", remedy="at least 1, or leave it out for no limit")


@dataclasses.dataclass(slots=True)
class Sent:
    """A request of the last minute."""

    at_s: float
    tokens: int


@dataclasses.dataclass(slots=True)
class _Stated:
    """The remainder of one of a server's limits, as the server stated it."""

    left: int
    until_s: float


class Pace:
    """The pace of one server. It keeps no event loop, since a trainer uses a new one for each call."""

    def __init__(
        self,
        limits: Limits,
        *,
        longest_wait_s: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """If a server states a wait longer than `longest_wait_s`, ask at once instead, and let the server reject it."""
        self._limits, self._longest_wait_s = limits, longest_wait_s
        self._now, self._sleep = now, sleep
        self._sent: collections.deque[Sent] = collections.deque()
        self._stated: dict[str, _Stated] = {}
        self._resting_until_s = 0.0

    async def enter(self, tokens: int) -> tuple[Sent, float]:
        """Wait until a request with about this many tokens may be sent; return its entry and the time waited."""
        began_s = self._now()
        while (wait_s := self._wait_s(tokens)) > 0:
            await self._sleep(wait_s)
        sent = Sent(self._now(), tokens)
        self._sent.append(sent)
        for kind, need in zip(KINDS, (1, tokens)):
            if kind in self._stated:
                self._stated[kind].left -= need
        return sent, sent.at_s - began_s

    def heed(self, headers: Mapping[str, str]) -> None:
        """Update the remainder of the server's limits from the headers of a response."""
        for kind in KINDS:
            left = headers.get(f"x-ratelimit-remaining-{kind}", "").strip()
            reset_s = _seconds(headers.get(f"x-ratelimit-reset-{kind}", "").strip())
            if left.isdigit() and reset_s is not None and reset_s <= self._longest_wait_s:
                self._stated[kind] = _Stated(int(left), self._now() + reset_s)

    def rest(self, seconds: float) -> None:
        """Send nothing for this long, because the server asked for it."""
        if seconds <= self._longest_wait_s:
            self._resting_until_s = max(self._resting_until_s, self._now() + seconds)

    def _wait_s(self, tokens: int) -> float:
        now_s = self._now()
        while self._sent and self._sent[0].at_s <= now_s - MINUTE_S:
            self._sent.popleft()
        until_s = [self._resting_until_s]
        for stated, need in ((self._stated.get(kind), need) for kind, need in zip(KINDS, (1, tokens))):
            if stated is not None and stated.left < need:
                until_s.append(stated.until_s)
        if self._limits.requests is not None and len(self._sent) >= self._limits.requests:
            until_s.append(self._sent[-self._limits.requests].at_s + MINUTE_S)
        if self._limits.tokens is not None:
            used = sum(sent.tokens for sent in self._sent)
            for sent in self._sent:  # a request larger than the limit is sent alone
                if used + tokens <= self._limits.tokens:
                    break
                used -= sent.tokens
                until_s.append(sent.at_s + MINUTE_S)
        return max(until_s) - now_s


def _seconds(text: str) -> float | None:
    """Read the time until a limit is reset: `6m0s`, `120ms`, `1.5`, or a date."""
    if re.fullmatch(r"\d{1,9}(\.\d*)?", text):
        return float(text)
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    try:
        then = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if then.tzinfo is None:
        return None
    return max(0.0, (then - datetime.datetime.now(datetime.UTC)).total_seconds())
