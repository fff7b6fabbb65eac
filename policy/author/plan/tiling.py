"""Turns a kernel's axes into the one or two dimensions of its tiles.

Neighbouring axes that all indices traverse in step are merged (`collapsed`): a pointwise kernel over contiguous tensors
has one axis in the end, a softmax two. The remaining axes are assigned to tile dimensions. A dimension with several
axes computes its positions along them by division.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from triton_agent.policy.author.ir.sizes import Size, constant, product, times
from triton_agent.policy.author.plan.indexing import Axis, Base, Index, Piece
from triton_agent.policy.author.plan.kernel_graph import Guard, Node
from triton_agent.policy.author.plan.kernel_plan import Kernel

SMALLEST = 16
"""Smallest tile size that the matrix unit takes."""
_GROUPS = ("kept", "reduced", "batch", "rows", "columns", "side")


def collapsed(kernel: Kernel) -> Kernel:
    """Return the kernel with as few axes as possible."""
    groups: tuple[str, ...] = ("kept", "reduced")
    if kernel.multiplies:
        groups = ("kept",) if kernel.kind == "chain" else ("batch", "rows", "columns", "reduced", "side")
    changed = True
    while changed:
        changed = False
        for group in groups:
            axes: tuple[Axis, ...] = getattr(kernel, group)
            for outer, inner in itertools.pairwise(axes):
                if all(_in_step(part, outer, inner) for index in _indices(kernel) for part in index.parts()):
                    kernel = _joined(kernel, outer, inner)
                    changed = True
                    break
    return kernel


def _indices(kernel: Kernel) -> list[Index]:
    live = kernel.live()
    found = [index for i, node in enumerate(kernel.nodes) if i in live for index in node.indices()]
    return found + [root.index for root in kernel.roots]


def _in_step(index: Index, outer: Axis, inner: Axis) -> bool:
    return index.coefficient(outer) == times(index.coefficient(inner), inner.size)


def _joined(kernel: Kernel, outer: Axis, inner: Axis) -> Kernel:
    both = Axis(f"{outer.name}+{inner.name}", times(outer.size, inner.size))
    changes: dict[Axis, Axis | None] = {outer: None, inner: both}
    nodes = tuple(_node_with(node, changes) for node in kernel.nodes)
    roots = tuple(dataclasses.replace(root, index=_index_with(root.index, changes)) for root in kernel.roots)
    groups: dict[str, Any] = {
        group: tuple(changes.get(axis, axis) for axis in getattr(kernel, group) if axis != outer) for group in _GROUPS
    }
    return dataclasses.replace(kernel, nodes=nodes, roots=roots, **groups)


def _node_with(node: Node, changes: dict[Axis, Axis | None]) -> Node:
    index = None if node.index is None else _index_with(node.index, changes)
    guards = tuple(Guard(_index_with(g.index, changes), g.size, g.below, g.above) for g in node.guards)
    return dataclasses.replace(node, index=index, guards=guards)


def _index_with(index: Index, changes: dict[Axis, Axis | None]) -> Index:
    terms: list[tuple[Base, Size]] = []
    for base, coefficient in index.terms:
        if isinstance(base, Axis) and base in changes:
            joined = changes[base]
            if joined is not None:
                terms.append((joined, coefficient))
        elif isinstance(base, Piece):
            terms.append((Piece(_index_with(base.index, changes), base.divisor, base.modulus, base.size), coefficient))
        else:
            terms.append((base, coefficient))
    return Index(tuple(terms), index.offset)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of a tile, or one along which each program has a single position."""

    name: str
    """`row`, `column`: the variable with the positions along it."""
    plural: str
    """`rows`: the argument with its size."""
    axes: tuple[Axis, ...]

    def size(self, width: int) -> Size:
        return product((axis.size for axis in self.axes), width)

    def stride(self, axis: Axis) -> Size:
        """Return the distance between neighbours along the axis, in positions of this dimension."""
        at = self.axes.index(axis)
        return product((inner.size for inner in self.axes[at + 1 :]), len(axis.size))


def depends_on(kernel: Kernel) -> list[frozenset[Axis]]:
    """Return the axes along which each node varies."""
    found: list[frozenset[Axis]] = []
    reduced = {kind: frozenset({*kernel.reduced, *kernel.side}) for kind in ("reduce", "dot")}
    # the product of the scores is summed over the side axes, attention itself over the keys
    if kernel.kind == "attention":
        reduced = {"dot": frozenset(kernel.side), "attention": frozenset(kernel.reduced)}
    for node in kernel.nodes:
        if kernel.kind == "chain" and node.kind in ("reduce", "dot"):
            rows = found[node.inputs[0]] & set(kernel.kept)
            found.append(rows | (found[node.inputs[1]] - set(kernel.side)) if node.kind == "dot" else rows)
            continue
        own: set[Axis] = set()
        for index in node.indices():
            own |= index.axes()
        for argument in node.inputs:
            own |= found[argument]
        own -= reduced.get(node.kind, frozenset())
        own |= {*kernel.kept, *kernel.reduced} if node.kind == "carry" else set()
        own |= set(kernel.batch) if node.kind == "state" else set()  # an LSTM's cell has one place for all steps
        found.append(frozenset(own))
    return found


def fastest(indices: Sequence[Index], axes: Sequence[Axis]) -> Axis | None:
    """Return the axis along which most of the loaded elements are contiguous."""
    width = max((index.width for index in indices), default=1)
    return _most_contiguous(
        [(index, product((axis.size for axis in index.axes()), width)[0]) for index in indices], axes
    )


def _most_contiguous(read: Sequence[tuple[Index, int]], axes: Sequence[Axis]) -> Axis | None:
    """Return the axis with the most contiguous elements, counting each index with its number of elements."""
    votes: dict[Axis, int] = {}
    for index, elements in read:
        for axis in axes:
            if index.coefficient(axis) == constant(1, index.width):
                votes[axis] = votes.get(axis, 0) + elements
    return max(votes, key=lambda axis: (votes[axis], axis.size[0])) if votes else None


def along_reduced(kernel: Kernel) -> list[tuple[Node, int]]:
    """Return loads that vary along a row, also through a looked-up index, each with its number of elements."""
    live, reduced, varies = kernel.live(), set(kernel.reduced), depends_on(kernel)
    found = []
    for i, node in enumerate(kernel.nodes):
        if i in live and node.kind == "load" and varies[i] & reduced:
            found.append((node, math.prod(axis.size[0] for axis in varies[i])))
    return found


def goes_through_steps(kernel: Kernel) -> bool:
    """Return True if the kernel computes the steps of a loop, or a part of them."""
    return any(kernel.nodes[i].kind == "carry" for i in kernel.live())


ROWS_ACROSS = 64
"""Rows per program where rows are adjacent in memory."""


def is_across(kernel: Kernel) -> bool:
    """Return True if rows, not the elements of a row, are adjacent in memory."""
    read = [(node.index, elements) for node, elements in along_reduced(kernel) if node.index is not None]
    return _most_contiguous(read, (*kernel.kept, *kernel.reduced)) in kernel.kept


def read_once(kernel: Kernel, elements: Callable[[str], int]) -> list[int]:
    """Return loads of which each element is read once in total. `elements` returns the size of a tensor."""
    live, varies = kernel.live(), depends_on(kernel)
    every = {*kernel.kept, *kernel.reduced}
    asked: dict[str, int] = {}
    for i in live:
        node = kernel.nodes[i]
        if node.kind == "load" and node.index is not None:
            whole = varies[i] == every and not node.index.lookups()
            count = math.prod(axis.size[0] for axis in varies[i]) if whole else elements(node.tensor) + 1
            asked[node.tensor] = asked.get(node.tensor, 0) + count
    return [
        i for i in sorted(live) if kernel.nodes[i].kind == "load" and _fits(asked, kernel.nodes[i].tensor, elements)
    ]


def _fits(asked: dict[str, int], tensor: str, elements: Callable[[str], int]) -> bool:
    return asked[tensor] <= elements(tensor)
