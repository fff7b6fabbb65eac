"""Facts about a matrix product that its skeleton needs before it writes: operands, sizes, and tiles that suit them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.ir.program import CONVOLUTION, HALF, ITEM_BYTES, Number
from triton_agent.policy.author.ir.sizes import is_constant, power_of_two
from triton_agent.policy.author.ir.torch_calls import IN_PARTS
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import SMALLEST, Dimension, along_reduced
from triton_agent.policy.author.tile.descriptors import Matrix, matrix_of
from triton_agent.policy.author.tile.product_tiles import FEWEST_STAGES, SHARED_BYTES, ranked, shared_bytes

LONG_FUNCTIONS = {"gelu": 2, "erf": 2, "gelu_tanh": 1, "tanh": 1, "sigmoid": 1, "silu": 1, "exp": 1, "mish": 2}
"""Functions that take many registers, with their cost in loads of a whole tile, roughly."""
TOGETHER = 4
"""Adjacent elements that an asynchronous copy to shared memory needs: 16 bytes of float32, 8 bytes of half
precision.
"""
NARROW = 64
"""Most columns of a tile that leave registers for functions of the left operand."""
WIDEST_IN_BATCH = 128
"""Most columns of a result tile in a batch that is stored by a tensor descriptor. A wider tile is converted to another
layout, which takes as much shared memory again.
"""
FEW_COLUMNS, MANY_ROWS = 8, 4096
"""Most columns and fewest rows of a product that takes single elements along the inner dimension."""
BY_ELEMENT = ((512, 4), (1024, 4), (256, 4), (256, 2))
"""Rows and warps of tiles for such a product."""
LEAST_IN_PARTS = (512, 64, 64)
"""Fewest rows, columns and elements along the inner dimension of a product whose weight is kept in two parts."""
BESIDE_TILE_BYTES = 4096
"""Shared memory for values along rows or columns that change their layout as well."""
_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class InParts:
    """A float32 weight that a kernel takes as two tensors: rounded to TF32, and the rest.

    Three TF32 products, without that of both rests, are as exact as one in float32.
    """

    weight: str
    high: str
    low: str
    rest: int
    """The node that loads the rest."""


class ProductFacts:
    """Facts about the product, or two products, of one kernel."""

    def __init__(self, kernel: Kernel, drafting: Drafting) -> None:
        self.kernel, self.drafting = kernel, drafting
        self.width = drafting.width
        self.dots = [i for i in sorted(kernel.live()) if kernel.nodes[i].kind == "dot"]
        """Nodes of the products: one, or two with the same rows."""
        self.dot = self.dots[0]
        self.m = Dimension(name="m", plural="rows", axes=kernel.rows)
        self.n = Dimension(name="n", plural="columns", axes=kernel.columns)
        self.by_taps = self._is_by_taps()
        """True if the innermost reduced axis is processed in blocks, once for each position along the other reduced
        axes.
        """
        taps, inner = (kernel.reduced[:-1], kernel.reduced[-1:]) if self.by_taps else ((), kernel.reduced)
        self.k = Dimension(name="k", plural="inner", axes=inner)
        self.taps = Dimension(name="tap", plural="taps", axes=taps)
        self.side = Dimension(name="side", plural="sides", axes=kernel.side)
        self.batch = Dimension(name="batch", plural="batches", axes=kernel.batch)
        self.half = self.operand_dtype() in HALF
        self.operands = self._operands()
        """The loads as matrices for tensor descriptors; empty if any of them does not qualify."""
        self.alternatives = self._alternatives()
        self.tiles = self._tiles()
        self.parts = self._in_parts() if self.tiles.described and not self.half else None
        if self.by_element and not self.by_taps:  # bounds of the image are then computed once for each tap
            self.k, self.taps = replace(self.k, axes=kernel.reduced[:1]), replace(self.taps, axes=kernel.reduced[1:])

    def _in_parts(self) -> InParts:
        """Have the kernel load the weight in two parts: rounded to TF32, and the rest."""
        values = self.drafting.program.values
        right = self.source(self.kernel.nodes[self.dot].arguments[1])
        node, matrix = self.kernel.nodes[right], self.operands[right]
        name = self.drafting.host.tensor_name(node.tensor)
        parts = InParts(
            weight=node.tensor, high=f"{node.tensor}/high", low=f"{node.tensor}/low", rest=len(self.kernel.nodes)
        )
        for part, hint in ((parts.high, f"{name}_high"), (parts.low, f"{name}_low")):
            values[part] = replace(values[node.tensor], name=part, operation="torch", function=IN_PARTS, hint=hint)
        high, low = replace(node, tensor=parts.high), replace(node, tensor=parts.low)
        nodes = tuple(high if i == right else other for i, other in enumerate(self.kernel.nodes))
        self.kernel = replace(self.kernel, nodes=(*nodes, low))
        self.operands = self.operands | {
            right: replace(matrix, value=parts.high),
            parts.rest: replace(matrix, value=parts.low),
        }
        return parts

    def operand_dtype(self) -> str:
        """Return the dtype of the matrix unit's operands: half precision if both operands are stored in it."""
        stored = {self.stored_dtype(argument) for argument in self.kernel.nodes[self.dot].arguments[:2]}
        only = stored.pop() if len(stored) == 1 else None
        return only if only in HALF else self.kernel.nodes[self.dot].function

    def stored_dtype(self, argument: int | Number) -> str | None:
        return stored_dtype(self.kernel, self.drafting, argument)

    def _is_by_taps(self) -> bool:
        """Return True if both operands are contiguous along the innermost of several reduced axes."""
        if len(self.kernel.reduced) < 2 or not self._is_of_convolution():
            return False
        inner = self.kernel.reduced[-1]
        read = [node.index for node, _ in along_reduced(self.kernel) if node.index is not None]
        along = [index for index in read if index.axes() & {inner}]
        beside = all(is_constant(index.coefficient(inner), 1) and not index.lookups() for index in along)
        return inner.size[0] >= SMALLEST and beside and len(along) == len(read)

    def _is_of_convolution(self) -> bool:
        values = self.drafting.program.values
        return any(values[name].detail == (CONVOLUTION,) for name in self.kernel.covers)

    @property
    def by_element(self) -> bool:
        """True if a step along the inner dimension is a single element."""
        return self.tiles.inner == 1

    def _suits_elements(self) -> bool:
        """Return True if a step of one element suits a convolution: few columns, and rows adjacent in memory.

        The matrix unit has no tiles for so few columns, and windows of few channels are loaded element by element
        anyway.
        """
        columns, rows = self.n.size(self.width)[0], self.m.size(self.width)[0]
        plain = len(self.dots) == 1 and not self.kernel.side and self.kernel.part is None and not self.by_taps
        if not plain or not self._is_of_convolution() or columns > FEW_COLUMNS or rows < MANY_ROWS:
            return False
        read = [node.index for node, _ in along_reduced(self.kernel) if node.index is not None]
        left = [index for index in read if index.axes() & set(self.kernel.rows)]
        return bool(left) and all(is_constant(index.coefficient(self.kernel.rows[-1]), 1) for index in left)

    @property
    def tf32(self) -> bool:
        """True if float32 is multiplied as TF32: if the rules allow it, or if torch's own convolutions do so."""
        drafting = self.drafting
        return drafting.brief.allow_tf32 or (self._is_of_convolution() and drafting.tf32_convolutions)

    def _tiles(self) -> Tiles:
        """Return the wanted tiles, completed by the most promising ones."""
        wanted = self.drafting.tiles
        best = self.alternatives[0]
        return Tiles(
            rows=wanted.rows or best.rows,
            columns=wanted.columns or best.columns,
            inner=wanted.inner or best.inner,
            warps=wanted.warps or best.warps,
            stages=wanted.stages or best.stages,
            described=bool(self.operands and (best.described if wanted.described is None else wanted.described)),
        )

    def _alternatives(self) -> list[Tiles]:
        """Return tiles to try. Two products of the same rows count as one with twice the columns, half of each tile for
        each.
        """
        twins = len(self.dots)
        left = self.kernel.nodes[self.dot].arguments[0]
        # A left operand that is computed in the kernel needs registers, which wide tiles of the right operand would
        # take.
        narrow = self.half and self.stored_dtype(left) is None
        found = [replace(tiles, columns=max(SMALLEST, tiles.columns // twins)) for tiles in self._ranked(twins)]
        found = [fitting for tiles in found for fitting in [self._within_shared(tiles)] if fitting is not None]
        found = sorted(found, key=lambda tiles: narrow and tiles.columns > NARROW)
        if self._suits_elements() and not self.drafting.interpreted:
            columns = power_of_two(self.n.size(self.width)[0])
            found = [Tiles(rows=r, columns=columns, inner=1, warps=w) for r, w in BY_ELEMENT] + found
        return list(dict.fromkeys(found))

    def _within_shared(self, tiles: Tiles) -> Tiles | None:
        """Return a persistent kernel's tiles with as many stages as fit beside a whole float32 tile; None if none do.

        Its stages stay in shared memory while a result that pointers store changes its layout there. Half precision
        changes it in parts.
        """
        wide = any(ITEM_BYTES[self.drafting.dtype_of(root.value)] > 2 for root in self.kernel.roots)
        if not tiles.described or not wide or not self.half:
            return tiles
        room = SHARED_BYTES - BESIDE_TILE_BYTES - 4 * tiles.rows * tiles.columns * len(self.dots)
        fitting = range(min(tiles.stages, room // shared_bytes(replace(tiles, stages=1))), FEWEST_STAGES - 1, -1)
        return next((replace(tiles, stages=stages) for stages in fitting), None)

    def _ranked(self, twins: int) -> list[Tiles]:
        m, n, k, taps = (d.size(self.width)[0] for d in (self.m, self.n, self.k, self.taps))
        copies = self.batch.size(self.width)[0] * (1 if self.kernel.part is None else self.kernel.part.size[0])
        drafting = self.drafting
        return ranked(
            m,
            n * twins,
            k,
            copies,
            taps=taps,
            half=self.half,
            tf32=self.tf32,
            across=self._is_across(),
            unaligned=self._is_unaligned(),
            on_cuda=drafting.on_cuda,
            warpgroups=drafting.warpgroups,
            scattered=self._is_scattered(),
            shared_limit_bytes=drafting.brief.hardware.shared_bytes,
            item_bytes=self._item_bytes(),
            follow_up=self._follow_up(),
            describable=bool(self.operands) and drafting.warpgroups,
            # the interpreter takes as long for a program with a large tile as for one with a small tile
            processors=1 if drafting.interpreted else drafting.brief.hardware.processors,
        )

    def _item_bytes(self) -> tuple[int, int]:
        """Return the bytes of shared memory per element of each operand, counting everything that is loaded for it."""
        left, right = (self._loaded_bytes(argument) for argument in self.kernel.nodes[self.dot].arguments[:2])
        return left, right

    def _loaded_bytes(self, argument: int | Number) -> int:
        least = ITEM_BYTES[self.operand_dtype()]
        if not isinstance(argument, int):
            return least
        reduced, seen, waiting, total = set(self.kernel.reduced), set[int](), [argument], 0
        while waiting:
            current = waiting.pop()
            node = self.kernel.nodes[current]
            if current in seen:
                continue
            seen.add(current)
            waiting += node.inputs
            axes = node.index.axes() if node.kind == "load" and node.index is not None else set()
            if axes & reduced and axes - reduced:
                total += ITEM_BYTES[self.drafting.dtype_of(node.tensor)]
        return max(least, total)

    def _operands(self) -> dict[int, Matrix]:
        if not self.half:
            return self._with_a_weight()
        if self.kernel.part is not None or self.by_taps:
            return {}
        found: dict[int, Matrix | None] = {}
        for dot in self.dots:
            left, right = (self.source(argument) for argument in self.kernel.nodes[dot].arguments[:2])
            found |= {left: self._matrix(left, self.m), right: self._matrix(right, self.n)}
        known = {source: matrix for source, matrix in found.items() if matrix is not None}
        return {i: self._as_far(matrix, known) for i, matrix in known.items()} if len(known) == len(found) else {}

    def _with_a_weight(self) -> dict[int, Matrix]:
        """Return the operands of a float32 product with a weight that is kept in two parts for it; empty for others.

        The weight is then rounded once, not by each program in each step.
        """
        drafting, kernel = self.drafting, self.kernel
        plain = len(self.dots) == 1 and not (kernel.side or kernel.batch or self.by_taps or kernel.part is not None)
        three = drafting.warpgroups and not drafting.interpreted and drafting.float32_products == "tf32x3"
        sizes = (self.m.size(self.width)[0], self.n.size(self.width)[0], self.k.size(self.width)[0])
        if not plain or not three or self.tf32 or any(size < least for size, least in zip(sizes, LEAST_IN_PARTS)):
            return {}
        found: list[tuple[int, Matrix]] = []
        for argument, own in zip(kernel.nodes[self.dot].arguments, (self.m, self.n)):
            node = kernel.nodes[argument] if isinstance(argument, int) else None
            if not isinstance(argument, int) or node is None or node.kind != "load" or node.index is None:
                return {}
            matrix = matrix_of(node.tensor, node.index, own, self.k, ITEM_BYTES["float32"])
            stored = drafting.dtype_of(node.tensor) == "float32" and not node.guards
            if matrix is None or matrix.down != own or not stored:
                return {}
            found.append((argument, matrix))
        weight = drafting.program.values[found[1][1].value]
        is_whole = weight.function.startswith("p:") and weight.elements() == math.prod(sizes[1:])
        return dict(found) if is_whole and weight.name not in drafting.program.strides else {}

    def _as_far(self, matrix: Matrix, others: dict[int, Matrix]) -> Matrix:
        """Extend a matrix to the last row that any operand reads of the same tensor, so that they share one
        descriptor.
        """
        alike = [
            m for m in others.values() if (m.value, m.down, m.across) == (matrix.value, matrix.down, matrix.across)
        ]
        return matrix if matrix.down == self.k else replace(matrix, lines=max(m.lines for m in alike))

    def _matrix(self, argument: int | Number, own: Dimension) -> Matrix | None:
        if self.stored_dtype(argument) not in HALF:
            return None
        node = self.kernel.nodes[self.source(argument)]
        if node.kind != "load" or node.index is None or node.guards:
            return None
        item_bytes = _BYTES[self.drafting.dtype_of(node.tensor)]
        return matrix_of(node.tensor, node.index, own, self.k, item_bytes, self.batch)

    def results(self) -> dict[int, Matrix]:
        """Return the results that tensor descriptors store: plain matrices, as long as shared memory has room for a
        tile.
        """
        found: dict[int, Matrix] = {}
        tiles = self.tiles
        room = SHARED_BYTES - shared_bytes(replace(tiles, columns=tiles.columns * len(self.dots)))
        if self.kernel.side:
            side = max(SMALLEST, power_of_two(self.side.size(self.width)[0]))
            room -= shared_bytes(replace(tiles, inner=side, stages=1))
        # A tile that is loaded per element of the result passes through shared memory to get the accumulator's layout.
        room -= max((ITEM_BYTES[self.drafting.dtype_of(node.tensor)] for node in self._whole_tiles()), default=0) * (
            tiles.rows * tiles.columns // 2
        )
        for position, root in enumerate(self.kernel.roots):
            item_bytes = _BYTES.get(self.drafting.dtype_of(root.value))
            if not tiles.described or item_bytes is None or root.value in self.drafting.host.in_place:
                continue
            matrix = matrix_of(root.value, root.index, self.m, self.n, item_bytes, self.batch)
            room -= tiles.rows * tiles.columns * item_bytes
            turned = matrix is not None and matrix.batch is not None and tiles.columns > WIDEST_IN_BATCH
            if matrix is not None and matrix.down == self.m and room >= 0 and not turned:
                found[position] = matrix
        return found

    def _follow_up(self) -> int:
        """Return a measure of the work per element of the result: tiles loaded and long functions computed."""
        nodes = [self.kernel.nodes[i] for i in self.kernel.live()]
        long = sum(LONG_FUNCTIONS.get(node.function, 0) for node in nodes if node.kind == "point")
        return len(self._whole_tiles()) + long

    def _whole_tiles(self) -> list[Node]:
        """Return the loads that vary along rows and columns of the result and are not reduced."""
        rows, columns, reduced = set(self.kernel.rows), set(self.kernel.columns), set(self.kernel.reduced)
        loads = [node for node in map(self.kernel.nodes.__getitem__, self.kernel.live()) if node.kind == "load"]
        axes = [(node, node.index.axes()) for node in loads if node.index is not None]
        return [node for node, found in axes if found & rows and found & columns and not found & reduced]

    def _is_across(self) -> bool:
        """Return True if an operand is contiguous along another dimension than the innermost reduced axis."""
        inner, read = self.k.axes[-1:], along_reduced(self.kernel)
        return any(
            node.index is not None and not is_constant(node.index.coefficient(axis), 1)
            for axis in inner
            for node, _ in read
        )

    def _is_unaligned(self) -> bool:
        """Return True if rows along the inner dimension are no multiple of four elements."""
        inner = self.k.axes[-1]
        read = [node.index for node, _ in along_reduced(self.kernel) if node.index is not None]
        along = [index for index in read if is_constant(index.coefficient(inner), 1)]
        return any(step[0] % TOGETHER for index in along for base, step in index.terms if base != inner)

    def _is_scattered(self) -> bool:
        """Return True if operands are loaded element by element, as windows of a convolution are. Their addresses take
        registers.
        """
        if self.by_taps:
            return False
        reduced = set(self.kernel.reduced)
        for node, _ in along_reduced(self.kernel):
            assert node.index is not None
            if not node.index.axes() & reduced:
                continue
            steps = [step[0] for _, step in node.index.terms]
            if node.guards or len(node.index.axes() & reduced) > 2 or any(s > 1 and s % TOGETHER for s in steps):
                return True
        return False

    def source(self, argument: int | Number) -> int:
        return cast_source(self.kernel, argument)


def stored_dtype(kernel: Kernel, drafting: Drafting, argument: int | Number) -> str | None:
    """Return the dtype in which an operand is stored; None if the kernel computes it."""
    while isinstance(argument, int):
        node = kernel.nodes[argument]
        if node.kind in ("load", "state"):
            return drafting.dtype_of(node.tensor)
        if node.kind != "choose" and not (node.kind == "point" and node.function == "cast"):
            return None
        argument = node.arguments[0]
    return None


def cast_source(kernel: Kernel, argument: int | Number) -> int:
    """Return the node behind the casts of this operand."""
    assert isinstance(argument, int)
    while kernel.nodes[argument].kind == "point":
        inner = kernel.nodes[argument].arguments[0]
        assert isinstance(inner, int)
        argument = inner
    return argument
