"""Divides a turn's answers among several policies by measured improvement per cost.

Every policy sees the best attempts of all policies. A policy with few answers counts as average; a policy without
success keeps a small share, since it may become useful later.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from triton_agent.policy.episode import Graded

PRIOR_GAIN = 0.05
"""Gain, in log speed-up, that is assumed of an untried policy and credited for a first kernel that passes."""
LEAST_SHARE = 0.1
MEMORY = 0.8
"""Factor by which the weight of a result shrinks each turn: a policy that was good at first may not be good now."""


def shares(history: Sequence[Graded], policies: Sequence[str]) -> dict[str, float]:
    """Return the share of answers for each policy; shares add up to one."""
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
    """Return the gain over the best so far, or over the reference while nothing is faster."""
    new, old = item.standing.speedup, best.standing.speedup if best else None
    if new is None:
        return PRIOR_GAIN
    return max(PRIOR_GAIN, math.log(new.median / max(1.0, old.median if old else 1.0)))


def assign(history: Sequence[Graded], policies: Sequence[str], *, n: int, seed: str) -> list[str]:
    """Choose a policy for each of n answers. Every policy answers once before results count."""
    if len(policies) == 1:
        return [policies[0]] * n
    known = shares(history, policies)
    heard = {item.attempt.completion.policy for item in history}
    unheard = [name for name in policies if name not in heard]
    chance = random.Random(seed)
    drawn = chance.choices(list(known), weights=list(known.values()), k=max(0, n - len(unheard)))
    return [*unheard, *drawn][:n]
