"""How a run searches and what it may spend."""

from __future__ import annotations

import dataclasses
import enum

from triton_agent.memory.observation import BudgetLeft, Rules


class StopReason(enum.StrEnum):
    """Why a run ended."""

    TURNS = "turns"
    TIME = "time"
    TOKENS = "tokens"
    COST = "cost"
    NEAR_FLOOR = "near_floor"
    """The best is so close to what the hardware allows that the rest is not worth the search."""
    NO_PROGRESS = "no_progress"
    """Too many turns in a row without a better kernel."""
    POLICY_DONE = "policy_done"
    """No policy has anything more to say."""
    INTERRUPTED = "interrupted"
    INSTRUMENT = "instrument"
    """Turn after turn, nothing could be measured."""
    POLICY_FAILED = "policy_failed"
    """No policy could be asked any more: a server is down, refuses the key, or knows no such model."""


GO_ON = frozenset({StopReason.INTERRUPTED, StopReason.INSTRUMENT, StopReason.POLICY_FAILED})
"""Ends that a run which is taken up again goes on from; after any other it has said all it had to say."""

MEANS = {
    StopReason.TURNS: "all turns were used",
    StopReason.TIME: "the time was used up",
    StopReason.TOKENS: "the tokens were used up",
    StopReason.COST: "the money was used up",
    StopReason.NEAR_FLOOR: "the best kernel is near the floor",
    StopReason.NO_PROGRESS: "no progress for several turns",
    StopReason.POLICY_DONE: "the policy has nothing more to propose",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.INSTRUMENT: "nothing could be measured",
    StopReason.POLICY_FAILED: "no policy could be asked any more",
}


class Search(enum.StrEnum):
    """How parents are chosen."""

    BEAM = "beam"
    """Incumbents, repairs and fresh starts; see `search.py`."""
    CHAIN = "chain"
    """Each answer sets out from the one before it, as in a trainer's episodes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Given with the command, stored with the run."""

    rules: Rules
    turns: int = 12
    parallel: int = 4
    """Answers asked for in a turn, and evaluations at once."""
    seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    search: Search = Search.BEAM
    beam: int = 3
    """Incumbents that answers set out from."""
    explore: float = 0.25
    """The share of answers that do not set out from the best."""
    near_floor: float = 0.97
    """Stop once the floor over the best is at least this."""
    patience: int = 6
    """Turns without a better kernel, once there is one to ship."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("turns", "parallel", "beam", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has used so far."""

    turns: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost: float = 0.0


def left(settings: LoopSettings, spent: Spent) -> BudgetLeft:
    """What a turn may still use."""
    return BudgetLeft(
        turns=settings.turns - spent.turns,
        seconds=None if settings.seconds is None else max(0.0, settings.seconds - spent.seconds),
        tokens=None if settings.max_tokens is None else max(0, settings.max_tokens - spent.tokens),
        cost=None if settings.max_cost is None else max(0.0, settings.max_cost - spent.cost),
    )


def exhausted(budget: BudgetLeft) -> StopReason | None:
    """What of the budget is used up; None while all of it has something left."""
    limits = (
        (StopReason.TURNS, budget.turns),
        (StopReason.TIME, budget.seconds),
        (StopReason.TOKENS, budget.tokens),
        (StopReason.COST, budget.cost),
    )
    return next((reason for reason, value in limits if value is not None and value <= 0), None)
