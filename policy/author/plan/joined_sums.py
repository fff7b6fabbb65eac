"""Computes two added products in one loop: a low-rank product is added to the accumulator of another.

The low-rank path beside a linear layer is a product with a short inner dimension. Computed alone, it would read and
write as much as the layer; here it adds one step to sums that are in registers anyway.

Not covered: more than two products, and sums in which a product is changed otherwise than by a constant factor.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.plan.indexing import Axis, index_renumbered
from triton_agent.policy.author.plan.kernel_graph import renumbered

if TYPE_CHECKING:
    from triton_agent.policy.author.plan.kernel_plan import Kernel


def with_sums_joined(kernel: Kernel) -> Kernel | None:
    """Replace two products that are added up by one node with five arguments; None if they are not simply added.

    The arguments are the operands of the main product, those of the low-rank one, and the factor of the low-rank one.
    """
    nodes, live = kernel.nodes, kernel.live()
    dots = [i for i in sorted(live) if nodes[i].kind == "dot"]
    along = {axis for axis in kernel.side}

    def loads(argument: int | Number) -> set[Axis]:
        """Return the axes along which the loads behind an operand vary."""
        if not isinstance(argument, int):
            return set()
        found = set().union(*(index.axes() for index in nodes[argument].indices()))
        return found.union(*(loads(other) for other in nodes[argument].arguments))

    low_rank = [i for i in dots if loads(nodes[i].arguments[0]) & along]
    main = [i for i in dots if i not in low_rank]
    if len(main) != 1 or len(low_rank) != 1:
        return None
    users = {i: [j for j in sorted(live) if i in nodes[j].inputs] for i in live}
    stored = {root.node for root in kernel.roots}

    def only_user(node: int) -> int | None:
        return users[node][0] if len(users[node]) == 1 and node not in stored else None

    # Collect the constant factors that multiply the low-rank product on its way to the sum.
    factor, end = 1.0, low_rank[0]
    meeting = only_user(end)
    while meeting is not None and nodes[meeting].function == "mul":
        numbers = [a for a in nodes[meeting].arguments if isinstance(a, Number) and a.fixed]
        if len(numbers) != 1:
            return None
        factor, end = factor * float(numbers[0].values[0]), meeting
        meeting = only_user(end)
    # Follow the main product, which must reach the same sum through additions only.
    before = main[0]
    while (user := only_user(before)) is not None and user != meeting:
        if nodes[user].function != "add" or nodes[user].arguments.count(before) > 1:
            return None
        before = user
    if meeting is None or nodes[meeting].function != "add" or set(nodes[meeting].arguments) != {before, end}:
        return None
    return _joined(kernel, main[0], low_rank[0], factor, {meeting: before})


def _joined(kernel: Kernel, main: int, low_rank: int, factor: float, instead: dict[int, int]) -> Kernel:
    """Build the joined kernel, with each node after its arguments."""
    nodes = list(kernel.nodes)
    width = len(kernel.side[0].size)
    wide = (*nodes[main].arguments, *nodes[low_rank].arguments, Number((factor,) * width))
    nodes[main] = dataclasses.replace(nodes[main], arguments=wide)
    nodes = [
        dataclasses.replace(
            node, arguments=tuple(instead.get(a, a) if isinstance(a, int) else a for a in node.arguments)
        )
        for node in nodes
    ]
    order: list[int] = []

    def visit(node: int) -> None:
        if node not in order:
            for other in nodes[node].inputs:
                visit(other)
            order.append(node)

    roots = [dataclasses.replace(root, node=instead.get(root.node, root.node)) for root in kernel.roots]
    for root in roots:
        for node in (root.node, *root.index.lookups()):
            visit(node)
    places = {node: place for place, node in enumerate(order)}
    return dataclasses.replace(
        kernel,
        nodes=tuple(renumbered(nodes[node], places) for node in order),
        roots=tuple(
            dataclasses.replace(root, node=places[root.node], index=index_renumbered(root.index, places))
            for root in roots
        ),
    )
