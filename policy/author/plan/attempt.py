"""Plans one kernel, walking back from the values that it stores to the values that it loads.

An attempt may find that an axis must be split in two (`AxisMustSplit`), that a value must be stored by another kernel
first (`MustStore`), or that no kernel can be written (`BeyondAuthor`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.ir.cells import gru_state, lstm_state
from triton_agent.policy.author.ir.points import POINTS
from triton_agent.policy.author.ir.program import (
    DTYPES,
    FOLDS,
    GATES,
    HALF,
    ITEM_BYTES,
    VIEWS,
    Number,
    Value,
    head_fits,
    is_fold,
    register_dtype,
)
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, contiguous_strides, plus, product, times
from triton_agent.policy.author.plan.indexing import (
    Axis,
    AxisTable,
    Index,
    Indices,
    Lookup,
    fixed,
    flat,
    is_count_up,
    linear,
    of,
    plain_axes,
    regrouped,
    scaled,
    shifted,
)
from triton_agent.policy.author.plan.joined_sums import with_sums_joined
from triton_agent.policy.author.plan.kernel_graph import Guard, KernelGraph, MustStore, Node
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root, Stuck
from triton_agent.policy.author.plan.memory_order import turns
from triton_agent.policy.author.plan.storage import Storage
from triton_agent.policy.author.plan.tiling import ROWS_ACROSS, goes_through_steps, is_across

LONG_ROW = 16384
"""Longest row, in elements, that fits into the registers of one program."""
LONGEST_TURNED = 1024
"""Longest row whose elements may be stored in another order than they are read in. A program that holds a few such rows
turns them in registers; longer ones are written by another kernel, in tiles.
"""
BEYOND_CACHE, NEARLY_ALL = 1 << 26, 0.85
"""Elements that no cache holds, so that a second pass reads memory again, whichever kernel makes it; and the share of
the processors that should then have a program.
"""
WORTH_CUTTING = 1 << 17
"""Elements from which on a separate kernel for each reduction is faster than one kernel for all."""
WIDELY_USED = 16
"""Most times that a short reduction is recomputed per element of its result."""
FEW_TAPS = 4
"""Fewest times that the taps of a window would compute a costly function of an element before it is stored."""
_ELEMENTWISE = ("point", "pad", *VIEWS)
_DIMENSION, _REDUCED, _INNER, _SIDE, _STEP = "d", "r", "k", "s", "t"
FEW_ROWS = 16
"""Rows of the smallest tile of a product. If its left operand has no more rows, every program recomputes the point
functions on that operand, which takes less time than writing their result and reading it again.
"""
LARGEST_LOW_RANK = 64
"""Longest inner dimension of a low-rank product, which needs a single step along k."""


def leaves_idle(programs: int, elements: int, processors: int) -> bool:
    """Return True if so few programs leave much of the GPU idle while they go through these elements."""
    least = NEARLY_ALL if elements >= BEYOND_CACHE else 0.5
    return programs <= least * processors


class Attempt:
    """One attempt at a kernel with these roots. It may find that an axis must be split or a value stored first."""

    def __init__(self, drafting: Drafting, storage: Storage, roots: list[str], table: AxisTable) -> None:
        self.storage = storage
        self.program, self.joined = drafting.program, drafting.choice.joined
        self.processors = drafting.brief.hardware.processors
        self.width = self.program.width
        self.roots = roots
        self.table = table
        self.cone = storage.cone(roots)
        self.first = self.program.values[roots[0]]
        shape = self.program.values[self.first.inputs[1]].shape if self._is_scatter() else self.first.shape
        self.at: Indices = tuple(table.index(f"{_DIMENSION}{i}", size) for i, size in enumerate(shape))
        self.kept: list[Axis] = []
        self.along = fixed(constant(0, self.width))
        """Position along the reduced axes, numbered as one dimension."""
        self.length: Size = constant(1, self.width)
        self.alone = False
        """True if the kernel may hold a single reduction only."""
        self.anchor = self.left = ""
        self.elements = self.first.elements()
        """Number of elements at which the kernel computes something."""
        self.across: set[bool] = set()
        """Memory directions of the operands of the reductions so far: True if contiguous along the kept axes, False if
        contiguous along the reduced axes.
        """
        self._scans: dict[Node, str] = {}
        self._known_directions: dict[KernelGraph, dict[int, frozenset[bool]]] = {}

    def kernel(self) -> Kernel:
        for root in self.roots:
            if self.program.values[root].dtype not in DTYPES:
                raise Stuck(root, f"no kernels for {self.program.values[root].dtype}")
        if self._is_scatter():
            return self._scatter()
        anchors = self._anchors()
        if not anchors:
            self.kept = self.table.axes(_DIMENSION)
            return self._finish("points", self._nothing_expensive)
        anchor = self._heaviest([value for value, _ in anchors])
        places = {at for value, at in anchors if value.name == anchor.name}
        if len(places) > 1 and not self._are_twins(anchor, places):
            raise self._store(anchor)
        plan: dict[str, Callable[[Value, Indices], Kernel]] = {
            "reduce": self._rows,
            "scan": self._scan,
            "dot": self._product,
            "attention": self._attention,
            "recurrence": self._recurrence,
        }
        if anchor.operation not in plan:
            raise Stuck(anchor.name, f"no kernel for {anchor.operation}")
        # If the places are two tiles side by side, plan for the one whose columns are plain axes.
        return plan[anchor.operation](anchor, min(places, key=lambda at: bool(at) and plain_axes(at[-1]) is None))

    def _heaviest(self, values: list[Value]) -> Value:
        """Return the value that the kernel is built around: the last one, or the product whose sums the last one
        joins.
        """
        by_order = sorted(values, key=lambda value: self.storage.order[value.name], reverse=True)
        last = by_order[0]
        return next((value for value in by_order if self._is_low_rank_addend(last, value)), last)

    def _is_low_rank_addend(self, value: Value, anchor: Value) -> bool:
        """Return True if `value` is a low-rank product that is added to the product `anchor`: same shape and dtype."""
        both = anchor.operation == "dot" and anchor.dtype == value.dtype and anchor.shape == value.shape
        return self.joined and both and self._is_low_rank(value) and not self._is_low_rank(anchor)

    def _is_low_rank(self, value: Value) -> bool:
        """Return True if the product's inner dimension is so short that it takes a single step."""
        if value.operation != "dot" or value.dtype not in HALF:
            return False
        return max(self.program.values[value.inputs[0]].shape[-1]) <= LARGEST_LOW_RANK

    def _are_twins(self, anchor: Value, places: set[Indices]) -> bool:
        """Return True if the places are two column tiles of one product, such as the halves of a gated layer's
        projection.
        """
        if not self.joined or anchor.operation != "dot" or anchor.dtype not in HALF or len(places) != 2:
            return False
        first, second = places
        return first[:-1] == second[:-1]

    def _anchors(self) -> list[tuple[Value, Indices]]:
        """Return the nearest expensive values behind the first root, and the indices at which each is needed."""
        found: list[tuple[Value, Indices]] = []

        def note(graph: KernelGraph, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
            if guards:
                raise self._store(value)
            found.append((value, at))
            return graph.add(Node(kind="number", dtype=register_dtype(value.dtype), hint=value.name))

        stored = self.storage.stored - set(self.roots)
        KernelGraph(self.program, stored, note, self._is_cheap).node_of(self.first.name, self.at, own=True)
        return found

    def _store(self, value: Value) -> MustStore:
        """Return the request to store this expensive value, or the last value of the element-wise chain that follows
        it.
        """
        if value.operation == "recurrence":  # its rows are read by later steps, as they are
            return MustStore(value.name)
        name = self.storage.last_of_chain(value.name)
        if name in self.roots or name in self.storage.stored:
            # The chain ends where it meets another value that is stored anyway. Store the part of the chain before
            # that.
            name = self.storage.last_of_chain(value.name, before_stored=True)
        return MustStore(name)

    def _nothing_expensive(self, graph: KernelGraph, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        raise self._store(value)

    def _is_cheap(self, value: Value, at: Indices) -> bool:
        """Return True if a short reduction may be recomputed here for each element that needs it."""
        if value.name in self.storage.in_groups or (self.anchor and self._runs_along_rows(value, at)):
            return False
        source = self.program.values[value.inputs[0]]
        is_little = source.elements() <= WORTH_CUTTING or not self.storage.leaks(value.name, self.cone)
        return is_little and self._places_of(at) <= WIDELY_USED * value.elements()

    def _places_of(self, at: Indices) -> int:
        """Return the number of distinct indices at which a value is needed."""
        if any(index.lookups() for index in at):
            return self.elements
        axes = set().union(*(index.axes() for index in at))
        return min(self.elements, product((axis.size for axis in axes), self.width)[0])

    def _runs_along_rows(self, value: Value, at: Indices) -> bool:
        """Return True if the reduction runs along the kernel's own rows, which the kernel holds as a whole anyway."""
        length = product(self._reduced_sizes(value), self.width)
        alike = length == self.length and self._is_kept(flat(at, value.shape, self.width))
        return alike and not self.storage.leaks(value.name, self.cone)

    # -- scatter -----------------------------------------------------------------------------------------------------

    def _is_scatter(self) -> bool:
        return self.first.operation == "scatter"

    def _scatter(self) -> Kernel:
        """Plan a kernel that runs over the added elements instead of the result."""
        (index, source), dim = self.first.inputs[:2], self.first.detail
        self.kept = self.table.axes(_DIMENSION)
        stored = self.storage.stored - set(self.roots)
        self.elements = self.program.values[source].elements()
        graph = KernelGraph(self.program, stored, self._nothing_expensive, self._is_cheap)
        rank = len(self.program.values[index].shape)
        node = graph.node_of(source, self.at)
        place = graph.node_of(index, self.at if rank == len(self.at) else self.at[dim : dim + rank])
        others = {axis for i, one in enumerate(self.at) if i != dim for axis in one.axes()}
        if self._along(graph, place) | others != set(self.kept):
            # Triton adds only once to an address that is the same for several elements of one operation.
            raise Stuck(self.first.name, "several elements go to one index that is known beforehand")
        at = (*self.at[:dim], of(Lookup(place, self.first.shape[dim])), *self.at[dim + 1 :])
        place_of = flat(at, self.first.shape, self.width)
        root = Root(value=self.first.name, node=node, index=place_of, adds=True, how=self.first.function)
        return Kernel(
            kind="points",
            roots=(root,),
            nodes=tuple(graph.nodes),
            kept=tuple(self.kept),
            covers=frozenset({*graph.met, self.first.name}),
        )

    def _along(self, graph: KernelGraph, node: int) -> set[Axis]:
        """Return the axes along which a node varies."""
        found: set[Axis] = set()
        waiting, seen = [node], set[int]()
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting.extend(graph.nodes[current].inputs)
                found = found.union(*(index.axes() for index in graph.nodes[current].indices()))
        return found

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, anchor: Value, at: Indices) -> Kernel:
        kept = plain_axes(flat(at, anchor.shape, self.width))
        if kept is None:
            raise self._store(anchor)
        own = self.table.axes(_DIMENSION)
        rest = [axis for axis in own if axis not in kept]
        sizes = self._reduced_sizes(anchor)
        self.length = product(sizes, self.width)
        if rest and product((axis.size for axis in rest), self.width) != self.length:
            raise self._store(anchor)
        if rest:
            self.along = self._count_up(rest)
        else:
            parts = [self.table.index(f"{_REDUCED}{i}", size) for i, size in enumerate(sizes)]
            self.along = flat(parts, sizes, self.width)
        self.kept = [axis for axis in own if axis in kept]
        self.alone = self._too_few_rows()
        if self.alone and rest:
            raise self._store(anchor)
        self.anchor = anchor.name
        self._require_no_function_per_tap(anchor)
        kernel = self._finish("rows", self._in_row)
        if rest and self.length[0] > LONGEST_TURNED and turns(kernel):
            raise self._store(anchor)
        return kernel

    def _require_no_function_per_tap(self, anchor: Value) -> None:
        """Require that costly functions of what a window shows are stored: each tap would compute them again."""
        values, most = self.program.values, self.program.values[anchor.inputs[0]].elements()
        waiting, seen = [(anchor.inputs[0], False)], set[str]()
        while waiting:
            name, shown = waiting.pop()
            value = values[name]
            if name in seen or name in self.storage.stored or value.operation not in (*_ELEMENTWISE, "window"):
                continue
            seen.add(name)
            if shown and value.operation == "point" and value.elements() * FEW_TAPS <= most and self._is_costly(name):
                raise MustStore(name)
            waiting += [(other, shown or value.operation == "window") for other in value.inputs]

    def _is_costly(self, name: str) -> bool:
        inside = (self.program.values[other] for other in self.storage.cone([name]))
        return any(value.function in POINTS and POINTS[value.function].is_costly for value in inside)

    def _too_few_rows(self) -> bool:
        """Return True if there are too few long rows for the GPU's processors. Each reduction is then better split."""
        rows = product((axis.size for axis in self.kept), self.width)[0]
        few = leaves_idle(rows, rows * self.length[0], self.processors)
        return few and self.length[0] > LONG_ROW and rows * self.length[0] >= WORTH_CUTTING

    def _scan(self, anchor: Value, at: Indices) -> Kernel:
        dim = anchor.detail
        along = is_count_up(at[dim])
        others = tuple(index for i, index in enumerate(at) if i != dim)
        shape = tuple(size for i, size in enumerate(anchor.shape) if i != dim)
        kept = plain_axes(flat(others, shape, self.width))
        own = self.table.axes(_DIMENSION)
        if along is None or kept is None or set(own) != {*along, *kept}:
            raise self._store(anchor)
        if product((axis.size for axis in along), self.width) != anchor.shape[dim]:
            raise self._store(anchor)  # only part of the scanned dimension is needed
        self.length, self.along = anchor.shape[dim], at[dim]
        self.kept = [axis for axis in own if axis in kept]
        if is_fold(anchor) and not self.kept:
            raise Stuck(anchor.name, "a single element for each step")
        self.anchor = anchor.name if is_fold(anchor) else ""
        return self._finish("rows", self._in_row)

    def _in_row(self, graph: KernelGraph, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        """Compute a reduction or scan within this kernel if it runs along the kernel's own rows."""
        source = value.inputs[0]
        if self.alone and value.name != self.anchor and value.name not in self.roots:
            raise self._store(value)
        if guards or value.operation not in ("reduce", "scan") or self.storage.leaks(value.name, self.cone):
            raise self._store(value)
        loops = {one.function for one in (value, self.program.values[self.anchor or value.name]) if is_fold(one)}
        if loops and (value.function not in loops or (self.anchor and value.name != self.anchor)):
            raise self._store(value)  # one loop at a time
        if value.operation == "scan":
            others = tuple(index for i, index in enumerate(at) if i != value.detail)
            shape = tuple(size for i, size in enumerate(value.shape) if i != value.detail)
            whole = value.shape[value.detail] == self.length
            if not whole or at[value.detail] != self.along or not self._is_kept(flat(others, shape, self.width)):
                raise self._store(value)
            inner = graph.node_of(source, at)
            if is_fold(value):
                first = graph.node_of(value.inputs[1], others)
                return self._noted_scan(graph, value, (inner, first))
        else:
            sizes = self._reduced_sizes(value)
            place = flat(at, value.shape, self.width)
            known = self._is_kept(place) or self._is_of_as_many_rows(value, place)
            if product(sizes, self.width) != self.length or not known:
                raise self._store(value)
            inner = graph.node_of(source, self._with_reduced(value, at, sizes))
            self._require_same_direction(graph, value, inner)
            self._require_no_long_scan(graph, inner)
        if value.operation == "scan":
            return self._noted_scan(graph, value, (inner,))
        node = Node(
            kind=value.operation,
            function=value.function,
            arguments=(inner,),
            index=self.along if value.function.startswith("arg") else None,
            dtype=register_dtype(value.dtype),
            hint=value.hint,
        )
        return graph.add(node)

    def _noted_scan(self, graph: KernelGraph, value: Value, arguments: tuple[int, ...]) -> int:
        dtype = register_dtype(value.dtype)
        node = Node(kind="scan", function=value.function, arguments=arguments, dtype=dtype, hint=value.hint)
        self._scans[node] = value.name
        return graph.add(node)

    def _require_same_direction(self, graph: KernelGraph, value: Value, inner: int) -> None:
        """Refuse a reduction whose operand is contiguous in another direction than those before it.

        Rows and columns of a square matrix agree in number and length, but tiles suit only one of the two directions.
        """
        found = self._directions(graph, inner)
        if self.across and found and not found & self.across:
            raise self._store(value)
        self.across |= found

    def _require_no_long_scan(self, graph: KernelGraph, node: int) -> None:
        """Refuse to reduce a scan of a long row: a row processed in steps has no scan to reduce before its last
        step.
        """
        if max(self.length) <= LONG_ROW:
            return
        waiting = [node]
        while waiting:
            found = graph.nodes[waiting.pop()]
            if found.kind == "scan":
                raise MustStore(self._scans[found])
            waiting.extend(found.inputs)

    def _directions(self, graph: KernelGraph, node: int) -> frozenset[bool]:
        """Return the directions in which the loads behind a node, without those behind reductions, are contiguous: True
        for the kept axes, False for other axes.
        """
        known = self._known_directions.setdefault(graph, {})
        waiting = [node]
        while waiting:
            current = waiting[-1]
            found = graph.nodes[current]
            inputs = () if found.kind == "reduce" else found.inputs
            missing = [other for other in inputs if other not in known]
            waiting += missing
            if not missing:
                known[current] = self._direction(found).union(*(known[other] for other in inputs))
                waiting.pop()
        return known[node]

    def _direction(self, node: Node) -> frozenset[bool]:
        one, kept = constant(1, self.width), set(self.kept)
        axes = node.index.axes() if node.kind == "load" and node.index is not None else set()
        if node.index is None or not axes & kept or not axes - kept:
            return frozenset()
        return frozenset(axis in kept for axis in axes if node.index.coefficient(axis) == one)

    def _is_kept(self, index: Index) -> bool:
        axes = plain_axes(index)
        return axes is not None and set(axes) == set(self.kept)

    def _is_of_as_many_rows(self, value: Value, index: Index) -> bool:
        """Return True if the value has as many elements as the kernel has rows, but another row's element is needed
        here.
        """
        rows = product((axis.size for axis in self.kept), self.width)[0]
        return index.axes() <= set(self.kept) and not index.lookups() and value.elements() == rows

    def _with_reduced(self, value: Value, at: Indices, sizes: Shape) -> Indices:
        along = iter(regrouped((self.along,), (self.length,), sizes, self.width))
        kept = iter(at)
        rank = len(self.program.values[value.inputs[0]].shape)
        return tuple(next(along) if dim in value.detail else next(kept) for dim in range(rank))

    def _reduced_sizes(self, value: Value) -> Shape:
        shape = self.program.values[value.inputs[0]].shape
        return tuple(shape[dim] for dim in value.detail)

    def _count_up(self, axes: list[Axis]) -> Index:
        strides = contiguous_strides(tuple(axis.size for axis in axes), self.width)
        return linear([of(axis) for axis in axes], strides, self.width)

    # -- products --------------------------------------------------------------------------------------------------

    def _product(self, anchor: Value, at: Indices) -> Kernel:
        batch, rows, columns = self._of_matrices(anchor, at)
        self.left = anchor.inputs[0]
        for name in anchor.inputs:
            self._require_plain(name)
        inner = self.table.index(_INNER, self.program.values[anchor.inputs[0]].shape[-1])
        sides: list[Value] = []

        def take_in(graph: KernelGraph, value: Value, place: Indices, guards: tuple[Guard, ...]) -> int:
            beside = value.name != anchor.name and self._joins_anchor(value, anchor)
            if guards or not (value.name == anchor.name or beside or self._is_twin(value, anchor)):
                raise self._store(value)
            along = inner
            if beside:
                sides.append(value)
                along = self.table.index(_SIDE, self.program.values[value.inputs[0]].shape[-1])
            left = graph.node_of(value.inputs[0], (*place[:-1], along))
            right = graph.node_of(value.inputs[1], (*place[:-2], along, place[-1]))
            made = Node(kind="dot", function=value.dtype, arguments=(left, right), dtype="float32", hint="total")
            others = [node for node in graph.nodes if node.kind == "dot" and node != made]
            if len(others) > 1 or (not sides and any(node.arguments[0] != left for node in others)):
                raise self._store(value)
            return graph.add(made)

        kernel = self._finish("product", take_in)
        kernel = dataclasses.replace(kernel, batch=batch, rows=rows, columns=columns)
        if not sides:
            return kernel
        joined = with_sums_joined(dataclasses.replace(kernel, side=tuple(self.table.axes(_SIDE))))
        if joined is None:
            raise self._store(sides[0])
        return joined

    def _of_matrices(self, anchor: Value, at: Indices) -> tuple[tuple[Axis, ...], ...]:
        """Return the axes of the leading dimensions, of the rows and of the columns of a product's result."""
        found = plain_axes(flat(at[:-2], anchor.shape[:-2], self.width)), plain_axes(at[-2]), plain_axes(at[-1])
        known = [axis for axes in found for axis in axes or ()]
        own = self.table.axes(_DIMENSION)
        if None in found or sorted(own, key=str) != sorted(known, key=str):
            raise self._store(anchor)
        if self.storage.leaks(anchor.name, self.cone):
            raise self._store(anchor)
        self.kept = own
        return tuple(tuple(axes or ()) for axes in found)

    def _attention(self, anchor: Value, at: Indices) -> Kernel:
        """Plan attention: each program holds some queries and goes through all keys block by block."""
        batch, rows, columns = self._of_matrices(anchor, at)
        scores, values = anchor.inputs
        self._require_plain(values)
        keys = self.table.index(_INNER, self.program.values[scores].shape[-1])

        def take_in(graph: KernelGraph, value: Value, place: Indices, guards: tuple[Guard, ...]) -> int:
            if guards:
                raise self._store(value)
            if value.name == anchor.name:
                left = graph.node_of(scores, (*place[:-1], keys))
                right = graph.node_of(values, (*place[:-2], keys, place[-1]))
                empty = value.operands[2]
                assert isinstance(empty, Number)
                return graph.add(
                    Node(kind="attention", function=value.dtype, arguments=(left, right, empty), hint=value.hint)
                )
            where = value.operation == "dot" and place[-2:] == (at[-2], keys)
            if not where or not self._queries_fit(value) or self.storage.leaks(value.name, self.cone):
                raise self._store(value)
            for name in value.inputs:
                self._require_plain(name)
            inner = self.table.index(_SIDE, self.program.values[value.inputs[0]].shape[-1])
            left = graph.node_of(value.inputs[0], (*place[:-1], inner))
            right = graph.node_of(value.inputs[1], (*place[:-2], inner, place[-1]))
            made = Node(kind="dot", function=value.dtype, arguments=(left, right), dtype="float32", hint="scores")
            if any(node.kind == "dot" and node != made for node in graph.nodes):
                raise self._store(value)
            return graph.add(made)

        kernel = self._finish("attention", take_in)
        side = tuple(self.table.axes(_SIDE))
        return dataclasses.replace(kernel, batch=batch, rows=rows, columns=columns, side=side)

    def _queries_fit(self, value: Value) -> bool:
        """Return True if a whole row of queries can stay in registers while the program goes through the keys."""
        return head_fits(self.program.values[value.inputs[0]].shape[-1])

    def _recurrence(self, anchor: Value, at: Indices) -> Kernel:
        """Plan all steps of a recurrent layer: each program holds some rows of the batch and goes through the steps."""
        if self.roots != [anchor.name]:
            raise self._store(anchor)
        projected, weight, first = anchor.inputs[:3]
        self._require_plain(projected)
        self._require_plain(weight)
        kind, hidden, backwards = anchor.function, anchor.shape[-1], anchor.detail
        one = constant(1, self.width)
        steps = self.program.values[projected].shape[0]
        (row, column), step = at[1:], self.table.index(_STEP, steps)
        inner = self.table.index(_INNER, hidden)
        graph = KernelGraph(self.program, self.storage.stored - {anchor.name}, self._nothing_expensive, self._is_cheap)

        def state_at(place: Index, along: Index = column) -> Index:
            return flat((place, row, along), anchor.shape, self.width)

        def state(index: Index, hint: str) -> int:
            return graph.add(Node(kind="state", tensor=anchor.name, index=index, hint=hint))

        def point(function: str, *arguments: int, hint: str = "") -> int:
            return graph.add(Node(kind="point", function=function, arguments=arguments, hint=hint))

        cells = constant(int(kind == "lstm"), self.width)
        earlier, later = shifted(step, cells), shifted(step, plus(cells, one))
        before, after = (later, earlier) if backwards else (earlier, later)
        start = fixed(plus(cells, steps) if backwards else cells)
        gates = [shifted(column, scaled(fixed(hidden), constant(i, self.width)).offset) for i in range(GATES[kind])]
        held = state(state_at(before, inner), "state")
        new, old = [], []
        for gate in gates:
            new.append(graph.node_of(projected, (step, row, gate)))
            factor = graph.node_of(weight, (gate, inner))
            old.append(graph.add(Node(kind="dot", function=anchor.dtype, arguments=(held, factor), hint="kept")))
        roots = [Root(value=anchor.name, node=graph.node_of(first, (row, column)), index=state_at(start))]
        if kind == "gru":
            if len(anchor.inputs) > 3:
                biases = [graph.node_of(anchor.inputs[3], (gate,)) for gate in gates]
                old = [point("add", total, bias, hint="kept") for total, bias in zip(old, biases)]
            made = gru_state(new, old, state(state_at(before), "previous"), point)
        elif kind == "lstm":
            both = [point("add", a, b) for a, b in zip(new, old)]
            place = state_at(fixed(constant(0, self.width)))
            made, cell = lstm_state(both, state(place, "cell"), point)
            roots.append(Root(value=anchor.name, node=graph.node_of(anchor.inputs[3], (row, column)), index=place))
            roots.append(Root(value=anchor.name, node=cell, index=place))
        else:
            made = point(kind.removeprefix("rnn_"), point("add", new[0], old[0]), hint="state")
        roots.append(Root(value=anchor.name, node=made, index=state_at(after)))
        rows, columns = ([axis for axis in self.table.axes(f"{_DIMENSION}{dim}")] for dim in (1, 2))
        return Kernel(
            kind="recurrence",
            roots=tuple(roots),
            nodes=tuple(graph.nodes),
            kept=(*rows, *columns),
            reduced=tuple(self.table.axes(_INNER)),
            batch=tuple(self.table.axes(_STEP)),
            rows=tuple(rows),
            columns=tuple(columns),
            covers=frozenset({anchor.name, *graph.met}),
        )

    def _joins_anchor(self, value: Value, anchor: Value) -> bool:
        """Return True if the value is a low-rank product added to the anchor, such as an adapter's."""
        if not self._is_low_rank_addend(value, anchor):
            return False
        for name in value.inputs:
            self._require_plain(name)
        return not self.storage.leaks(value.name, self.cone)

    def _is_twin(self, value: Value, anchor: Value) -> bool:
        """Return True if both products have the same left operand, so that each of its tiles is loaded once for
        both.
        """
        alike = value.operation == "dot" and value.shape == anchor.shape and value.inputs[0] == anchor.inputs[0]
        if (
            not self.joined
            or not alike
            or not value.dtype == anchor.dtype in HALF
            or self.storage.leaks(value.name, self.cone)
        ):
            return False
        self._require_plain(value.inputs[1])
        return True

    def _require_plain(self, name: str) -> None:
        """Require that an operand of a product is in memory or cheap: every tile reads it again, so compute it once."""
        if self._has_few_rows(name) and self._is_of_elements(name):
            return
        value = self.program.values[name]
        narrow: str | None = None
        while value.operation in (*VIEWS, "window", "pad") or (value.operation == "point" and value.function == "cast"):
            if value.name in self.storage.stored:
                return
            source = self.program.values[value.inputs[0]]
            if value.operation in ("window", "pad", "expand"):  # a stored window, pad or expand would be larger
                narrow = None
            elif value.operation == "point" and self._narrows_for_all(value, source):
                narrow = value.name
            value = source
        if value.operation not in ("source", "torch") and value.name not in self.storage.stored:
            raise MustStore(narrow or value.name)

    def _narrows_for_all(self, cast: Value, source: Value) -> bool:
        """Return True if the cast is the only user of its source and narrower: then the narrow value is the one to
        store.
        """
        stored, inside = (ITEM_BYTES[self.program.stored_dtype(value.name)] for value in (cast, source))
        return stored < inside and self.program.users()[source.name] == [cast.name]

    def _has_few_rows(self, name: str) -> bool:
        """Return True if the left operand fits into one row of tiles, where reading the other operand takes most of the
        time.
        """
        value = self.program.values[name]
        few = max(product(value.shape[:-1], self.width)) <= FEW_ROWS
        return self.joined and name == self.left and few

    def _is_of_elements(self, name: str) -> bool:
        """Return True if the value is computed from values in memory by point functions and views alone."""
        value = self.program.values[name]
        if value.operation in ("source", "torch", "full") or name in self.storage.stored:
            return True
        return value.operation in ("point", *VIEWS) and all(self._is_of_elements(other) for other in value.inputs)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self, kind: str, expensive: Callable[[KernelGraph, Value, Indices, tuple[Guard, ...]], int]) -> Kernel:
        stored = self.storage.stored - set(self.roots)
        self.elements = product((*(axis.size for axis in self.kept), self.length), self.width)[0]
        graph = KernelGraph(self.program, stored, expensive, self._is_cheap)
        kernel = self._of(kind, graph, [self._root(graph, name) for name in self.roots])
        self._require_whole_loops(kernel)
        for name, at in self._could_take_over(kernel, graph):
            wider = KernelGraph(self.program, stored - {name}, expensive, self._is_cheap)
            cone, self.cone = self.cone, self.storage.cone([*self.roots, name])
            try:
                roots = [*(self._root(wider, root.value) for root in kernel.roots), self._root(wider, name, at)]
            except (MustStore, BeyondAuthor):
                self.cone = cone
                continue
            kernel, stored = self._of(kind, wider, roots), stored - {name}
            self.roots = [*self.roots, name]
        return kernel

    def _require_whole_loops(self, kernel: Kernel) -> None:
        """Refuse a kernel that computes a part of a loop's step without the loop."""
        if goes_through_steps(kernel) and not any(node.function in FOLDS for node in kernel.nodes):
            raise Stuck(self.roots[0], "a step of a loop is too long for one kernel")

    def _of(self, kind: str, graph: KernelGraph, roots: list[Root]) -> Kernel:
        reduced = [axis for axis in self.table.axes(_DIMENSION, _REDUCED, _INNER) if axis not in self.kept]
        return Kernel(
            kind=kind,
            roots=tuple(roots),
            nodes=tuple(graph.nodes),
            kept=tuple(self.kept),
            reduced=tuple(reduced),
            covers=frozenset(graph.met),
        )

    def _root(self, graph: KernelGraph, name: str, at: Indices | None = None) -> Root:
        value = self.program.values[name]
        at = self._place(value) if at is None else at
        node = graph.node_of(name, at, own=True)
        strides = self.program.strides.get(name)
        index = flat(at, value.shape, self.width) if strides is None else linear(at, strides, self.width)
        return Root(value=name, node=node, index=index)

    def _place(self, value: Value) -> Indices:
        """Return the indices at which a further root is computed: over all axes, over the kept ones, or over rows and
        the position along a reduction.
        """
        if value.shape == self.first.shape:
            return self.at
        elements = product(value.shape, self.width)
        if elements == product(self.first.shape, self.width):
            return regrouped(self.at, self.first.shape, value.shape, self.width)
        rows = product((axis.size for axis in self.kept), self.width)
        if elements == rows:
            return regrouped((self._count_up(self.kept),), (elements,), value.shape, self.width)
        if self.anchor and not self.alone and elements == times(rows, self.length):
            row, sizes = self._count_up(self.kept), (rows, self.length)
            return regrouped((row, self.along), sizes, value.shape, self.width)
        raise BeyondAuthor("the stored values differ in size")

    def _could_take_over(self, kernel: Kernel, graph: KernelGraph) -> list[tuple[str, Indices]]:
        """Return stored values that this kernel loads but could compute and store itself, each with its indices."""
        found = []
        for name, places in graph.loaded.items():
            if name not in self.storage.stored or not self.storage.pending(name) or len(places) > 1:
                continue
            (at,) = places
            others = (other for other in graph.loaded if other != name)
            if self._is_every_place(kernel, at, self.program.values[name]) and not any(
                name in self.storage.waits_for(other) for other in others
            ):
                found.append((name, at))
        return sorted(found, key=lambda one: self.storage.order[one[0]], reverse=True)

    def _is_every_place(self, kernel: Kernel, at: Indices, value: Value) -> bool:
        """Return True if the kernel visits every element of a value once and has enough programs to compute it."""
        if self.at and flat(at, value.shape, self.width) == flat(self.at, self.first.shape, self.width):
            return True
        parts = [plain_axes(index) for index in at]
        if kernel.multiplies or self.alone or None in parts or not self._has_programs(kernel):
            return False
        axes = [axis for part in parts for axis in part or ()]
        own = {*kernel.kept, *kernel.reduced}
        sizes = tuple(product((axis.size for axis in part or ()), self.width) for part in parts)
        is_each_once = sizes == value.shape and len(axes) == len(own) and set(axes) == own
        return is_each_once and all(index == self._count_up(part or []) for index, part in zip(at, parts))

    def _has_programs(self, kernel: Kernel) -> bool:
        """Return True if no row should be split into parts. Kernels with split rows store nothing but reductions."""
        rows = product((axis.size for axis in kernel.kept), self.width)[0]
        length = product((axis.size for axis in kernel.reduced), self.width)[0]
        programs = rows // ROWS_ACROSS if kernel.reduced and is_across(kernel) else rows
        return rows * length <= WORTH_CUTTING or (2 * programs > self.processors and length <= LONG_ROW)
