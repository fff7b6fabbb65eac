"""What recurrent cells compute from the sums at their gates.

The rules build it of values of the graph for one step, the planner of nodes of a kernel for all steps. Both pass a
function that makes a pointwise operation of their kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

Operand = TypeVar("Operand")


class Point(Protocol[Operand]):
    """Makes the result of a pointwise function."""

    def __call__(self, function: str, *operands: Operand, hint: str = "") -> Operand: ...


def gru_state(fresh: Sequence[Operand], kept: Sequence[Operand], state: Operand, point: Point[Operand]) -> Operand:
    """Return the next state; `fresh` comes from the inputs and `kept` from the state, each for three gates."""
    reset, update = (
        point("sigmoid", point("add", fresh[i], kept[i]), hint=hint) for i, hint in enumerate(("reset", "update"))
    )
    proposed = point("tanh", point("add", fresh[2], point("mul", reset, kept[2])), hint="proposed")
    return point("add", proposed, point("mul", update, point("sub", state, proposed)), hint="state")


def lstm_state(gates: Sequence[Operand], cell: Operand, point: Point[Operand]) -> tuple[Operand, Operand]:
    """Return the next state and the next cell, from the sums at the four gates."""
    entry, forget, proposed, leaving = (
        point("tanh" if hint == "proposed" else "sigmoid", gate, hint=hint)
        for gate, hint in zip(gates, ("entry", "forget", "proposed", "leaving"))
    )
    kept = point("mul", forget, cell, hint="kept")
    cell = point("add", kept, point("mul", entry, proposed), hint="cell")
    return point("mul", leaving, point("tanh", cell), hint="state"), cell
