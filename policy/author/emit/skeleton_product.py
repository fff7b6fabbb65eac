"""Matrix products: each program computes a tile of the result in steps along the inner dimension, then the epilogue.

The epilogue (bias, activation, residual, scale) is computed on the tile while it is in registers. Programs are numbered
so that those that run at the same time share rows and columns in the L2 cache. Half precision is multiplied directly
and summed in float32; float32 is multiplied in full precision or as three TF32 products.

Two products with the same rows that are combined have two accumulators, and a low-rank product that is added to another
one is one more step of its sum (`joined_sums.py`).

A tile with few columns, whose rows are adjacent in memory, takes one element along the inner dimension at a time and
needs no matrix unit: each element of the left operand is multiplied with all columns.

Where operands are plain half-precision matrices, tiles can be loaded by tensor descriptors (`descriptors.py`). The
kernel is then persistent: as many programs as run at once take one tile after another, and load the next while they
finish one. Not covered: descriptors for products that are split into parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import INDENT, Place, Text
from triton_agent.policy.author.emit.skeleton import (
    MOST_ASIDE,
    BlockSize,
    GridEntry,
    KernelText,
    body_of,
    needs_int64,
    operand,
    program_id,
    store,
    stores,
)
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.sizes import Size, is_constant
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import SMALLEST, Dimension
from triton_agent.policy.author.tile.descriptors import Matrix
from triton_agent.policy.author.tile.product_facts import ProductFacts

GROUP = 8
"""Rows of tiles that are computed as one group."""
UNROLLED = 16
"""Most elements along the inner dimension whose products are written out, so that their loads come first."""
ACCUMULATORS = ("accumulator", "accumulator2")
_OWN_WORDS = (
    *("program", "start", *ACCUMULATORS, "span", "last"),
    *("tile", "tiles", "tiles_n", "tile_m", "tile_n", "first_tile", "group_rows", "DESCRIBED"),
)
"""Variables of the skeleton; no other name in the kernel may equal one."""


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _Product(kernel, drafting, name, comment).text()


class _Product:
    def __init__(self, kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.drafting, self.name, self.comment = kernel, drafting, name, comment
        self.width = drafting.width
        self.facts = facts = ProductFacts(kernel, drafting)
        self.tiles, parts = facts.tiles, facts.parts
        self.m, self.n, self.k, self.batch = facts.m, facts.n, facts.k, facts.batch
        self.first_batch = bool(kernel.batch) and max(self.batch.size(self.width)) > MOST_ASIDE
        """True if batches are numbered along the first dimension of the grid, and tiles along the second."""
        self.arguments = Arguments(self.width)
        own = (*_OWN_WORDS, "step", "tap", "taps", "blocks") if facts.taps.axes else _OWN_WORDS
        for word in ("m", "n", "k", "side", "batch", *own):
            self.arguments.names.new(word)
        dimensions = (self.m, self.n, self.k, *((self.batch,) if kernel.batch else ()))
        dimensions += (facts.taps,) if facts.taps.axes else ()
        dimensions += (facts.side,) if kernel.side else ()
        if kernel.part is not None:
            self.arguments.names.new("part")
            dimensions = (*dimensions, Dimension(name="part", plural="parts", axes=(kernel.part,)))
        self.body = body_of(drafting, facts.kernel, self.arguments, dimensions)
        self.persistent = self.tiles.described is True and parts is None
        """True if each program takes one tile after another."""
        if facts.by_taps:
            self.body.apart = ("m", "n", "tap")
        if facts.by_element:  # what is the same for all rows is added up first
            self.body.apart = ("batch", "tap", "k", "m", "n")
        self.body.counters = frozenset({"tap", "k"}) if facts.by_element else frozenset()
        self.body.fillers = {i: 0.0 for i, node in enumerate(facts.kernel.nodes) if node.kind == "load"}

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        self._sizes()
        if self.persistent:
            self._all_tiles()
        else:
            self._one_tile()
        tiles = self.tiles
        blocks = {
            "BLOCK_M": BlockSize(value=tiles.rows),
            "BLOCK_N": BlockSize(value=tiles.columns),
        }
        if not self.facts.by_element:
            blocks["BLOCK_K"] = BlockSize(value=tiles.inner)
        if self.kernel.side:
            blocks["BLOCK_SIDE"] = BlockSize(value=self.facts.side.size(self.width), at_least=SMALLEST)
        parts: list[tuple[Size, int | str]] = [
            (self.m.size(self.width), "BLOCK_M"),
            (self.n.size(self.width), "BLOCK_N"),
        ]
        if tiles.described and self.kernel.batch:
            parts.append((self.batch.size(self.width), 1))
        grid = [GridEntry(parts=tuple(parts))]
        if (self.kernel.batch and not tiles.described) or self.kernel.part is not None:
            grid.insert(0 if self.first_batch else 1, GridEntry(parts=((self.batch.size(self.width), 1),)))
        if self.kernel.part is not None:
            grid.append(GridEntry(parts=((self.kernel.part.size, 1),)))
        return KernelText(
            kernel=self.kernel,
            name=self.name,
            comment=self.comment,
            lines=tuple(self.body.scope.lines),
            arguments=self.arguments,
            grid=tuple(grid),
            blocks=blocks,
            tiles=tiles,
            alternatives=tuple(self.facts.alternatives),
            parts=self.facts.parts,
            persistent=self.persistent,
            uses_libdevice="libdevice" in self.body.helpers,
            functions=tuple(sorted(self.body.helpers - {"libdevice"})),
        )

    def _sizes(self) -> None:
        if self.tiles.described:
            for matrix in self.facts.operands.values():
                self._matrix_argument(matrix)
        inner = self.k.size(self.width)
        self.unrolled = self.facts.by_element and is_constant(inner) and inner[0] <= UNROLLED
        sizes = (
            self.m,
            self.n,
            *(() if self.unrolled else (self.k,)),
            *((self.facts.side,) if self.kernel.side else ()),
        )
        self.limits = {
            dimension.name: self.arguments.size_argument(dimension.size(self.width), dimension.plural)
            for dimension in sizes
        }
        if self.tiles.described and self.kernel.batch:
            self.limits["batch"] = self.arguments.size_argument(self.batch.size(self.width), "batches")

    def _one_tile(self) -> None:
        """Write the kernel with one tile per program."""
        body, columns = self.body, self.limits["n"]
        if self._is_grouped():
            body.line(f"tile = {self._program_of_tile()}")
        body.line(f"tiles_n = tl.cdiv({columns}, BLOCK_N)")
        self._tile_position("tile" if self._is_grouped() else self._program_of_tile())
        self._inner_loop()
        self._results_stored({})

    def _all_tiles(self) -> None:
        """Write the persistent kernel, whose programs take one tile after another."""
        body, rows, columns = self.body, self.limits["m"], self.limits["n"]
        results = self.facts.results()
        body.comment("Matrices are tensor descriptors, or pointers if they are not aligned for descriptors.")
        body.line(f"tiles_n = tl.cdiv({columns}, BLOCK_N)")
        body.line(f"tiles = tl.cdiv({rows}, BLOCK_M) * tiles_n")
        # A flattened loop pipelines loads across tiles; with pointers that would take too many registers.
        count = "program" if self.kernel.batch else "tile"
        last = f"tiles * {self.limits['batch']}" if self.kernel.batch else "tiles"
        loop = f"for {count} in tl.range(tl.program_id(0), {last}, tl.num_programs(0), flatten=DESCRIBED):"
        with body.loop(loop, "m", "n", "batch"):
            if self.kernel.batch:
                body.line(
                    f"batch = program // tiles{'.to(tl.int64)' if needs_int64(self.drafting, self.kernel) else ''}"
                )
                body.line("tile = program % tiles")
            self._tile_position("tile")
            self._inner_loop()
            self._results_stored(results)

    def _tile_position(self, tile: str) -> None:
        body, wide = self.body, needs_int64(self.drafting, self.kernel)
        if self._is_grouped():
            body.comment(
                f"Tiles are numbered in groups of {GROUP} rows of tiles, so that neighbours share loads in the cache."
            )
            body.line(f"first_tile = tile // ({GROUP} * tiles_n) * {GROUP}")
            body.line(f"group_rows = tl.minimum(tl.cdiv({self.limits['m']}, BLOCK_M) - first_tile, {GROUP})")
            body.line(f"tile_m = first_tile + tile % ({GROUP} * tiles_n) % group_rows")
            body.line(f"tile_n = tile % ({GROUP} * tiles_n) // group_rows")
        else:
            body.line(f"tile_m = {tile} // tiles_n")
            body.line(f"tile_n = {tile} % tiles_n")
        body.line(f"m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M){'.to(tl.int64)' if wide else ''}")
        body.line(f"n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N){'.to(tl.int64)' if wide else ''}")
        if self.kernel.batch and not self.tiles.described:
            body.line(f"batch = {program_id(0 if self.first_batch else 1, wide)}")

    def _program_of_tile(self) -> str:
        return f"tl.program_id({1 if self.first_batch else 0})"

    def _is_grouped(self) -> bool:
        m, n = self.m.size(self.width)[0], self.n.size(self.width)[0]
        return -(-m // self.tiles.rows) > 1 and -(-n // self.tiles.columns) > 1

    def _inner_loop(self) -> None:
        body, sums = self.body, dict(zip(self.facts.dots, ACCUMULATORS))
        for name in sums.values():
            body.line(f"{name} = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
        if self.facts.by_element:
            self._loop_over_elements()
            return
        begin, end, step = "0", self.limits["k"], "BLOCK_K"
        if self.facts.by_taps:
            # One loop over all steps of all taps, so that loads of the next tap overlap with the product of this one.
            if end in self.arguments.sizes:  # a constant for the compiler, because it is a divisor
                self.arguments.divisors.add(end)
            body.line(f"blocks = tl.cdiv({end}, BLOCK_K)")
            end, step = f"{body.size(self.facts.taps.size(self.width), 'taps')} * blocks", "1"
        if self.kernel.part is not None:
            body.line("part = tl.program_id(2)")
            body.line(f"span = tl.cdiv({end}, {self.kernel.part.size[0]} * {step}) * {step}".removesuffix(" * 1"))
            body.line(f"last = tl.minimum((part + 1) * span, {end})")
            begin, end = "part * span", "last"
        dimensions: tuple[str, ...] = () if self.tiles.described else ("k",)
        header = f"for start in range({begin}, {end}, BLOCK_K):"
        if self.facts.by_taps:
            header, dimensions = f"for step in range({begin}, {end}):", ("k", "tap")
        with body.loop(header, *dimensions):
            operands = self._described_or_not() if self.tiles.described else self._pointed_at()
            for dot, name in sums.items():
                if self.facts.parts is not None:
                    self._three_products(operands[dot], name)
                    continue
                left, right = operands[dot]
                body.line(f"{name} = tl.dot({left}, {right}, {name}{self._precision()})")
        for dot, name in sums.items():
            self._low_rank_product(self.kernel.nodes[dot].arguments[2:], name)

    def _three_products(self, operands: tuple[str, ...], total: str) -> None:
        """Write a float32 product as three TF32 products. Only the sum of one step is kept in the matrix unit, which
        rounds it towards zero.
        """
        body, (left, right, rest) = self.body, operands
        body.helpers |= {"cut_to_tf32", "nearest_tf32"}
        high, low, part = (self.arguments.names.new(word) for word in (f"{left}_high", f"{left}_low", "part"))
        body.line(f"{high} = cut_to_tf32({left})")
        body.line(f"{low} = nearest_tf32({left} - {high})")
        body.line(f'{part} = tl.dot({low}, {right}, input_precision="tf32")')
        body.line(f'{part} = tl.dot({high}, {rest}, {part}, input_precision="tf32")')
        body.line(f'{total} += tl.dot({high}, {right}, {part}, input_precision="tf32")')

    def _loop_over_elements(self) -> None:
        """Write the loop over single elements along the inner dimension, inside a loop over taps if there are any."""
        body, taps = self.body, self.facts.taps
        with contextlib.ExitStack() as loops:
            if taps.axes:
                count = body.size(taps.size(self.width), "taps")
                loops.enter_context(body.loop(f"for tap in range({count}):", "tap"))
            inner = self.k.size(self.width)[0]
            steps = f"tl.static_range({inner})" if self.unrolled else f"range({self.limits['k']})"
            loops.enter_context(body.loop(f"for k in {steps}:", "k"))
            left, right = self.kernel.nodes[self.facts.dot].arguments[:2]
            assert isinstance(left, int) and isinstance(right, int)
            body.place = Place(suffixes={"m": "[:, None]"}, mask=self._mask)
            factor = body.text(left).within(Binding.PRODUCT)
            body.place = Place(suffixes={"n": "[None, :]"}, mask=self._mask)
            body.line(f"{ACCUMULATORS[0]} += {factor} * {body.text(right).within(Binding.UNARY)}")

    def _low_rank_product(self, arguments: Sequence[int | Number], name: str) -> None:
        """Write one more step with a factor. It follows the loop: as an initial value it would delay the loop's
        pipeline.
        """
        if not arguments:
            return
        body, dtype, (left, right, factor) = self.body, self.facts.operand_dtype(), arguments
        assert isinstance(factor, Number)
        body.line("side = tl.arange(0, BLOCK_SIDE)")
        a = self._operand(left, {"m": "[:, None]", "side": "[None, :]"})
        b = self._operand(right, {"side": "[:, None]", "n": "[None, :]"})
        if factor.values[0] != 1.0:
            a = f"({a}.to(tl.float32) * {body.literal(factor, 'float32')}).to(tl.{dtype})"
        body.line(f"{name} = tl.dot({a}, {b}, {name})")

    def _pointed_at(self) -> dict[int, tuple[str, ...]]:
        """Write the operands of each product as loads through pointers."""
        if self.facts.by_taps:
            self.body.line("tap = step // blocks")
            self.body.line("k = step % blocks * BLOCK_K + tl.arange(0, BLOCK_K)")
        else:
            self.body.line("k = start + tl.arange(0, BLOCK_K)")
        found: dict[int, tuple[str, ...]] = {}
        for dot in self.facts.dots:
            left, right = self.kernel.nodes[dot].arguments[:2]
            name = self._operand(left, {"m": "[:, None]", "k": "[None, :]"})
            found[dot] = name, self._operand(right, {"k": "[:, None]", "n": "[None, :]"})
            if self.facts.parts is not None:
                found[dot] = (*found[dot], self.body.named(self.facts.parts.rest))
        return found

    def _described_or_not(self) -> dict[int, tuple[str, ...]]:
        """Write the operands of each product as loads of whole tiles, with pointers as the alternative branch."""
        outer, matrices = self.body.scope, self.facts.operands
        self.body.pointers = {source: self._matrix_argument(matrix) for source, matrix in matrices.items()}
        with self.body.loop("else:", "k"):
            found = self._pointed_at()
            outer.line("if DESCRIBED:")
            named: dict[str, str] = {}
            for dot, names in found.items():
                sources = [self.facts.source(argument) for argument in self.kernel.nodes[dot].arguments[:2]]
                sources += [self.facts.parts.rest] if self.facts.parts is not None else []
                for name, source, down in zip(names, sources, (self.m, self.k, self.k)):
                    matrix = matrices[source]
                    turned = "" if matrix.batch is None else f".reshape({', '.join(matrix.block)})"
                    turned += "" if matrix.down == down else ".T"
                    named[name] = f"{self._matrix_argument(matrix)}.load([{self._corner(matrix)}]){turned}"
            for name, text in named.items():
                outer.line(f"{INDENT}{name} = {text}")
        return found

    def _matrix_argument(self, matrix: Matrix) -> str:
        """Return the argument that is the matrix's descriptor or points to it."""
        return self.arguments.matrix(matrix, self.drafting.host.tensor_name(matrix.value))

    def _corner(self, matrix: Matrix) -> str:
        """Return the coordinates of the tile; descriptors take 32-bit numbers only."""
        starts = {"m": "tile_m * BLOCK_M", "n": "tile_n * BLOCK_N", "k": "start"}
        before = "" if is_constant(matrix.before, 0) else f"{self.body.size(matrix.before, 'before')} + "
        narrow = ".to(tl.int32)" if needs_int64(self.drafting, self.kernel) else ""
        batch = "" if matrix.batch is None else f"batch{narrow}, "
        return f"{batch}{before}{starts[matrix.down.name]}, {starts[matrix.across.name]}"

    def _results_stored(self, described: Mapping[int, Matrix]) -> None:
        body = self.body
        body.fillers = {}
        body.place = Place(suffixes={"m": "[:, None]", "n": "[None, :]"}, mask=self._mask)
        body.replaced |= {dot: Text(name) for dot, name in zip(self.facts.dots, ACCUMULATORS)}
        for position, root in enumerate(self.kernel.roots):
            if position not in described:
                stores(body, self.drafting, [position])
                continue
            matrix, made = described[position], body.named(root.node)
            by_pointers = store(
                body, root, self.drafting.host.tensor_name(root.value), self._matrix_argument(matrix), made
            )
            body.line("if DESCRIBED:")
            tile = made if matrix.batch is None else f"{made}.reshape({', '.join(['1', *matrix.block])})"
            body.line(f"{INDENT}{self._matrix_argument(matrix)}.store([{self._corner(matrix)}], {tile})")
            body.line("else:")
            body.line(f"{INDENT}{by_pointers}")

    def _operand(self, argument: int | Number, suffixes: dict[str, str]) -> str:
        self.body.place = Place(suffixes=suffixes, mask=self._mask)
        return operand(self.body, self.drafting, argument, self.facts.operand_dtype())

    def _precision(self) -> str:
        if self.facts.half:
            return ""
        if self.facts.tf32:
            return ', input_precision="tf32"'
        return f', input_precision="{self.drafting.float32_products}"'

    def _mask(self, dimensions: frozenset[str]) -> str:
        suffixes = self.body.place.suffixes
        used = [d for d in ("m", "n", "k", "side") if d in dimensions and d in suffixes]
        parts = [f"{d}{suffixes[d]} < {self.limits[d]}" for d in used]
        if self.facts.by_taps and "k" in used:  # decided at compile time, so that a step needs no comparison
            place = used.index("k")
            parts[place] = f"({parts[place]}) | ({self.limits['k']} % BLOCK_K == 0)"
        return f"({') & ('.join(parts)})" if len(parts) > 1 else "".join(parts)
