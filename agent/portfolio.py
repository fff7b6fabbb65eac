"""Which policy writes which answer, where there are several: by measured improvement per cost.

Each policy sees the others' best. A policy that has not been tried enough is taken for average; one without success
keeps a small share, since a problem may turn its way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from triton_agent.policy.episode import Graded

PRIOR_GAIN = 0.05
"""In units of log speed-up: what an untried policy is taken for, and what a first kernel that passes is worth."""
LEAST_SHARE = 0.1
MEMORY = 0.8
"""What a turn's results weigh one turn later: who was good at the beginning need not be now."""


def shares(history: Sequence[Graded], policies: Sequence[str]) -> dict[str, float]:
    """The share of answers each policy should write; they add up to one."""
    gains, costs = dict.fromkeys(policies, PRIOR_GAIN), dict.fromkeys(policies, 1.0)
    latest = max((item.attempt.turn for item in history), default=0)
    best: Graded | None = None
    for item in history:
        name, weight = item.attempt.completion.policy, MEMORY ** (latest - item.attempt.turn)
        if name not in gains:
            continue
        costs[name] += weight * (1.0 + item.attempt.completion.usage.cost)
        if item.standing.surpasses(best.standing if best else None):
            gains[name] += weight * _gain(item, best)
            best = item
    worth = {name: gains[name] / costs[name] for name in policies}
    total = sum(worth.values())
    floor = LEAST_SHARE / len(policies)
    return {name: floor + (1 - LEAST_SHARE) * value / total for name, value in worth.items()}


def _gain(item: Graded, best: Graded | None) -> float:
    """Over the best so far, or the reference where nothing is faster than that yet."""
    new, old = item.standing.speedup, best.standing.speedup if best else None
    if new is None:
        return PRIOR_GAIN
    return max(PRIOR_GAIN, math.log(new.median / max(1.0, old.median if old else 1.0)))


def assign(history: Sequence[Graded], policies: Sequence[str], *, n: int, seed: str) -> list[str]:
    """A policy for each of n answers; every policy has its turn before any is judged by its results."""
    if len(policies) == 1:
        return [policies[0]] * n
    known = shares(history, policies)
    heard = {item.attempt.completion.policy for item in history}
    unheard = [name for name in policies if name not in heard]
    chance = random.Random(seed)
    drawn = chance.choices(list(known), weights=list(known.values()), k=max(0, n - len(unheard)))
    return [*unheard, *drawn][:n]
