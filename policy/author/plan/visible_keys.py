"""The keys that a query can see according to the mask of its scores: attention skips the others.

A causal mask and a sliding window compare the positions of key and query. Such comparisons become a first and a last
key. Not covered: masks that are loaded, which are known only when the kernel runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from triton_agent.policy.author.ir.program import INTEGERS, Number
from triton_agent.policy.author.ir.sizes import Size, constant, contiguous_strides, is_constant, minus
from triton_agent.policy.author.plan.indexing import Axis, Index, added, fixed, linear, of, scaled
from triton_agent.policy.author.plan.kernel_plan import Kernel

_OPPOSITES = {"le": "gt", "gt": "le", "lt": "ge", "ge": "lt"}
_MIRRORED = {"le": "ge", "ge": "le", "lt": "gt", "gt": "lt"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VisibleKeys:
    """Query q sees at most the keys from q + first to q + last."""

    first: Size | None = None
    last: Size | None = None
    decided: frozenset[int] = frozenset()
    """Nodes that choose between a score and minus infinity by these bounds alone. Within the bounds they equal the
    score.
    """


def visible_keys(kernel: Kernel, scores: int) -> VisibleKeys:
    """Return the bounds that follow from the masks on the scores."""
    return _Reader(kernel).read(scores)


@dataclasses.dataclass(frozen=True, slots=True)
class _Bound:
    is_last: bool
    offset: Size


class _Reader:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.width = len(next(axis for axis in (*kernel.reduced, *kernel.rows)).size)
        self.queries, self.keys = (self._counted(axes) for axes in (kernel.rows, kernel.reduced))

    def _counted(self, axes: Sequence[Axis]) -> Index:
        strides = contiguous_strides(tuple(axis.size for axis in axes), self.width)
        return linear([of(axis) for axis in axes], strides, self.width)

    def read(self, scores: int) -> VisibleKeys:
        found: dict[bool, Size] = {}
        decided: set[int] = set()
        for node, condition, hidden in self._masks(scores):
            bounds = self._bounds(condition, hidden)
            for bound in bounds or ():
                found.setdefault(bound.is_last, bound.offset)
            if bounds is not None and all(found[bound.is_last] == bound.offset for bound in bounds):
                decided.add(node)
        return VisibleKeys(first=found.get(False), last=found.get(True), decided=frozenset(decided))

    def _masks(self, node: int) -> Iterator[tuple[int, int, bool]]:
        """Yield each choice of minus infinity, with its condition, and True if the condition hides the key."""
        found = self.kernel.nodes[node]
        if found.kind != "point":
            return
        if found.function == "where":
            condition, yes, no = found.arguments
            hidden = _is_never(yes)
            if isinstance(condition, int) and (hidden or _is_never(no)):
                yield node, condition, hidden
            rest: tuple[int | Number, ...] = (no if hidden else yes,)
        elif found.function in ("add", "sub", "cast"):
            rest = found.arguments
        else:
            rest = ()
        for argument in rest:
            if isinstance(argument, int):
                yield from self._masks(argument)

    def _bounds(self, condition: int, hidden: bool) -> list[_Bound] | None:
        """Return the bounds under which a key is visible; None if the condition is not just a first and a last key."""
        found = self.kernel.nodes[condition]
        if found.kind == "number":
            always = isinstance(found.arguments[0], Number) and all(
                bool(v) != hidden for v in found.arguments[0].values
            )
            return [] if always else None
        if found.kind != "point":
            return None
        inner = [argument for argument in found.arguments if isinstance(argument, int)]
        if found.function in ("not", "cast") and len(inner) == 1 and self.kernel.nodes[inner[0]].dtype == "bool":
            return self._bounds(inner[0], hidden != (found.function == "not"))
        if found.function == ("or" if hidden else "and"):
            both = [self._bounds(argument, hidden) for argument in inner]
            return None if None in both else [bound for bounds in both for bound in bounds or ()]
        if found.function in ("and", "or"):  # if one of the two is constant, the other decides alone
            rest = [argument for argument in inner if self._bounds(argument, not hidden) != []]
            return self._bounds(rest[0], hidden) if len(rest) == 1 else None
        if found.function in _OPPOSITES:
            bound = self._compared(_OPPOSITES[found.function] if hidden else found.function, found.arguments)
            return None if bound is None else [bound]
        return None

    def _compared(self, function: str, arguments: Sequence[int | Number]) -> _Bound | None:
        """Return the bound of a comparison of two positions, written as `key - query` compared with a number."""
        a, b = (self._position(argument) for argument in arguments)
        if a is None or b is None:
            return None
        apart = _less(a, b)
        if dict(apart.terms) == dict(_less(self.queries, self.keys).terms):
            function, apart = _MIRRORED[function], scaled(apart, constant(-1, self.width))
        elif dict(apart.terms) != dict(_less(self.keys, self.queries).terms):
            return None
        offset = minus(constant(0, self.width), apart.offset)
        if function in ("lt", "gt") and is_constant(offset):  # if the offset varies with the sizes, allow one key more
            offset = tuple(entry + (1 if function == "gt" else -1) for entry in offset)
        return _Bound(function in ("le", "lt"), offset)

    def _position(self, argument: int | Number) -> Index | None:
        """Return an integer node as a sum of positions and constants; None if it is not such a sum."""
        if isinstance(argument, Number):
            return fixed(tuple(int(v) for v in argument.values)) if _is_whole(argument) else None
        found = self.kernel.nodes[argument]
        if found.dtype not in INTEGERS:
            return None
        if found.kind == "number":
            return self._position(found.arguments[0])
        if found.kind == "position":
            return found.index
        if found.kind != "point" or found.function not in ("add", "sub", "cast"):
            return None
        parts = [self._position(other) for other in found.arguments]
        if None in parts:
            return None
        first, *rest = [part for part in parts if part is not None]
        for part in rest:
            first = added(first, part) if found.function == "add" else _less(first, part)
        return first


def _less(a: Index, b: Index) -> Index:
    """Return `a - b`."""
    return added(a, scaled(b, constant(-1, a.width)))


def _is_never(argument: int | Number) -> bool:
    return isinstance(argument, Number) and all(value == -math.inf for value in argument.values)


def _is_whole(number: Number) -> bool:
    return all(float(value).is_integer() for value in number.values)
