"""How long a server is waited for, how often it is asked again, and how much it may send.

Not covered: which failures deserve another try; see `refusals.py`.
"""

from __future__ import annotations

import dataclasses
import random


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time limits of one question, its tries taken together where nothing else is said."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    """Of each try. A busy server queues, reading a long prompt on a CPU takes minutes, and some think unheard."""
    between_bytes_s: float = 60.0
    """A server that has begun to answer says something at least this often."""
    total_s: float = 1800.0
    """From the first try to the last byte: 8192 tokens at five a second."""
    tries: int = 6
    retry_within_s: float = 300.0
    """No try begins later than this after the first."""
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    """Unless the server itself names a time."""
    answer_bytes: int = 1 << 20
    """Of text; what is longer is cut off there. Forty times the longest kernel file known here."""
    wire_bytes: int = 64 << 20
    """Of everything that is sent: log-probabilities take some hundred bytes a token."""

    def wait_s(self, tries: int, told_s: float | None, chance: random.Random) -> float:
        """Before asking again after so many tries: doubling, and spread, so that many askers do not come at once."""
        doubled = min(self.longest_wait_s, self.first_wait_s * 2.0 ** (tries - 1))
        spread = doubled * chance.uniform(0.5, 1.0)
        return spread if told_s is None else told_s + 0.1 * spread
