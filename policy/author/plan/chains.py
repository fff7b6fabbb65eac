"""Fuses small consecutive products into one kernel: a recurrent cell's steps, the layers of a narrow network.

A GPU computes each of these products in less time than it takes to launch a kernel. Rows do not depend on each other,
so a program can take a few rows from the first product to the last and keep everything between in registers. A tile is
as wide as the matrix, and the width is an axis of the kernel: all values of one width run along the same axis, and the
products' inner dimensions along others. A hidden layer that is too wide is processed in steps (`steps_of`). A chain is
formed only where it is estimated to be faster than its kernels.

Not covered: products whose operands both depend on the row, and chains of more products than compile quickly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.ir.program import FLOATS, HALF, ITEM_BYTES, Program, Value, register_dtype
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    constant,
    contiguous_strides,
    is_constant,
    plus,
    power_of_two,
    product,
    times,
)
from triton_agent.policy.author.plan.indexing import (
    Axis,
    AxisMustSplit,
    AxisTable,
    Index,
    Indices,
    flat,
    linear,
    of,
    regrouped,
    shifted,
)
from triton_agent.policy.author.plan.kernel_graph import Guard, KernelGraph, MustStore, Node
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root
from triton_agent.policy.author.plan.storage import Storage
from triton_agent.policy.author.plan.tiling import depends_on

WIDEST = 256
"""Most columns of a tile; beyond, whole rows do not fit into registers."""
WIDEST_HIDDEN = 1024
"""Most columns of a layer that is processed in steps."""
NARROWEST = 16
"""Fewest rows or columns that the matrix unit takes."""
MOST_ROWS = 32
MOST_ELEMENTS = 8192
"""Most elements of a float32 matrix, with sizes rounded up. A larger one does not fit into registers beside the rest
(measured on an H200).
"""
MOST_ELSEWHERE = 16
"""Multiple of these elements that a matrix may have at other known sizes. With four times the width, at which files are
judged, it is slow but compiles. A matrix scaled down for the interpreter may be thousands of times as large as given.
"""
MOST_PRODUCTS = 48
_ROW, _COLUMN, _INNER = "row", "column", "inner"
_SPLITS_AT_MOST = 64

SMALL_MATRIX = 512
"""Most elements, rounded up, of a float32 matrix that is multiplied without the matrix unit, which would take
longer.
"""

LAUNCH_US, PRODUCT_LAUNCH_US = 2.0, 2.7
"""Shortest time of a kernel, and of a kernel with a product."""
BEGIN_US, REDUCTION_US = 1.5, 0.5
PRODUCT_US, QUICK_PRODUCT_US, ELEMENTS_PER_US = 0.6, 0.35, 13000
"""Estimated times of the parts of a chain: its start, a reduction, a product, and the elements of the product's matrix.
A product is quick if it is small, or computed while the next step of a hidden layer is loaded. Fitted to 32 kernels on
an H200.
"""
PROGRAMS_AT_ONCE = 2
"""Programs that one processor has room for at the same time, roughly."""
_BYTES_PER_US = 3.5e6
"""Memory bandwidth of a large GPU."""


class Chains:
    """Finds chains among planned kernels."""

    def __init__(self, drafting: Drafting, storage: Storage, wanted: Collection[str], apart: Collection[str]) -> None:
        self.drafting, self.program, self.storage = drafting, drafting.program, storage
        self.wanted, self.apart = frozenset(wanted), frozenset(apart)

    def joined(self, kernels: list[Kernel]) -> list[Kernel]:
        """Replace each chain by one kernel. Values that no kernel reads any more are no longer stored."""
        begun: list[Kernel] = []
        while True:
            start = next((k for k in kernels if k.kind == "product" and k not in begun and self._fits(k)), None)
            if start is None:
                return kernels
            begun.append(start)
            group, chain = self._fused_from(start, kernels)
            if chain is not None and self._is_quicker(chain, group):
                made = {root.value for kernel in group for root in kernel.roots}
                self.storage.stored -= made - {root.value for root in chain.roots}
                kernels = [chain if k is start else k for k in kernels if k is start or k not in group]

    def _fused_from(self, start: Kernel, kernels: list[Kernel]) -> tuple[list[Kernel], Kernel | None]:
        """Return kernels that can be fused with `start`, and the fused kernel (None if there is none).

        Tries all kernels that are connected to it, and if that fails, adds one neighbour after the other.
        """
        reached, found = [start], [start]
        while found:
            near = found.pop()
            fresh = [k for k in kernels if k not in reached and self._are_connected(near, k) and self._fits(k, start)]
            reached += fresh
            found += fresh
        whole = self._chain(reached, kernels, start) if len(reached) > 1 else None
        if whole is not None:
            return reached, whole
        group, chain = [start], None
        grows = len(reached) > 2
        while grows:
            grows = False
            for other in (k for k in reached if k not in group and any(self._are_connected(k, one) for one in group)):
                more = self._chain([*group, other], kernels, start)
                if more is not None:
                    group, chain, grows = [*group, other], more, True
                    break
        return group, chain

    def _are_connected(self, a: Kernel, b: Kernel) -> bool:
        made_a, made_b = ({root.value for root in k.roots} for k in (a, b))
        between = (made_a & set(b.loads)) | (made_b & set(a.loads))
        return bool(between) and not between & self.apart

    def _fits(self, kernel: Kernel, other: Kernel | None = None) -> bool:
        """Return True if a kernel may be part of a chain; with `other`, of a chain with that product's rows."""
        if kernel.kind not in ("points", "rows", "product") or any(root.adds for root in kernel.roots):
            return False
        if kernel.kind != "product":
            return True
        value = self._product_of(kernel)
        inner = self.program.values[value.inputs[0]].shape[-1]
        narrow = max(inner) <= WIDEST_HIDDEN and not kernel.batch and not kernel.side
        width = self.program.width
        return narrow and (other is None or _rows(value, width) == _rows(self._product_of(other), width))

    def _product_of(self, kernel: Kernel) -> Value:
        values = (self.program.values[name] for name in kernel.covers)
        return next(value for value in values if value.operation == "dot")

    def _chain(self, group: list[Kernel], kernels: list[Kernel], start: Kernel) -> Kernel | None:
        made = {root.value for kernel in group for root in kernel.roots}
        read = {name for kernel in group for name in kernel.loads} - made
        if any(made & self.storage.ancestors(name) for name in read):
            return None  # another kernel would have to run in the middle of the chain
        others = {name for kernel in kernels if kernel not in group for name in kernel.loads}
        order = self.storage.order
        roots = sorted((made & (self.wanted | others)), key=order.__getitem__)
        table = AxisTable(self.program.width)
        for _ in range(_SPLITS_AT_MOST):
            try:
                return _Attempt(self.program, self.storage.stored - made, table, self._product_of(start)).kernel(roots)
            except AxisMustSplit as request:
                try:
                    table.split(request.axis, request.inner)
                except BeyondAuthor:
                    return None
            except (MustStore, BeyondAuthor):
                return None
        return None

    def _is_quicker(self, chain: Kernel, group: list[Kernel]) -> bool:
        """Return True if the chain is estimated to be faster on a GPU than the launches of its kernels."""
        count = product((axis.size for axis in chain.kept), self.program.width)[0]
        processors = self.drafting.brief.hardware.processors
        waves = -(-count // (rows_at_once(count, processors) * processors * PROGRAMS_AT_ONCE))
        if self.drafting.float32_products == "ieee" and not _are_small(chain, self.program.width):
            return False  # without the matrix unit, one processor takes far longer than several do
        reductions = sum(chain.nodes[i].kind == "reduce" for i in chain.live())
        each = BEGIN_US + REDUCTION_US * reductions + sum(_product_times_us(chain, self.program.width))
        return each * waves < sum(map(self._us, group))

    def _us(self, kernel: Kernel) -> float:
        names = {*kernel.loads, *(root.value for root in kernel.roots)}
        values = self.program.values
        moved = sum(values[n].elements() * ITEM_BYTES[self.program.stored_dtype(n)] for n in names)
        return max(PRODUCT_LAUNCH_US if kernel.kind == "product" else LAUNCH_US, moved / _BYTES_PER_US)


def _are_small(chain: Kernel, width: int) -> bool:
    """Return True if every float32 product of a chain is small enough to be computed without the matrix unit."""
    varies = depends_on(chain)
    products = [chain.nodes[i] for i in chain.live() if chain.nodes[i].kind == "dot"]
    sizes = [sizes_of(varies[node.inputs[1]], width).values() for node in products]
    lanes = [math.prod(map(lanes_of, of_matrix)) for of_matrix in sizes]
    return all(node.function in HALF or is_multiplied_exactly(node, count) for node, count in zip(products, lanes))


def _product_times_us(chain: Kernel, width: int) -> Iterable[float]:
    """Estimate the time of each product of a chain, including its repetitions in steps."""
    varies, steps = depends_on(chain), steps_of(chain)
    for node in (chain.nodes[i] for i in chain.live() if chain.nodes[i].kind == "dot"):
        sizes = sizes_of(varies[node.inputs[1]], width).values()
        elements = math.prod(steps.get(size, lanes_of(size)) for size in sizes)
        turns = math.prod(-(-size[0] // steps[size]) for size in sizes if size in steps)
        if is_multiplied_exactly(node, elements):
            yield turns * QUICK_PRODUCT_US
        else:
            yield turns * ((QUICK_PRODUCT_US if turns > 1 else PRODUCT_US) + elements / ELEMENTS_PER_US)


def is_multiplied_exactly(product_node: Node, elements: int) -> bool:
    """Return True if a float32 product with a matrix of this many elements is computed without the matrix unit."""
    return product_node.function not in HALF and elements <= SMALL_MATRIX


def rows_at_once(count: int, processors: int) -> int:
    """Return the rows per program that give every processor a program.

    At most 32: from 64 rows on, four warps share a product, and in kernels like these it reads outside of its operands
    (Triton 3.6).
    """
    return min(MOST_ROWS, max(NARROWEST, power_of_two(-(-count // processors))))


def _rows(value: Value, width: int) -> Size:
    return product(value.shape[:-1], width)


class _Attempt:
    """One attempt at a kernel with all products behind these roots."""

    def __init__(self, program: Program, stored: Iterable[str], table: AxisTable, anchor: Value) -> None:
        self.program, self.stored, self.table, self.width = program, set(stored), table, program.width
        self.lead = anchor.shape[:-1]
        self.count = _rows(anchor, self.width)
        self.at: Indices = tuple(table.index(f"{_ROW}{i}", size) for i, size in enumerate(self.lead))
        self.kept = table.axes(_ROW)
        self.row = linear(
            [of(axis) for axis in self.kept],
            contiguous_strides(tuple(axis.size for axis in self.kept), self.width),
            self.width,
        )
        self.products = 0

    def kernel(self, roots: list[str]) -> Kernel:
        graph = KernelGraph(self.program, self.stored, self._take_in, lambda value, at: False)
        found = [self._root(graph, name) for name in roots]
        kernel = Kernel(
            kind="chain",
            roots=tuple(found),
            nodes=tuple(graph.nodes),
            kept=tuple(self.kept),
            columns=tuple(self.table.axes(_COLUMN)),
            side=tuple(self.table.axes(_INNER)),
            covers=frozenset(graph.met),
        )
        self._require_tiles(kernel)
        return kernel

    def _root(self, graph: KernelGraph, name: str) -> Root:
        value = self.program.values[name]
        if value.dtype not in FLOATS - {"float64"}:
            raise BeyondAuthor("a result of another kind")
        at = self._place(value.shape)
        node = graph.node_of(name, at, own=True)
        strides = self.program.strides.get(name)
        index = flat(at, value.shape, self.width) if strides is None else linear(at, strides, self.width)
        return Root(value=name, node=node, index=index)

    def _place(self, shape: Shape) -> Indices:
        """Return the indices of a result: one row for each row of the kernel, or one number for each."""
        if product(shape, self.width) == self.count:
            return regrouped(self.at, self.lead, shape, self.width)
        if not shape or product(shape[:-1], self.width) != self.count:
            raise BeyondAuthor("the result has other rows than the chain")
        return (*regrouped(self.at, self.lead, shape[:-1], self.width), self._column(shape[-1]))

    def _column(self, size: Size) -> Index:
        if max(size) > WIDEST_HIDDEN:
            raise BeyondAuthor("a row too long for a tile")
        return self.table.index(f"{_COLUMN}{size}", size)

    def _take_in(self, graph: KernelGraph, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        if guards or value.operation not in ("dot", "reduce"):
            raise BeyondAuthor(f"a {value.operation} inside a chain")
        if value.operation == "reduce":
            return self._reduced(graph, value, at)
        left, right = value.inputs
        self._require_own_rows(at[:-1], value.shape[:-1])
        sums = []
        for name, place, start in self._pieces(left, at[:-1]):
            size = self.program.values[name].shape[-1]
            sums.append(self._product(graph, value, (name, place), (right, at, start), size))
        made = sums[0]
        for other in sums[1:]:
            made = graph.add(Node(kind="point", function="add", arguments=(made, other), hint=value.hint))
        return made

    def _pieces(self, name: str, rows: Indices) -> list[tuple[str, Indices, Size]]:
        """Return the left operand; if it is a concatenation, each piece with the position at which it starts."""
        value, start = self.program.values[name], constant(0, self.width)
        at = rows
        while value.operation == "reshape" and value.name not in self.stored:
            source = self.program.values[value.inputs[0]]
            if not source.shape or source.shape[-1] != value.shape[-1]:
                break
            at = regrouped(at, value.shape[:-1], source.shape[:-1], self.width)
            value = source
        if value.operation != "concat" or value.detail != len(value.shape) - 1 or value.name in self.stored:
            return [(name, rows, start)]
        found = []
        for piece in value.inputs:
            found.append((piece, at, start))
            start = plus(start, self.program.values[piece].shape[-1])
        return found

    def _product(
        self,
        graph: KernelGraph,
        value: Value,
        left: tuple[str, Indices],
        right: tuple[str, Indices, Size],
        size: Size,
    ) -> int:
        (name, rows), (matrix, at, start) = left, right
        along = self._column(size)
        a = graph.node_of(name, (*rows, along))
        if graph.nodes[a].kind == "number" and graph.nodes[a].arguments[0].values[0] == 0:  # type: ignore[union-attr]
            return a
        down = self.table.index(f"{_INNER}{size}", size)
        b = graph.node_of(matrix, (*at[:-2], shifted(down, start), at[-1]))
        if is_constant(size, 1):
            return graph.add(Node(kind="point", function="mul", arguments=(a, b), hint=value.hint))
        self.products += 1
        if self.products > MOST_PRODUCTS:
            raise BeyondAuthor("more products than one kernel should hold")
        return graph.add(Node(kind="dot", function=value.dtype, arguments=(a, b), dtype="float32", hint=value.hint))

    def _reduced(self, graph: KernelGraph, value: Value, at: Indices) -> int:
        source = self.program.values[value.inputs[0]]
        if value.function not in ("sum", "max", "min"):
            raise BeyondAuthor("a reduction that chains do not support")
        kept = tuple(size for dim, size in enumerate(source.shape) if dim not in value.detail)
        if product(kept, self.width) != self.count:
            raise BeyondAuthor("a reduction over other rows")
        self._require_own_rows(at, value.shape)
        sizes = tuple(source.shape[dim] for dim in value.detail)
        length = product(sizes, self.width)
        parts = iter(regrouped((self._column(length),), (length,), sizes, self.width))
        rows = iter(at)
        place = tuple(next(parts) if dim in value.detail else next(rows) for dim in range(len(source.shape)))
        inner = graph.node_of(source.name, place)
        return graph.add(
            Node(
                kind="reduce",
                function=value.function,
                arguments=(inner,),
                index=self._column(length),
                dtype=register_dtype(value.dtype),
                hint=value.hint,
            )
        )

    def _require_own_rows(self, at: Indices, shape: Shape) -> None:
        if flat(at, shape, self.width) != self.row:
            raise BeyondAuthor("a value of another row")

    def _require_tiles(self, kernel: Kernel) -> None:
        """Require that every value is a tile of rows and one width, and every matrix one of an inner dimension and one
        width.
        """
        varies, kept = depends_on(kernel), set(kernel.kept)
        of_dimension = {axis: dimension_of(axis) for axis in (*kernel.columns, *kernel.side)}
        for i in kernel.live():
            columns = {of_dimension[axis] for axis in varies[i] if axis in kernel.columns}
            inner = {of_dimension[axis] for axis in varies[i] if axis in kernel.side}
            if len(columns) > 1 or len(inner) > 1 or (inner and varies[i] & kept):
                raise BeyondAuthor("a value with more than rows and columns")
            node = kernel.nodes[i]
            if node.kind == "dot" and not varies[node.inputs[1]] & set(kernel.columns):
                raise BeyondAuthor("a product with a single column")
        steps_of(kernel)
        if not any(kernel.nodes[i].kind == "dot" for i in kernel.live()):
            raise BeyondAuthor("no product")


def sizes_of(axes: Iterable[Axis], width: int) -> dict[str, Size]:
    """Return the total size of the given axes for each dimension, by the dimension's name."""
    sizes: dict[str, Size] = {}
    for axis in axes:
        name = dimension_of(axis)
        sizes[name] = times(sizes.get(name, constant(1, width)), axis.size)
    return sizes


def lanes_of(size: Size) -> int:
    """Return the padded size of a tile along a dimension, at the main size."""
    return max(NARROWEST, power_of_two(size[0]))


def steps_of(kernel: Kernel) -> dict[Size, int]:
    """Return the widths that are processed in steps, each with its step, so that every matrix fits into registers.

    Only a hidden layer can be processed in steps, because no operation needs a whole row of it at once.
    """
    if not kernel.kept:
        raise BeyondAuthor("a single row")
    live, varies, width = sorted(kernel.live()), depends_on(kernel), len(kernel.kept[0].size)
    whole = {size for root in kernel.roots for size in sizes_of(root.index.axes() - set(kernel.kept), width).values()}
    for i in live:
        if kernel.nodes[i].kind == "reduce":
            of_rows = varies[kernel.nodes[i].inputs[0]] & set(kernel.columns)
            whole |= set(sizes_of(of_rows, width).values())
    matrices: list[tuple[Size, Size, int]] = []
    lanes: dict[Size, int] = {}
    for node in (kernel.nodes[i] for i in live if kernel.nodes[i].kind == "dot"):
        axes = varies[node.inputs[1]]
        (inner,) = sizes_of(axes & set(kernel.side), width).values()
        (column,) = sizes_of(axes & set(kernel.columns), width).values()
        matrices.append((inner, column, MOST_ELEMENTS * (2 if node.function in HALF else 1)))
        lanes |= {size: lanes_of(size) for size in (inner, column)}
    steps: dict[Size, int] = {}
    for inner, column, most in matrices:
        while lanes[inner] * lanes[column] > most or max(lanes[inner], lanes[column]) > WIDEST:
            wide = max((size for size in {inner, column} - whole), key=lanes.__getitem__, default=None)
            if wide is None or inner == column or lanes[wide] <= NARROWEST:
                raise BeyondAuthor("a matrix too large for the registers of a program")
            lanes[wide] //= 2
            steps[wide] = lanes[wide]
    for inner, column, most in matrices:
        along = [[steps.get(size) or power_of_two(count) for count in size] for size in (inner, column)]
        if max(a * b for a, b in zip(*along)) > MOST_ELSEWHERE * most:
            raise BeyondAuthor("a matrix too large for the registers of a program at other sizes")
    if any(inner in steps and column in steps for inner, column, _ in matrices):
        raise BeyondAuthor("two wide layers one after another")
    if any(lanes_of(size) > WIDEST for size in whole):
        raise BeyondAuthor("a row too long for a tile")
    return {size: _least_wasteful(size[0], most) for size, most in steps.items()}


def _least_wasteful(size: int, most: int) -> int:
    """Return the step, `most` or half of it, that leaves the least padding."""
    return min((most, most // 2), key=lambda step: -(-size // step) * step)


def dimension_of(axis: Axis) -> str:
    """Return the name that all axes split from one dimension share; splitting appends letters to it."""
    return axis.name.rstrip("ab")
