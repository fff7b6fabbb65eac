"""Limits for one server: waiting times, tries, sizes.

Not covered: which failures are worth another try; see `refusals.py`.
"""

from __future__ import annotations

import dataclasses
import random


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limits for one question, over all its tries unless a field says otherwise."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    """Per try. A busy server queues, a long prompt takes minutes on a CPU, and some models think before they stream."""
    between_bytes_s: float = 60.0
    """Longest pause within an answer."""
    total_s: float = 1800.0
    """From the first try to the last byte: enough for 8192 tokens at five per second."""
    tries: int = 6
    retry_within_s: float = 300.0
    """No try begins later than this after the first one."""
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    """Longest wait, unless the server itself names a time."""
    answer_bytes: int = 1 << 20
    """Longest text; the rest is cut off. Forty times the longest kernel file known so far."""
    wire_bytes: int = 64 << 20
    """Most bytes received in all; log-probabilities take a few hundred bytes per token."""

    def wait_s(self, tries: int, told_s: float | None, chance: random.Random) -> float:
        """Return the wait before the next try: doubled each time, and random so that many clients do not retry at
        once.
        """
        doubled = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (tries - 1))
        spread = doubled * chance.uniform(0.5, 1.0)
        return spread if told_s is None else told_s + 0.1 * spread
