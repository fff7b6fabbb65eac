"""Computes a second sum over a long row in the pass of the first reduction: for a variance and for a softmax.

By definition, a variance needs the mean first and a softmax the maximum first, which takes two passes over a row.
Instead, each lane keeps its own mean (or maximum) and the sum that belongs to it, and the lanes are combined at the
end. The mean of a lane moves by a fraction of the difference, which avoids the cancellation of two large sums.

Not covered: rows split into parts, whose partial sums are in memory; rows held in registers, where a second pass is
free.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.sizes import Size
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """A sum that is computed in the pass of another reduction."""

    kind: str
    """`squares` or `powers`."""
    base: int
    """Node of the reduction whose pass is shared: the sum or the maximum."""
    source: int
    """Node that both reductions run over."""
    centre: int
    """Node that is subtracted from the source: the mean, or the maximum."""


def find_folds(kernel: Kernel, columns: Size) -> dict[int, Fold]:
    """Map the node of each sum that needs no pass of its own to its fold."""
    live = kernel.live()
    found: dict[int, Fold] = {}
    for i in sorted(live):
        if kernel.nodes[i].kind == "reduce" and kernel.nodes[i].function == "sum":
            fold = _fold(kernel, i, columns)
            if fold is not None:
                found[i] = fold
    return found


def _fold(kernel: Kernel, node: int, columns: Size) -> Fold | None:
    nodes = kernel.nodes
    outer = _point(kernel, nodes[node].arguments[0], "square", "exp")
    inner = None if outer is None else _point(kernel, outer.arguments[0], "sub")
    if outer is None or inner is None:
        return None
    source, centre = inner.arguments
    if not isinstance(source, int) or not isinstance(centre, int) or nodes[source].dtype != "float32":
        return None
    bases = _reductions(kernel, centre)
    if len(bases) != 1 or bases <= _reductions(kernel, source):
        return None
    (base,) = bases
    if nodes[base].arguments[0] != source:
        return None
    if outer.function == "exp":
        return Fold("powers", base, source, centre) if nodes[base].function == "max" else None
    mean = _point(kernel, centre, "div")
    is_mean = (
        nodes[base].function == "sum"
        and mean is not None
        and mean.arguments[0] == base
        and isinstance(mean.arguments[1], Number)
        and tuple(mean.arguments[1].values) == tuple(columns)
    )
    return Fold("squares", base, source, centre) if is_mean else None


def _point(kernel: Kernel, node: object, *functions: str) -> Node | None:
    if not isinstance(node, int):
        return None
    found = kernel.nodes[node]
    return found if found.kind == "point" and found.function in functions else None


def _reductions(kernel: Kernel, node: int) -> set[int]:
    """Return the nearest reductions behind a node."""
    found, waiting, seen = set[int](), [node], set[int]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        if kernel.nodes[current].kind == "reduce":
            found.add(current)
        else:
            waiting.extend(kernel.nodes[current].inputs)
    return found
