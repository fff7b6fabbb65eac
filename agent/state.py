"""What the graph carries from node to node: plain data, small. Texts, verdicts and history are in the store."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict


class LoopState(TypedDict):
    """A run between two nodes."""

    run: str
    turn: int
    """The turn under way, from 0."""
    due: list[str]
    """Keys of the turn's attempts that are not graded yet."""
    graded: Annotated[list[str], operator.add]
    """Keys, in the order their gradings came in."""
    seconds: float
    """Used so far, over all the times the run was taken up."""
    stop: str
    """A StopReason; empty while the run goes on."""


class Assignment(TypedDict):
    """What one parallel `evaluate` is given."""

    keys: list[str]


def initial_state(run: str) -> LoopState:
    return {"run": run, "turn": 0, "due": [], "graded": [], "seconds": 0.0, "stop": ""}


Event = dict[str, Any]
"""What nodes stream to whoever watches: plain data with a `kind`."""

LEFT_OUT = "left out"
"""Kind of the event that tells of a judge who is not asked any more."""
