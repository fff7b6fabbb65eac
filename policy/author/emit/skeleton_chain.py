"""Small consecutive products: a program takes a few rows from the first product to the last, in registers.

Each value is a tile as wide as its rows, rounded up to a size that the matrix unit takes. A program loads each matrix
as a whole tile and keeps those that are used more than once in registers. Loads that do not depend on a product come
before the first one. A hidden layer that is too wide for a tile is computed in steps; each step adds to the product
that uses the layer.
"""

from __future__ import annotations

import dataclasses
import math

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Place, written
from triton_agent.policy.author.emit.skeleton import (
    BlockSize,
    GridEntry,
    KernelText,
    body_of,
    needs_int64,
    operand,
    program_id,
    stores,
)
from triton_agent.policy.author.ir.program import FLOATS, HALF
from triton_agent.policy.author.ir.sizes import is_constant, power_of_two, product
from triton_agent.policy.author.plan.chains import (
    MOST_ROWS,
    NARROWEST,
    WIDEST,
    dimension_of,
    is_multiplied_exactly,
    lanes_of,
    rows_at_once,
    steps_of,
)
from triton_agent.policy.author.plan.indexing import Axis
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import Dimension

LOADED_AHEAD = 96
"""Most registers per thread for values that are loaded before the first product."""
_ELEMENTS_PER_WARP = 1024
"""Most elements of a float32 matrix per warp; multiplying it as three TF32 products takes three times the registers."""
_IDENTITY = {"sum": 0.0, "max": -math.inf, "min": math.inf}
_OTHERS = ((16, 8), (16, 2), (32, 4), (32, 8), (16, 1))
"""Alternative rows and warps."""


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _Chain(kernel, drafting, name, comment).text()


class _Chain:
    def __init__(self, kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.drafting, self.name, self.comment = kernel, drafting, name, comment
        self.width = drafting.width
        self.row = Dimension(name="row", plural="rows", axes=kernel.kept)
        self.columns = self._dimensions("column", "columns", kernel.columns)
        self.inner = self._dimensions("inner", "inners", kernel.side)
        self.arguments = Arguments(self.width)
        every = (self.row, *self.columns, *self.inner)
        for name in (*(dimension.name for dimension in every), "start"):
            self.arguments.names.new(name)
        self.body = body_of(drafting, kernel, self.arguments, every)
        self.body.fillers = {i: 0.0 for i, node in enumerate(kernel.nodes) if node.kind == "load"}
        self.body.multiplies_sizes = True
        self.sizes = {dimension.name: dimension.size(self.width) for dimension in every}
        steps = steps_of(kernel)
        self.steps = {d.name: steps[d.size(self.width)] for d in self._lanes() if d.size(self.width) in steps}
        """Step of each dimension that is processed in steps."""
        self.tiles = self._tiles()

    def _dimensions(self, name: str, plural: str, axes: tuple[Axis, ...]) -> tuple[Dimension, ...]:
        """Return one dimension for each width. If there is only one, it has the plain name."""
        groups: dict[str, list[Axis]] = {}
        for axis in axes:
            groups.setdefault(dimension_of(axis), []).append(axis)
        found: list[Dimension] = []
        for group in groups.values():
            size = product((axis.size for axis in group), self.width)[0]
            suffix = f"_{size}" if len(groups) > 1 else ""
            # equal widths at the main size may differ at others
            while any(other.name == name + suffix for other in found):
                suffix += "x"
            found.append(Dimension(name=f"{name}{suffix}", plural=f"{plural}{suffix}", axes=tuple(group)))
        return tuple(found)

    def _tiles(self) -> Tiles:
        wanted, count = self.drafting.tiles, self.sizes["row"][0]
        rows = rows_at_once(count, self.drafting.brief.hardware.processors)
        if self.drafting.interpreted:
            rows = min(WIDEST, max(NARROWEST, power_of_two(count)))
            while rows > MOST_ROWS and self._shared_bytes(rows) > self.drafting.brief.hardware.shared_bytes:
                rows //= 2  # a draft is compiled for a GPU, too
        warps = max(4, self._warps())
        stages = wanted.stages or (2 if self.steps else 0)
        return Tiles(rows=wanted.rows or rows, warps=wanted.warps or warps, stages=stages)

    def _shared_bytes(self, rows: int) -> int:
        """Return the most shared memory that a product takes for its operands; three TF32 products take it twice, and a
        loop in two stages takes it three times.
        """
        most = 0
        for node in self._products():
            along = self.body.along(node.inputs[1])
            inner, column = (self._dimension_along(along, axes) for axes in (self.inner, self.columns))
            item_bytes = 2 if node.function in HALF else 2 * 4
            copies = 3 if {inner, column} & self.steps.keys() else 1
            most = max(most, copies * (rows + self._block_size(column)) * self._block_size(inner) * item_bytes)
        return most

    def _warps(self) -> int:
        """Return the number of warps with which the largest matrix leaves room in the registers of each thread."""
        largest = 0
        for node in self._products():
            elements = math.prod(self._block_size(name) for name in self.body.along(node.inputs[1]))
            largest = max(largest, elements // (2 if node.function in HALF else 1))
        return min(8, power_of_two(-(-largest // _ELEMENTS_PER_WARP)))

    def _products(self) -> list[Node]:
        return [node for node in map(self.kernel.nodes.__getitem__, self.kernel.live()) if node.kind == "dot"]

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        self._head()
        live, nodes = self.kernel.live(), self.kernel.nodes
        for i in self._loads_ahead():
            self.body.named(i)
        waits = self._stored_after()
        stores(self.body, self.drafting, waits.pop(-1, []))
        for i in sorted(live):
            if nodes[i].kind in ("dot", "reduce") and not self.body.along(i) & self.steps.keys():
                self._special(i)
                stores(self.body, self.drafting, waits.pop(i, []))
        blocks = {"BLOCK_ROWS": BlockSize(value=self.tiles.rows)}
        for name in (dimension.name for dimension in self._lanes()):
            blocks[self._block(name)] = BlockSize(value=self.steps.get(name, self.sizes[name]), at_least=NARROWEST)
        return KernelText(
            kernel=self.kernel,
            name=self.name,
            comment=self.comment,
            lines=tuple(self.body.scope.lines),
            arguments=self.arguments,
            grid=(GridEntry(parts=((self.sizes["row"], "BLOCK_ROWS"),)),),
            blocks=blocks,
            tiles=self.tiles,
            alternatives=tuple(self._alternatives()),
            uses_libdevice="libdevice" in self.body.helpers,
            functions=tuple(sorted(self.body.helpers - {"libdevice"})),
        )

    def _alternatives(self) -> list[Tiles]:
        found = [dataclasses.replace(self.tiles, rows=rows, warps=warps) for rows, warps in _OTHERS]
        return [self.tiles, *(tiles for tiles in found if tiles != self.tiles)]

    def _lanes(self) -> tuple[Dimension, ...]:
        return (*self.columns, *self.inner)

    def _block(self, dimension: str) -> str:
        return f"BLOCK_{dimension.upper()}"

    def _head(self) -> None:
        body, wide = self.body, needs_int64(self.drafting, self.kernel)
        self.limits = {"row": self.arguments.size_argument(self.sizes["row"], "rows")}
        body.line(f"row = ({program_id(0, wide)} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        for dimension in self._lanes():
            if dimension.name not in self.steps:
                self._lane_line(dimension.name)
            if not self._is_whole(dimension.name):
                size = self.sizes[dimension.name]
                called = self.drafting.host.size_name(size) or dimension.plural
                self.limits[dimension.name] = self.arguments.size(size, called)
        body.place = Place(mask=self._mask)

    def _lane_line(self, dimension: str) -> None:
        place = "[:, None]" if any(dimension == one.name for one in self.inner) else "[None, :]"
        lanes = f"tl.arange(0, {self._block(dimension)})"
        self.body.line(f"{dimension} = {f'(start + {lanes})' if dimension in self.steps else lanes}{place}")

    def _is_whole(self, dimension: str) -> bool:
        """Return True if a tile never has lanes beyond the end of the dimension."""
        size = self.sizes[dimension]
        return is_constant(size) and size[0] % self._block_size(dimension) == 0

    def _mask(self, dimensions: frozenset[str]) -> str:
        parts = [f"{name} < {limit}" for name, limit in self.limits.items() if name in dimensions]
        return f"({') & ('.join(parts)})" if len(parts) > 1 else "".join(parts)

    def _loads_ahead(self) -> list[int]:
        """Return loads to issue before the first product, in the order of their use, as long as registers last."""
        nodes, waits, room, found = self.kernel.nodes, dict[int, bool](), LOADED_AHEAD, list[int]()
        lanes = self.tiles.warps * self.drafting.brief.hardware.lanes
        for i in sorted(self.kernel.live()):
            waits[i] = nodes[i].kind in ("dot", "reduce") or any(waits[j] for j in nodes[i].inputs)
            if nodes[i].kind != "load" or waits[i] or self._is_halved(i) or self.body.along(i) & self.steps.keys():
                continue
            elements = math.prod(self._block_size(name) for name in self.body.along(i))
            if elements <= room * lanes:
                found.append(i)
                room -= -(-elements // lanes)
        return found

    def _is_halved(self, node: int) -> bool:
        """Return True if the load is half precision, which products take directly and name where they use it."""
        return self.drafting.dtype_of(self.kernel.nodes[node].tensor) in HALF

    def _block_size(self, dimension: str) -> int:
        return self.tiles.rows if dimension == "row" else self.steps.get(dimension, lanes_of(self.sizes[dimension]))

    def _stored_after(self) -> dict[int, list[int]]:
        """Group the roots by the last product or reduction that each depends on; -1 where there is none."""
        nodes, last = self.kernel.nodes, dict[int, int]()
        for i in sorted(self.kernel.live()):
            before = max((last[j] for j in nodes[i].inputs), default=-1)
            last[i] = i if nodes[i].kind in ("dot", "reduce") else before
        found: dict[int, list[int]] = {}
        for position, root in enumerate(self.kernel.roots):
            found.setdefault(last[root.node], []).append(position)
        return found

    # -- products and reductions -----------------------------------------------------------------------------------

    def _special(self, node: int) -> None:
        """Write a product or a reduction as a variable."""
        found = self.kernel.nodes[node]
        name = self.arguments.names.new(found.hint or "product")
        walked = found.kind == "dot" and self._dimension_along(self.body.along(found.inputs[1]), self.inner)
        if walked and walked in self.steps:
            self._in_steps(node, name, walked)
        else:
            self.body.line(f"{name} = {self._product(found) if found.kind == 'dot' else self._reduction(found)}")
        self.body.scope.nodes[node] = name

    def _in_steps(self, node: int, name: str, inner: str) -> None:
        """Write a product over a hidden layer as a loop that computes a part of the layer at a time."""
        column, found = self._same_width(inner), self.kernel.nodes[node]
        across = self._dimension_along(self.body.along(found.inputs[1]), self.columns)
        self.body.line(f"{name} = tl.zeros((BLOCK_ROWS, {self._block(across)}), tl.float32)")
        size = self.sizes[inner]
        end = self.arguments.size(size, self.drafting.host.size_name(size) or "hidden")
        with self.body.loop(f"for start in range(0, {end}, {self._block(inner)}):", column, inner):
            self._lane_line(column)
            self._lane_line(inner)
            for i in self._products_before(node, column):
                self._special(i)
            self.body.line(f"{name} += {self._product(found)}")

    def _products_before(self, node: int, column: str) -> list[int]:
        """Return the products that a product depends on and that vary along its inner dimension."""
        nodes, found, waiting = self.kernel.nodes, set[int](), [*self.kernel.nodes[node].inputs]
        while waiting:
            current = waiting.pop()
            if current not in found and column in self.body.along(current):
                found.add(current)
                waiting += nodes[current].inputs
        return sorted(i for i in found if nodes[i].kind == "dot")

    def _product(self, found: Node) -> str:
        left, right = found.inputs
        half = found.function in HALF
        wanted = found.function if half else "float32"
        column = self._dimension_along(self.body.along(right), self.columns)
        inner = self._dimension_along(self.body.along(right), self.inner)
        across = self._same_width(inner)
        a = self._filled(left, operand(self.body, self.drafting, left, wanted), across, 0.0, wanted)
        a = self._tile(left, a, ("row", across), wanted)
        b = self._tile(right, operand(self.body, self.drafting, right, wanted), (inner, column), wanted)
        b = self._filled(right, b, inner, 0.0, wanted)
        exact = is_multiplied_exactly(found, self._block_size(inner) * self._block_size(column))
        precision = "ieee" if exact else self.drafting.float32_products
        precision = "" if half else f', input_precision="{precision}"'
        return f"tl.dot({a}, {b}{precision})"

    def _same_width(self, inner: str) -> str:
        """Return the column dimension of a product's left operand: the one with the size of the product's inner
        dimension.
        """
        size = self.sizes[inner]
        return next(d.name for d in self.columns if self.sizes[d.name] == size)

    def _dimension_along(self, along: frozenset[str], dimensions: tuple[Dimension, ...]) -> str:
        return next(dimension.name for dimension in dimensions if dimension.name in along)

    def _filled(self, node: int, text: str, dimension: str, filler: float, dtype: str) -> str:
        """Return the tile with `filler` in the lanes beyond its end. Loads already have zero there."""
        is_load = self.kernel.nodes[node].kind == "load" and dimension in self.body.along(node)
        if dimension not in self.limits or (is_load and filler == 0.0):
            return text
        return f"tl.where({dimension} < {self.limits[dimension]}, {text}, {written(filler, dtype)})"

    def _tile(self, node: int, text: str, dimensions: tuple[str, str], dtype: str) -> str:
        """Return the text of a full tile; a value that does not vary along one of the dimensions is broadcast."""
        if self.body.along(node) >= set(dimensions):
            return text
        shape = ", ".join("BLOCK_ROWS" if name == "row" else self._block(name) for name in dimensions)
        return f"(tl.zeros(({shape}), tl.{dtype}) + {text})"

    def _reduction(self, found: Node) -> str:
        (node,) = found.arguments
        assert isinstance(node, int) and found.index is not None
        size = product((axis.size for axis in found.index.axes()), self.width) if found.index.axes() else None
        dtype = self.kernel.nodes[node].dtype
        text = self.body.text(node).text
        if size is None:  # a reduction of one element is that element
            return text
        dimension = next(d.name for d in self.columns if self.sizes[d.name] == size)
        text = self._filled(node, text, dimension, _IDENTITY[found.function], dtype)
        text = self._tile(node, text, ("row", dimension), dtype)
        if found.function == "sum":
            return f"tl.sum({text}, axis=1, keep_dims=True)"
        if dtype not in FLOATS:
            return f"tl.{found.function}({text}, axis=1, keep_dims=True)"
        helper = {"max": "take_larger", "min": "take_smaller"}[found.function]
        self.body.helpers.add(helper)
        return f"tl.reduce({text}, combine_fn={helper}, axis=1, keep_dims=True)"
