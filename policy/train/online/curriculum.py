"""Chooses the problems of an update by how likely their groups are to teach something, from measured pass rates.

A group whose answers all pass or all fail has nothing to compare. With a pass rate p, K answers differ with probability
1 - p^K - (1-p)^K. Problems are drawn in proportion to it, and every problem keeps a small chance because the policy
changes. Later answers count more: earlier counts are halved at each measurement. Pure functions, so a resumed training
draws the same problems.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

LEAST_CHANCE = 0.05
"""Weight of a problem that always passes or always fails; a problem that is certain to teach has weight 1."""
FORGETTING = 0.5
"""Factor of a problem's earlier counts at each new measurement."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """Weighted counts of one problem's answers."""

    passed: float = 0.0
    measured: float = 0.0

    def after(self, passed: int, measured: int) -> PassRate:
        """Return the counts after an update with these answers; unchanged if nothing could be measured."""
        if not measured:
            return self
        return PassRate(passed=FORGETTING * self.passed + passed, measured=FORGETTING * self.measured + measured)

    def teaches(self, answers: int) -> float:
        """Return the probability that `answers` answers do not all pass or all fail, at least `LEAST_CHANCE`.

        One passed and one failed answer are added to the counts, so that an unknown problem is most likely to be drawn.
        """
        rate = (self.passed + 1.0) / (self.measured + 2.0)
        return max(1.0 - rate**answers - (1.0 - rate) ** answers, LEAST_CHANCE)


def choose(
    problems: Sequence[str], rates: Mapping[str, PassRate], *, count: int, answers: int, seed: int, update: int
) -> list[str]:
    """Draw `count` different problems, or take all if there are no more; keep the order of `problems`."""
    if count >= len(problems):
        return list(problems)
    source = random.Random(f"{seed}/{update}")
    weights = {name: rates.get(name, PassRate()).teaches(answers) for name in problems}
    keys = {name: source.random() ** (1.0 / weights[name]) for name in problems}
    drawn = set(sorted(problems, key=lambda name: -keys[name])[:count])
    return [name for name in problems if name in drawn]
