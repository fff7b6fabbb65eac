"""The graph's state: small plain data that nodes hand on. Texts, verdicts and history are in the store."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict


class LoopState(TypedDict):
    """The state of a run between two nodes."""

    run: str
    turn: int
    """Number of the turn under way, from 0."""
    due: list[str]
    """Keys of the turn's attempts that are not graded yet."""
    graded: Annotated[list[str], operator.add]
    """Keys of graded attempts, in the order in which they were graded."""
    seconds: float
    """Seconds used so far, including those before a resume."""
    stop: str
    """A StopReason; empty while the run continues."""


class Assignment(TypedDict):
    """Input of one parallel `evaluate` node."""

    keys: list[str]


def initial_state(run: str) -> LoopState:
    return {"run": run, "turn": 0, "due": [], "graded": [], "seconds": 0.0, "stop": ""}


Event = dict[str, Any]
"""Plain data with a `kind`, streamed by nodes for display."""

LEFT_OUT = "left out"
"""Kind of the event for a judge that is no longer used."""
