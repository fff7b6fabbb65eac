"""Chooses the parents of the next answers: a beam of incumbents, repairs of failures, fresh starts.

Pure functions of history and seed, so a resumed run searches as the uninterrupted run would have. Elitist: the best is
replaced only by an attempt that is better with confidence (`tools/ranking.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from triton_agent.agent.settings import LoopSettings, Search
from triton_agent.policy.episode import Graded, predecessor
from triton_agent.tools.candidate.identity import structure_of
from triton_agent.tools.ranking import best_of
from triton_agent.tools.results import Status

REPAIRS = 2
"""Consecutive repairs of a failure before it is given up."""
HOPELESS = frozenset({Status.CHEATED, Status.NO_ANSWER})
"""Statuses that leave nothing to repair."""


def beam(history: Sequence[Graded], width: int) -> list[Graded]:
    """Return the best attempt, then other passing attempts of different structures."""
    best = best_of(history)
    ranked = sorted((item for item in history if item.standing.passed), key=lambda item: item.standing, reverse=True)
    chosen: list[Graded] = []
    known: set[str] = set()
    for item in [*([best] if best else []), *ranked]:
        structure = structure_of(item.attempt.source or "")
        if structure not in known and len(chosen) < width:
            known.add(structure)
            chosen.append(item)
    return chosen


def choose_parents(history: Sequence[Graded], settings: LoopSettings, *, turn: int, n: int) -> list[str | None]:
    """Choose the parent of each of the turn's answers; None means a fresh start."""
    if settings.search is Search.CHAIN:
        return [predecessor(history, turn=turn, index=index) for index in range(n)]
    chance = random.Random(f"{settings.seed}/{turn}")
    incumbents = [item.attempt.key for item in beam(history, settings.beam)]
    repairs = repairs_of(history)
    return [_choose(slot, incumbents, repairs, settings.explore, chance) for slot in range(n)]


def _choose(slot: int, incumbents: list[str], repairs: list[str], explore: float, chance: random.Random) -> str | None:
    """Choose one parent. Slot 0 gets the best attempt, or the latest failure while nothing passed. Other slots cycle
    through incumbents or repairs. Exploring slots choose at random.
    """
    exploring = chance.random() < explore
    if not incumbents:
        return repairs[slot % len(repairs)] if repairs and (slot == 0 or not exploring) else None
    if slot == 0 and not exploring:
        return incumbents[0]
    others: list[str | None] = [*incumbents[1:], *repairs, None]
    return chance.choice(others) if exploring else incumbents[slot % len(incumbents)]


def repairs_of(history: Sequence[Graded]) -> list[str]:
    """Return the keys of the latest turn's failures that are worth a repair: those without too many failed
    ancestors.
    """
    if not history:
        return []
    latest = max(item.attempt.turn for item in history)
    by_key = {item.attempt.key: item for item in history}
    found = []
    for item in reversed(history):
        failed = item.evaluation is not None and not item.standing.passed and item.evaluation.status not in HOPELESS
        if item.attempt.turn == latest and failed and _failures_in_line(item, by_key) <= REPAIRS:
            found.append(item.attempt.key)
    return found


def _failures_in_line(item: Graded, by_key: dict[str, Graded]) -> int:
    count = 0
    current: Graded | None = item
    while current is not None and not current.standing.passed:
        count += 1
        current = by_key.get(current.attempt.parent or "")
    return count
