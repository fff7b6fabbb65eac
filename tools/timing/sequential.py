"""A comparison that stops as soon as it knows: most candidates are clearly slower or clearly faster within ten pairs.

Method: exact sign tests (see `intervals.py`) at a few pair counts fixed in advance, Bonferroni-corrected: with `k`
looks each one may err with probability `(1 - confidence) / k`, so all together err at most `1 - confidence`, for wins
and for losses each, whatever the noise. Between looks the tally is not consulted. A correction that spends less would
win a pair or two and need tables; this one can be checked by hand.

Not covered: the size of the speed-up. Stopping early picks lucky moments, so the ratio of the pairs seen here
flatters; what is reported or shipped comes from a fresh measurement of fixed length.
"""

from __future__ import annotations

import enum

from triton_agent.tools.estimates import chance_of_wins
from triton_agent.tools.timing.intervals import MARGIN, positive

LOOKS = (10, 14, 20, 28, 40)
"""Pair counts at which to decide. Ten pairs, all of one sign, are the fewest that five looks at 99% can accept."""


class Outcome(enum.StrEnum):
    """Where a comparison stands."""

    PENDING = "pending"
    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"


class SequentialComparison:
    """Takes pairs one by one; `outcome` stays `PENDING` until the evidence is in or the pairs run out."""

    def __init__(
        self,
        *,
        faster_above: float = 1 + MARGIN,
        slower_below: float = 1.0,
        confidence: float = 0.99,
        looks: tuple[int, ...] = LOOKS,
    ) -> None:
        """`FASTER` means a speed-up above `faster_above`, `SLOWER` one below `slower_below`.

        To stop early on everything that is not a win, pass the same number for both.
        """
        if slower_below > faster_above:
            raise ValueError(f"a speed-up between {faster_above} and {slower_below} would be faster and slower at once")
        if not looks or list(looks) != sorted(set(looks)) or looks[0] < 1:
            raise ValueError(f"looks are rising pair counts, not {looks}")
        self.faster_above = faster_above
        self.slower_below = slower_below
        self.looks = looks
        self.outcome = Outcome.PENDING
        self.baseline_ms: list[float] = []
        self.candidate_ms: list[float] = []
        self._allowed_per_look = (1 - confidence) / len(looks)
        self._wins = 0
        self._losses = 0

    @property
    def pairs(self) -> int:
        """How many pairs were added."""
        return len(self.baseline_ms)

    @property
    def method(self) -> str:
        """How the outcome was reached, for a record."""
        looks = ", ".join(str(look) for look in self.looks)
        return f"sign test at {looks} pairs, {self._allowed_per_look:.2%} of error each (Bonferroni)"

    def add(self, baseline_ms: float, candidate_ms: float) -> Outcome:
        """Counts one pair and says where the comparison stands."""
        if self.outcome is not Outcome.PENDING:
            raise ValueError(f"the comparison is over: {self.outcome}")
        positive([baseline_ms, candidate_ms])
        self.baseline_ms.append(baseline_ms)
        self.candidate_ms.append(candidate_ms)
        # Strict on both sides, so that a tie speaks for nobody.
        self._wins += baseline_ms > candidate_ms * self.faster_above
        self._losses += baseline_ms < candidate_ms * self.slower_below
        if self.pairs in self.looks:
            self.outcome = self._look()
        return self.outcome

    def _look(self) -> Outcome:
        if chance_of_wins(self._wins, self.pairs) <= self._allowed_per_look:
            return Outcome.FASTER
        if chance_of_wins(self._losses, self.pairs) <= self._allowed_per_look:
            return Outcome.SLOWER
        return Outcome.UNDECIDED if self.pairs == self.looks[-1] else Outcome.PENDING
