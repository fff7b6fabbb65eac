"""Settings and budget of a run."""

from __future__ import annotations

import dataclasses
import enum

from triton_agent.memory.observation import BudgetLeft, Rules


class StopReason(enum.StrEnum):
    TURNS = "turns"
    TIME = "time"
    TOKENS = "tokens"
    COST = "cost"
    NEAR_FLOOR = "near_floor"
    """The best kernel is so close to the floor that further search is not worth it."""
    NO_PROGRESS = "no_progress"
    """Too many turns in a row brought no better kernel."""
    POLICY_DONE = "policy_done"
    """No policy has more to propose."""
    INTERRUPTED = "interrupted"
    INSTRUMENT = "instrument"
    """Nothing could be measured for several turns."""
    POLICY_FAILED = "policy_failed"
    """No policy can be asked: a server is down, rejects the key, or does not know the model."""


GO_ON = frozenset({StopReason.INTERRUPTED, StopReason.INSTRUMENT, StopReason.POLICY_FAILED})
"""Stop reasons after which `--resume` continues the run. A run with any other stop reason is finished."""

MEANS = {
    StopReason.TURNS: "all turns were used",
    StopReason.TIME: "the time was used up",
    StopReason.TOKENS: "the tokens were used up",
    StopReason.COST: "the money was used up",
    StopReason.NEAR_FLOOR: "the best kernel is near the floor",
    StopReason.NO_PROGRESS: "further turns promise no better kernel",
    StopReason.POLICY_DONE: "the policy has nothing more to propose",
    StopReason.INTERRUPTED: "interrupted",
    StopReason.INSTRUMENT: "nothing could be measured",
    StopReason.POLICY_FAILED: "no policy could be asked any more",
}


class Search(enum.StrEnum):
    BEAM = "beam"
    """Incumbents, repairs and fresh starts; see `search.py`."""
    CHAIN = "chain"
    """Each answer builds on the one before it, as in a trainer's episodes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Settings of the loop, stored with the run."""

    rules: Rules
    turns: int = 12
    parallel: int = 4
    """Answers per turn, and evaluations at once."""
    at_once: int | None = None
    """Most evaluations at once, if less than `parallel`. Verdicts that share processors may reach their time limits."""
    seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    search: Search = Search.BEAM
    beam: int = 3
    """Number of incumbents that answers may build on."""
    explore: float = 0.25
    """Share of answers that do not build on the best attempt."""
    near_floor: float = 0.97
    """Stop once the floor time divided by the best time is at least this."""
    patience: int = 3
    """Turns without a better kernel after which the run ends, counted once there is a kernel to ship. 0 ends the run in
    the turn that found it.
    """
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("turns", "parallel", "beam"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.at_once is not None and self.at_once < 1:
            raise ValueError("at_once must be at least 1")
        if self.patience < 0:
            raise ValueError("patience must be at least 0")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    turns: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost: float = 0.0


def left(settings: LoopSettings, spent: Spent) -> BudgetLeft:
    return BudgetLeft(
        turns=settings.turns - spent.turns,
        seconds=None if settings.seconds is None else max(0.0, settings.seconds - spent.seconds),
        tokens=None if settings.max_tokens is None else max(0, settings.max_tokens - spent.tokens),
        cost=None if settings.max_cost is None else max(0.0, settings.max_cost - spent.cost),
    )


def exhausted(budget: BudgetLeft) -> StopReason | None:
    """Return the first limit that is used up; None if every limit has something left."""
    limits = (
        (StopReason.TURNS, budget.turns),
        (StopReason.TIME, budget.seconds),
        (StopReason.TOKENS, budget.tokens),
        (StopReason.COST, budget.cost),
    )
    return next((reason for reason, value in limits if value is not None and value <= 0), None)
