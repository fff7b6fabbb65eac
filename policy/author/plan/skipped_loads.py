"""Loads whose values are used only where a condition holds; elsewhere they are masked off.

A `where` discards one of its operands. A softmax over a window, or below the diagonal, discards most of each row, and
such kernels are limited by memory. This module finds the conditions of each load and writes them so that elements that
are loaded by one instruction share one answer: a mask that changes within 16 bytes would split the load.

Not covered: conditions that are loaded element by element; products with zero, since zero times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_agent.policy.author.ir.program import INTEGERS, Number
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import depends_on

TOGETHER = 8
"""Neighbours that one instruction loads in half precision; wider dtypes load fewer, so the groups still suit them."""
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

Condition = tuple[int, bool]
"""A node, and the value that it must have for the load to matter."""


class SkippedLoads:
    """The conditions of one kernel's loads."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.varies = depends_on(kernel)
        self._users: dict[int, list[int]] = {}
        for i in sorted(kernel.live()):
            for argument in kernel.nodes[i].inputs:
                self._users.setdefault(argument, []).append(i)
        self._roots = {node for root in kernel.roots for node in (root.node, *root.index.lookups())}
        self._needed: dict[int, frozenset[Condition]] = {}
        # Users of a node come after it, so go backwards.
        for i in sorted(kernel.live(), reverse=True):
            ways = [self._through(i, user) for user in self._users.get(i, ())]
            self._needed[i] = frozenset.intersection(*ways) if ways and i not in self._roots else frozenset()

    def conditions(self, load: int) -> list[Condition]:
        """Return conditions that are known before the load and hold wherever a user needs its value."""
        return sorted(found for found in self._needed[load] if self._comes_first(found[0], load))

    def _through(self, node: int, user: int) -> frozenset[Condition]:
        found = self.kernel.nodes[user]
        if found.kind != "point" or node not in found.arguments:
            return frozenset()
        if found.function != "where" or found.arguments.count(node) > 1 or found.arguments[0] == node:
            return self._needed[user]
        condition = found.arguments[0]
        own = {(condition, found.arguments[1] == node)} if isinstance(condition, int) else set()
        return self._needed[user] | own

    def _comes_first(self, condition: int, load: int) -> bool:
        """Return True if a condition depends only on positions and on loads that are shared by many elements."""
        if not self.varies[condition] <= self.varies[load]:
            return False
        waiting, seen = [condition], set[int]()
        while waiting:
            current = waiting.pop()
            found = self.kernel.nodes[current]
            if found.kind not in ("load", "point", "number", "position"):
                return False
            if found.kind == "load" and not self.varies[current] < self.varies[load]:
                return False
            if current not in seen:
                seen.add(current)
                waiting.extend(found.inputs)
        return True


def beside(kernel: Kernel, load: int) -> Axis | None:
    """Return the axis along which the load is contiguous; None if there is none."""
    index = kernel.nodes[load].index
    assert index is not None
    axes = [base for base, step in index.terms if isinstance(base, Axis) and all(entry == 1 for entry in step)]
    return axes[0] if len(axes) == 1 else None


class GroupCondition:
    """A condition on positions, answered once for a group of neighbours: True if it holds for any of them."""

    def __init__(
        self,
        kernel: Kernel,
        axis: Axis,
        group: Callable[[], str],
        *,
        steady: Callable[[int], str | None],
        index: Callable[[Index], str],
        number: Callable[[Number, str], str],
    ) -> None:
        """`group` returns the name of a group's first position, `steady` the text of a node that does not vary along
        the axis.
        """
        self.kernel, self.axis = kernel, axis
        self._group, self._steady, self._index, self._number = group, steady, index, number

    def text(self, node: int, wanted: bool) -> str | None:
        """Return the condition's text; None if it cannot be decided before the load."""
        found = self.kernel.nodes[node]
        if found.kind != "point":
            return None
        if found.function == "not":
            return self.text(found.inputs[0], not wanted) if found.inputs else None
        if found.function in ("and", "or") and len(found.inputs) == 2:
            sides = [self.text(side, wanted) for side in found.inputs]
            both = (found.function == "and") == wanted
            known = [side for side in sides if side is not None]
            if both:
                return " & ".join(known) or None
            return f"({known[0]} | {known[1]})" if len(known) == 2 else None
        return self._compared(found, wanted) if found.function in _SIGNS else None

    def _compared(self, found: Node, wanted: bool) -> str | None:
        left, right = (self._slope(argument) for argument in found.arguments)
        if left is None or right is None:
            return None
        function = found.function if wanted else _OPPOSITE[found.function]
        slope = left - right
        # Compare for the neighbour that satisfies it first: the one with the least, or the greatest, left side.
        first = slope > 0 if function in ("lt", "le") else slope < 0
        texts = [self._written(argument, first) for argument in found.arguments]
        return None if None in texts else f"({texts[0]} {_SIGNS[function]} {texts[1]})"

    def _slope(self, argument: int | Number) -> int | None:
        """Return the difference between neighbours; None if it is not constant."""
        if isinstance(argument, Number):
            return 0
        found = self.kernel.nodes[argument]
        if found.kind == "number" or self._steady(argument) is not None:
            return 0
        if found.kind == "position" and found.index is not None:
            step = found.index.coefficient(self.axis)
            known = all(isinstance(base, Axis) for base, _ in found.index.terms) and len(set(step)) == 1
            return step[0] if known else None
        if found.kind != "point" or found.dtype not in INTEGERS:
            return None
        slopes = [self._slope(other) for other in found.arguments]
        if any(slope is None for slope in slopes):
            return None
        first, *others = [slope for slope in slopes if slope is not None]
        if found.function == "cast":
            return first
        if found.function in ("add", "sub"):
            return first + others[0] * (1 if found.function == "add" else -1)
        factor = found.arguments[-1]
        is_scaled = found.function == "mul" and isinstance(factor, Number) and factor.fixed
        return first * int(factor.values[0]) if is_scaled and isinstance(factor, Number) else None

    def _written(self, argument: int | Number, first: bool) -> str | None:
        if isinstance(argument, Number):
            whole = all(float(value).is_integer() for value in argument.values)
            return self._number(argument, "int32") if whole else None
        found = self.kernel.nodes[argument]
        steady = self._steady(argument)
        if steady is not None:
            return steady
        if found.kind == "position" and found.index is not None:
            return self._position(found.index, first)
        if found.function == "cast":
            return self._written(found.arguments[0], first)
        # The slope of the whole expression chose the neighbour, so all of its parts are written for that neighbour.
        texts = [self._written(other, first) for other in found.arguments]
        sign = {"add": "+", "sub": "-", "mul": "*"}[found.function]
        return None if None in texts else f"({texts[0]} {sign} {texts[1]})"

    def _position(self, index: Index, first: bool) -> str:
        place = self._group() if first else f"({self._group()} + {TOGETHER - 1})"
        step = index.coefficient(self.axis)
        rest = Index(tuple(term for term in index.terms if term[0] != self.axis), index.offset)
        own = place if step[0] == 1 else f"{place} * {step[0]}"
        others = self._index(rest)
        return own if others == "0" else f"({own} + {others})"
