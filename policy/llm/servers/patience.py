"""Limits for one server: waiting times, tries, sizes.

Not covered: which failures are worth another try; see `refusals.py`.
"""

from __future__ import annotations

import dataclasses
import random


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits for one question; over all its tries unless a field says otherwise."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    """Per try. A busy server queues, reading a long prompt on a CPU takes minutes, and some models think before
    streaming.
    """
    between_bytes_s: float = 60.0
    """Longest pause in an answer."""
    total_s: float = 1800.0
    """From the first try to the last byte: 8192 tokens at five a second."""
    tries: int = 6
    retry_within_s: float = 300.0
    """No try begins later than this after the first one."""
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    """Longest wait, unless the server itself names a time."""
    answer_bytes: int = 1 << 20
    """Longest text; the rest is cut off. Forty times the longest kernel file known here."""
    wire_bytes: int = 64 << 20
    """Most bytes received in all: log-probabilities take some hundred bytes a token."""

    def wait_s(self, tries: int, told_s: float | None, chance: random.Random) -> float:
        """Return the wait before the next try: doubling, and randomised so that many clients do not retry at once."""
        doubled = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (tries - 1))
        spread = doubled * chance.uniform(0.5, 1.0)
        return spread if told_s is None else told_s + 0.1 * spread
