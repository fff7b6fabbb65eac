"""Where the next answers set out from: a beam of incumbents, repairs of what nearly worked, fresh starts.

Pure functions of the history and a seed, so that a run that is resumed searches as it would have. Elitist: the best is
replaced only by what is better with confidence (`policy/ranking.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from triton_agent.agent.settings import LoopSettings, Search
from triton_agent.policy.episode import Graded, predecessor
from triton_agent.policy.ranking import Standing
from triton_agent.tools.candidate.identity import structure_of
from triton_agent.tools.results import Status

REPAIRS = 2
"""Times in a row that an answer sets out from a failure, before its line is given up."""
HOPELESS = frozenset({Status.CHEATED, Status.NO_ANSWER})
"""Nothing to repair there."""


class Ranked(Protocol):
    """Whatever has a place among others."""

    @property
    def standing(self) -> Standing:
        """Its place."""


Item = TypeVar("Item", bound=Ranked)


def best_of(history: Sequence[Item]) -> Item | None:
    """The one that stands when each has challenged the one before it."""
    best: Item | None = None
    for item in history:
        if item.standing.surpasses(best.standing if best else None):
            best = item
    return best


def beam(history: Sequence[Graded], width: int) -> list[Graded]:
    """The best first, then others that passed, each of a structure of its own."""
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
    """For each of the turn's answers the attempt it sets out from; None is a fresh start."""
    if settings.search is Search.CHAIN:
        return [predecessor(history, turn=turn, index=index) for index in range(n)]
    chance = random.Random(f"{settings.seed}/{turn}")
    incumbents = [item.attempt.key for item in beam(history, settings.beam)]
    repairs = _repairs(history)
    return [_choose(slot, incumbents, repairs, settings.explore, chance) for slot in range(n)]


def _choose(slot: int, incumbents: list[str], repairs: list[str], explore: float, chance: random.Random) -> str | None:
    """The first slot belongs to the best, or to the latest failure where nothing passed yet; others spread."""
    exploring = chance.random() < explore
    if not incumbents:
        return repairs[slot % len(repairs)] if repairs and (slot == 0 or not exploring) else None
    if slot == 0 and not exploring:
        return incumbents[0]
    others: list[str | None] = [*incumbents[1:], *repairs, None]
    return chance.choice(others) if exploring else incumbents[slot % len(incumbents)]


def _repairs(history: Sequence[Graded]) -> list[str]:
    """Failures of the latest turn that can be learned from, unless their line has failed too often."""
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
