"""Lets one program compute several neighbouring lines of a window's results, so that it loads what they share once.

A sum over a window of seven lines reads seven lines for one line of results, and ten for four. The loop over the
window's lines becomes longer, and each of its steps adds to those results whose window holds the line. What depends on
the line that is read is computed once per step; weights and results exist once for each line of results.

Covered are windows whose lines are one element apart (a stride and a dilation of one). Other kernels keep one line.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.ir.sizes import constant, is_constant, minus, plus, times
from triton_agent.policy.author.plan.indexing import Axis, Index, Piece, index_renumbered, of, shifted
from triton_agent.policy.author.plan.kernel_graph import Guard, Node, renumbered
from triton_agent.policy.author.plan.kernel_plan import Kernel

SHORTEST = 3
"""Fewest lines of a window that share enough."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A kernel that computes several lines."""

    kernel: Kernel
    count: int
    line: Axis
    """The axis of the lines. A program begins at every `count`-th line."""
    taps: Axis
    """The window's axis that moves from line to line."""
    of_reduction: dict[int, int]
    """Maps each reduction to the number of its line, from zero."""


def window_of_lines(kernel: Kernel) -> tuple[Axis, Axis] | None:
    """Return an axis of the results and the axis of the window that moves along it; None if there is none."""
    scans = any(node.kind == "scan" for node in kernel.nodes)
    if not kernel.reduced or kernel.kind != "rows" or kernel.part is not None or scans:
        return None
    taps = kernel.reduced[0]
    if not is_constant(taps.size) or taps.size[0] < SHORTEST:
        return None
    lines = (axis for axis in kernel.kept[:-1] if not is_constant(axis.size, 1) and _shares(kernel, axis, taps))
    return next(((line, taps) for line in lines), None)


def with_lines(kernel: Kernel, line: Axis, taps: Axis, count: int) -> Lines:
    """Return the kernel for several lines."""
    return _Copier(kernel, line, taps, count).lines()


def tap_of(taps: Axis, number: int, count: int) -> Guard:
    """Return the condition that a step along the window is a tap of this line."""
    index = shifted(of(taps), constant(-number, len(taps.size)))
    return Guard(index, taps.size, below=number > 0, above=number < count - 1)


def _shares(kernel: Kernel, line: Axis, taps: Axis) -> bool:
    """Return True if every index depends on the line and the tap by their sum, or on at most one of them."""
    live, found = kernel.live(), False
    for i in live:
        node = kernel.nodes[i]
        if any(
            isinstance(base, Piece) and base.index.axes() & {line, taps}
            for index in node.indices()
            for base, _ in index.terms
        ):
            return False
        if node.function.startswith("arg") or any(index.lookups() for index in node.indices()):
            return False
        moves = [_moves(index, line, taps) for index in node.indices()]
        if None in moves or (len(set(moves)) > 1 and "both" in moves and {"line", "tap"} & set(moves)):
            return False
        found |= node.kind == "load" and "both" in moves
    return found and all(_moves(root.index, line, taps) == "line" for root in kernel.roots)


def _moves(index: Index, line: Axis, taps: Axis) -> str | None:
    """Return what an index depends on: `line`, `tap`, `both` by their sum, "" neither; None if it is more than that."""
    by_line, by_tap = index.coefficient(line), index.coefficient(taps)
    if is_constant(by_tap, 0):
        return "" if is_constant(by_line, 0) else "line"
    if is_constant(by_line, 0):
        return "tap"
    return "both" if by_line == by_tap else None


class _Copier:
    """Writes the nodes of all lines: shared ones once, others once for each line."""

    def __init__(self, kernel: Kernel, line: Axis, taps: Axis, count: int) -> None:
        self.kernel, self.line, self.taps, self.count = kernel, line, taps, count
        self.nodes: list[Node] = []
        self.known: dict[Node, int] = {}

    def lines(self) -> Lines:
        made = [self._line(number) for number in range(self.count)]
        live = sorted(self.kernel.live())
        reductions = {
            made[number][i]: number
            for number in range(self.count)
            for i in live
            if self.kernel.nodes[i].kind == "reduce"
        }
        roots = tuple(
            dataclasses.replace(
                root,
                node=made[number][root.node],
                index=self._at(index_renumbered(root.index, made[number]), number),
                guards=self._inside(number),
            )
            for number in range(self.count)
            for root in self.kernel.roots
        )
        kernel = dataclasses.replace(self.kernel, nodes=tuple(self.nodes), roots=roots)
        return Lines(kernel=kernel, count=self.count, line=self.line, taps=self.taps, of_reduction=reductions)

    def _line(self, number: int) -> dict[int, int]:
        places: dict[int, int] = {}
        own: set[int] = set()
        for i in sorted(self.kernel.live()):
            node = self.kernel.nodes[i]
            moves = {_moves(index, self.line, self.taps) for index in node.indices()}
            shown = renumbered(node, places)
            if "both" in moves:
                shown = self._within_image(shown) if node.kind == "load" else shown
            elif moves - {""}:
                shown = self._of_line(shown, number)
            if node.kind == "reduce":
                places[i] = len(self.nodes)
                self.nodes.append(shown)  # equal reductions of two lines stay apart
                own.add(i)
                continue
            if shown not in self.known:
                self.known[shown] = len(self.nodes)
                self.nodes.append(shown)
            places[i] = self.known[shown]
        return places

    def _of_line(self, node: Node, number: int) -> Node:
        """Return a node that depends on the line or on the tap, for one line."""
        index = None if node.index is None else self._at(node.index, number)
        guards = [Guard(self._at(g.index, number), g.size, g.below, g.above) for g in node.guards]
        if node.kind == "load" and node.index is not None:
            by_tap = not is_constant(node.index.coefficient(self.taps), 0)
            guards += [tap_of(self.taps, number, self.count)] if by_tap else self._inside(number)
        return dataclasses.replace(node, index=index, guards=tuple(guards))

    def _at(self, index: Index, number: int) -> Index:
        """Return the index for one line. It depends on the line or on the tap, not on both."""
        width, by = index.width, constant(number, index.width)
        if is_constant(index.coefficient(self.taps), 0):
            return shifted(index, times(index.coefficient(self.line), by))
        return shifted(index, minus(constant(0, width), times(index.coefficient(self.taps), by)))

    def _inside(self, number: int) -> tuple[Guard, ...]:
        if not number:
            return ()
        index = shifted(of(self.line), constant(number, len(self.line.size)))
        return (Guard(index, self.line.size, below=False, above=True),)

    def _within_image(self, load: Node) -> Node:
        """Return the load with a guard, so that lines after the last one do not read beyond the image."""
        if any(_moves(guard.index, self.line, self.taps) == "both" and guard.above for guard in load.guards):
            return load
        width = len(self.line.size)
        index = Index(tuple((axis, constant(1, width)) for axis in (self.line, self.taps)), constant(0, width))
        size = minus(plus(self.line.size, self.taps.size), constant(1, width))
        return dataclasses.replace(load, guards=(*load.guards, Guard(index, size, below=False, above=True)))
