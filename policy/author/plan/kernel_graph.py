"""The computation of one kernel, as a graph of nodes that each stand for one value at one index.

The graph is built from the results back to the loads. Views become indices, a value that another kernel stores becomes
a load, and a value that is needed twice at the same index is one node. A short reduction is unrolled. Other reductions,
scans and products are left to the planner of the kernel, which knows the axes (`Expensive`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import Number, Operand, Program, Value, register_dtype
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, is_constant, is_spread, minus, plus, product
from triton_agent.policy.author.plan.indexing import (
    Axis,
    Index,
    Indices,
    Lookup,
    Piece,
    added,
    fixed,
    flat,
    index_renumbered,
    linear,
    of,
    regrouped,
    scaled,
    shifted,
)


class MustStore(Exception):
    """Raised if a value must be stored before the kernel that is being planned can run."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


WRITTEN_OUT = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
"""Reductions that can be unrolled, and the function that combines two elements."""
FEW = 9
"""Most elements, at every size, of a reduction that is unrolled: a window of three by three."""
DEEPEST = 64
"""Longest chain of dependent values in one kernel. Beyond, compiling takes longer than the kernel saves."""

LARGEST = 300
"""Most nodes of a kernel in which a value is computed at several places. Each is about a line: a stencil of a stencil
has 81 places of everything before it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """The condition `0 <= index < size`. A side that always holds is not checked."""

    index: Index
    size: Size
    below: bool
    """True if the index may be negative."""
    above: bool
    """True if the index may reach the size."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """One value at one index. The class has no slots so that it can cache its inputs, which long kernels need often."""

    kind: str
    """load, point, number, position, reduce, scan, carry, dot, attention, state, choose, lookup"""
    function: str = ""
    arguments: tuple[int | Number, ...] = ()
    tensor: str = ""
    """The tensor to load. A `state` is loaded from the kernel's own result, where an earlier step stored it."""
    index: Index | None = None
    guards: tuple[Guard, ...] = ()
    """Mask of a load, or condition of a choice: all guards must hold."""
    dtype: str = "float32"
    """Dtype of the computation."""
    hint: str = ""

    @functools.cached_property
    def inputs(self) -> tuple[int, ...]:
        found = tuple(argument for argument in self.arguments if isinstance(argument, int))
        looked_up = set().union(*(index.lookups() for index in self.indices())) if self.indices() else set()
        return (*found, *sorted(looked_up))

    def indices(self) -> list[Index]:
        return ([self.index] if self.index is not None else []) + [guard.index for guard in self.guards]


def _may_pass(index: Index, size: Size, *, below: bool) -> bool:
    """Return True if the index may be negative (with `below`) or reach `size`, at any sizes of the problem."""
    if not all(isinstance(base, Axis) and all(c > 0 for c in factor) for base, factor in index.terms):
        return True
    if below:
        return not (is_constant(index.offset, index.offset[0]) and index.offset[0] >= 0)
    if len(index.terms) != 1 or not is_constant(index.terms[0][1], 1):
        return True  # a size that divides all known sizes may not divide others
    base = index.terms[0][0]
    assert isinstance(base, Axis)
    room = minus(size, plus(base.size, index.offset))
    return not (is_constant(room, room[0]) and room[0] >= 0)


def _is_elsewhere(guard: Guard, index: Index) -> bool:
    """Return True if a load may go without this guard.

    If the guard uses none of the address's axes, the load reads no address where the guard fails that it does not also
    read where the guard holds.
    """
    met = is_constant(guard.size) and guard.size[0] > 0 and bool(guard.index.axes())
    return met and not guard.index.lookups() and not guard.index.axes() & index.axes()


IsCheap = Callable[[Value, Indices], bool]
"""Decides if a short reduction may be recomputed wherever it is needed."""
Expensive = Callable[["KernelGraph", Value, Indices, tuple[Guard, ...]], int]
"""Returns the node of a reduction, a scan or a product; the planner of the kernel provides it."""


class KernelGraph:
    """Collects the nodes of one kernel."""

    def __init__(self, program: Program, stored: set[str], expensive: Expensive, is_cheap: IsCheap) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self.met: dict[str, list[tuple[Indices, int]]] = {}
        """Values computed in this kernel, each with its indices and nodes."""
        self.loaded: dict[str, set[Indices]] = {}
        """Values that other kernels store, and the indices at which they are loaded."""
        self._stored = stored
        self._expensive = expensive
        self._is_cheap = is_cheap
        self._known: dict[Node, int] = {}
        self._depth = 0
        self._writes_out = False
        self._done: dict[tuple[str, Indices, tuple[Guard, ...]], int] = {}

    def add(self, node: Node) -> int:
        if node not in self._known:
            self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return self._known[node]

    def node_of(self, name: str, at: Indices, guards: tuple[Guard, ...] = (), *, own: bool = False) -> int:
        """Return the node of a value at an index. With `own`, compute it here even if another kernel stores it."""
        key = (name, at, guards)
        if key not in self._done or own:
            value = self.program.values[name]
            stored = value.operation in ("source", "torch") or (name in self._stored and not own)
            if stored:
                self._done[key] = self._load(value, at, guards)
            else:
                self._done[key] = self._deeper(value, at, guards)
                self.met.setdefault(name, []).append((at, self._done[key]))
                if len(self.nodes) > LARGEST:
                    self._store_repeated()
        return self._done[key]

    def _store_repeated(self) -> None:
        """Raise `MustStore` for the value that is computed at the most places, if one is computed at several."""
        points = [name for name in self.met if self.program.values[name].operation == "point"]
        most = max(points, key=lambda name: len(self.met[name]), default=None)
        if most is not None and len(self.met[most]) > 1 and most not in self._stored:
            raise MustStore(most)

    def _deeper(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        if self._depth > DEEPEST and value.name not in self._stored and value.operation == "point":
            raise MustStore(value.name)
        self._depth += 1
        try:
            return self._computed(value, at, guards)
        finally:
            self._depth -= 1

    def _load(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        self.loaded.setdefault(value.name, set()).add(at)
        strides = self.program.strides.get(value.name)
        width = self.program.width
        index = flat(at, value.shape, width) if strides is None else linear(at, strides, width)
        return self.add(
            Node(
                kind="load",
                tensor=value.name,
                index=index,
                guards=tuple(guard for guard in guards if not _is_elsewhere(guard, index)),
                dtype=register_dtype(value.dtype),
                hint=value.hint,
            )
        )

    def _computed(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        method = getattr(self, f"_{value.operation}", None)
        if method is not None:
            made: int = method(value, at, guards)
            return made
        if value.operation == "reduce" and self._is_short(value, at):
            return self._written_out(value, at, guards)
        return self._expensive(self, value, at, guards)

    # -- short reductions -------------------------------------------------------------------------------------------

    def _is_short(self, value: Value, at: Indices) -> bool:
        shape = self.program.values[value.inputs[0]].shape
        lengths = [shape[dim] for dim in value.detail]
        known = all(is_constant(length, length[0]) for length in lengths) and value.function in WRITTEN_OUT
        if not known or self._writes_out or not 1 <= product(lengths, self.program.width)[0] <= FEW:
            return False
        return self._is_cheap(value, at)

    def _written_out(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        source = self.program.values[value.inputs[0]]
        function, dtype = WRITTEN_OUT[value.function], register_dtype(value.dtype)
        self._writes_out = True
        try:
            taken = [
                self.node_of(source.name, _with(value.detail, place, at, self.program.width), guards)
                for place in itertools.product(*(range(source.shape[dim][0]) for dim in value.detail))
            ]
        finally:
            self._writes_out = False
        made = taken[0]
        for other in taken[1:]:
            made = self.add(
                Node(kind="point", function=function, arguments=(made, other), dtype=dtype, hint=value.hint)
            )
        return made

    # -- single elements -------------------------------------------------------------------------------------------

    def _point(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        arguments = tuple(self._operand(operand, value.shape, at, guards) for operand in value.operands)
        dtype = register_dtype(value.dtype)
        source = arguments[0]
        if value.function in ("cast", "copy") and isinstance(source, int) and self.nodes[source].dtype == dtype:
            return source
        return self.add(Node(kind="point", function=value.function, arguments=arguments, dtype=dtype, hint=value.hint))

    def _operand(self, operand: Operand, onto: Shape, at: Indices, guards: tuple[Guard, ...]) -> int | Number:
        """Return an operand broadcast to the result's shape: along a dimension of length one its index is zero."""
        if isinstance(operand, Number):
            return operand
        shape = self.program.values[operand].shape
        own, wide = at[len(at) - len(shape) :], onto[len(onto) - len(shape) :]
        place = (i if s == w else scaled(i, is_spread(s)) for i, s, w in zip(own, shape, wide))
        return self.node_of(operand, tuple(place), guards)

    def _carry(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        return self.add(Node(kind="carry", function=value.function, dtype=register_dtype(value.dtype), hint=value.hint))

    def _full(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        return self.add(Node(kind="number", arguments=value.operands, dtype=register_dtype(value.dtype)))  # type: ignore[arg-type]

    def _iota(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        start, step = value.operands
        assert isinstance(start, Number) and isinstance(step, Number)
        whole = all(float(number).is_integer() for number in (*start.values, *step.values))
        if not whole:
            raise BeyondAuthor("a range with a fractional start or step")
        index = scaled(at[0], tuple(int(s) for s in step.values))
        index = shifted(index, tuple(int(s) for s in start.values))
        return self.add(Node(kind="position", index=index, dtype=register_dtype(value.dtype), hint="position"))

    # -- views -----------------------------------------------------------------------------------------------------

    def _reshape(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        onto = self.program.values[value.inputs[0]].shape
        return self.node_of(value.inputs[0], regrouped(at, value.shape, onto, self.program.width), guards)

    def _permute(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        place = list(at)
        for position, dim in enumerate(value.detail):
            place[dim] = at[position]
        return self.node_of(value.inputs[0], tuple(place), guards)

    def _expand(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        made = self._operand(value.inputs[0], value.shape, at, guards)
        assert isinstance(made, int)
        return made

    def _slice(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        dim, start, step = value.detail
        moved = shifted(scaled(at[dim], constant(step, self.program.width)), start)
        return self.node_of(value.inputs[0], (*at[:dim], moved, *at[dim + 1 :]), guards)

    def _roll(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        dim, first = value.detail
        size = value.shape[dim]
        around = of(Piece(shifted(at[dim], first), constant(1, self.program.width), size, size))
        return self.node_of(value.inputs[0], (*at[:dim], around, *at[dim + 1 :]), guards)

    def _window(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        lead, steps, spread = value.detail
        count = len(steps)
        place = list(at[:lead])
        for k in range(count):
            place.append(added(scaled(at[lead + k], steps[k]), scaled(at[lead + count + k], spread[k])))
        return self.node_of(value.inputs[0], tuple(place), guards)

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _pad(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        """Replace elements outside of the padded tensor by the number."""
        inner = self.program.values[value.inputs[0]].shape
        place, own = [], []
        for index, before, size, whole in zip(at, value.detail, inner, value.shape):
            moved = shifted(index, minus(constant(0, self.program.width), before))
            place.append(moved)
            below = any(b > 0 for b in before) and _may_pass(moved, size, below=True)
            above = any(w - b > s for w, b, s in zip(whole, before, size)) and _may_pass(moved, size, below=False)
            if below or above:
                own.append(Guard(moved, size, below, above))
        inside = self.node_of(value.inputs[0], tuple(place), (*guards, *own))
        number = value.operands[1]
        return self._choice(own, inside, number, value) if own else inside

    def _concat(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        """Choose between the pieces, from the last to the first, by the end of each piece."""
        dim, ends, starts = value.detail, [], []
        only = self._only_piece(value, at[dim])
        if only is not None:
            return self.node_of(only[0], (*at[:dim], only[1], *at[dim + 1 :]), guards)
        position = constant(0, self.program.width)
        for name in value.inputs:
            starts.append(position)
            position = plus(position, self.program.values[name].shape[dim])
            ends.append(position)
        made: int | None = None
        for k, name in reversed(list(enumerate(value.inputs))):
            moved = shifted(at[dim], minus(constant(0, self.program.width), starts[k]))
            size = self.program.values[name].shape[dim]
            guard = Guard(moved, size, below=k > 0, above=k < len(ends) - 1)
            place = (*at[:dim], moved, *at[dim + 1 :])
            piece = self.node_of(name, place, (*guards, guard))
            chosen = Guard(at[dim], ends[k], below=False, above=True)
            made = piece if made is None else self._choice([chosen], piece, made, value)
        assert made is not None
        return made

    def _only_piece(self, value: Value, at: Index) -> tuple[str, Index] | None:
        """Return the piece that a constant index falls into, and the index within it; None if the index varies."""
        if at.terms:
            return None
        start = constant(0, self.program.width)
        for name in value.inputs:
            end = plus(start, self.program.values[name].shape[value.detail])
            if all(s <= place < e for s, place, e in zip(start, at.offset, end)):
                return name, fixed(minus(at.offset, start))
            start = end
        return None

    def _choice(self, guards: list[Guard], yes: int, no: Operand | int, value: Value) -> int:
        assert not isinstance(no, str)
        return self.add(
            Node(
                kind="choose",
                arguments=(yes, no),
                guards=tuple(guards),
                dtype=register_dtype(value.dtype),
                hint=value.hint,
            )
        )

    # -- looked up -------------------------------------------------------------------------------------------------

    def _take(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        table, index = value.operands
        assert isinstance(table, str) and isinstance(index, str)
        dim, rank = value.detail, len(self.program.values[index].shape)
        found = self._looked_up(table, index, at[dim : dim + rank], dim, guards)
        return self.node_of(table, (*at[:dim], found, *at[dim + rank :]), guards)

    def _gather(self, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        table, index = value.operands
        assert isinstance(table, str) and isinstance(index, str)
        found = self._looked_up(table, index, at, value.detail, guards)
        return self.node_of(table, (*at[: value.detail], found, *at[value.detail + 1 :]), guards)

    def _looked_up(self, table: str, index: str, at: Indices, dim: int, guards: tuple[Guard, ...]) -> Index:
        node = self.node_of(index, at, guards)
        return of(Lookup(node, self.program.values[table].shape[dim]))


def _with(dims: Sequence[int], place: Sequence[int], at: Indices, width: int) -> Indices:
    """Return the indices before a reduction, with `place` along the dimensions that it runs over."""
    taken, kept = dict(zip(dims, place)), iter(at)
    rank = len(dims) + len(at)
    return tuple(fixed(constant(taken[dim], width)) if dim in taken else next(kept) for dim in range(rank))


def renumbered(node: Node, places: Mapping[int, int]) -> Node:
    """Return the node with the new numbers of its arguments."""
    arguments = tuple(places[a] if isinstance(a, int) else a for a in node.arguments)
    index = None if node.index is None else index_renumbered(node.index, places)
    guards = tuple(Guard(index_renumbered(g.index, places), g.size, g.below, g.above) for g in node.guards)
    return dataclasses.replace(node, arguments=arguments, index=index, guards=guards)
