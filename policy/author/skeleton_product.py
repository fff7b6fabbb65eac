"""Matrix products: a tile of the result for each program, the inner dimension in steps, then whatever follows.

What follows the product (bias, activation, residual, scale) happens on the tile while it is in registers. Programs
are numbered so that those that run at the same time share rows and columns in the L2 cache. Half precision goes to
the matrix unit as it is and is summed in float32; float32 in full precision or as three products of TF32.
"""

from __future__ import annotations

from triton_agent.policy.author.arguments import Arguments
from triton_agent.policy.author.body import Place, Text
from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.kernel_plan import Kernel
from triton_agent.policy.author.points import Binding
from triton_agent.policy.author.product_tiles import ranked
from triton_agent.policy.author.program import Number
from triton_agent.policy.author.skeleton import (
    BlockSize,
    GridEntry,
    KernelText,
    Setting,
    program_id,
    stores,
)
from triton_agent.policy.author.tiling import Dimension, along_reduced

HALF = ("float16", "bfloat16")
_OWN_WORDS = ("start", "accumulator", "span", "last", "tile", "tiles_n", "tile_m", "tile_n", "first_tile", "group_rows")
"""Variables of the skeleton, which nothing else in a kernel may be called."""
LONG_FUNCTIONS = {"gelu": 2, "erf": 2, "gelu_tanh": 1, "tanh": 1, "sigmoid": 1, "silu": 1, "exp": 1, "mish": 2}
"""What their polynomials take of the registers, roughly."""
TOGETHER = 4
"""Elements that have to be loaded at once for a copy that needs no registers: 16 bytes of float32, 8 of a half."""
GROUP = 8
"""Rows of tiles that are worked through together."""


def write(kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _Product(kernel, setting, name, comment).text()


class _Product:
    def __init__(self, kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.setting, self.name, self.comment = kernel, setting, name, comment
        self.width = setting.program.width
        self.dot = next(i for i in sorted(kernel.live()) if kernel.nodes[i].kind == "dot")
        self.m = Dimension(name="m", plural="rows", axes=kernel.rows)
        self.n = Dimension(name="n", plural="columns", axes=kernel.columns)
        self.k = Dimension(name="k", plural="inner", axes=kernel.reduced)
        self.batch = Dimension(name="batch", plural="batches", axes=kernel.batch)
        self.half = self._operand_dtype() in HALF
        self.alternatives = self._alternatives()
        self.tiles = self._tiles()
        self.arguments = Arguments(self.width)
        for word in ("m", "n", "k", "batch", *_OWN_WORDS):
            self.arguments.names.new(word)
        dimensions = (self.m, self.n, self.k, *((self.batch,) if kernel.batch else ()))
        if kernel.part is not None:
            self.arguments.names.new("part")
            dimensions = (*dimensions, Dimension(name="part", plural="parts", axes=(kernel.part,)))
        self.body = setting.body(kernel, self.arguments, dimensions)
        self.body.fillers = {i: 0.0 for i, node in enumerate(kernel.nodes) if node.kind == "load"}

    # -- decisions -------------------------------------------------------------------------------------------------

    def _operand_dtype(self) -> str:
        """What the matrix unit is fed: half precision where both operands are stored so."""
        stored = {self._stored_dtype(argument) for argument in self.kernel.nodes[self.dot].arguments}
        only = stored.pop() if len(stored) == 1 else None
        return only if only in HALF else self.kernel.nodes[self.dot].function

    def _stored_dtype(self, argument: int | Number) -> str | None:
        while isinstance(argument, int):
            node = self.kernel.nodes[argument]
            if node.kind == "load":
                return self.setting.dtype_of(node.tensor)
            if node.kind != "choose" and not (node.kind == "point" and node.function == "cast"):
                return None
            argument = node.arguments[0]
        return None

    def _tiles(self) -> Tiles:
        """As wanted; else the most promising ones, which the others stay beside as alternatives."""
        wanted = self.setting.tiles
        best = self.alternatives[0]
        return Tiles(
            rows=wanted.rows or best.rows,
            columns=wanted.columns or best.columns,
            inner=wanted.inner or best.inner,
            warps=wanted.warps or best.warps,
            stages=wanted.stages or best.stages,
        )

    def _alternatives(self) -> list[Tiles]:
        m, n, k = (d.size(self.width)[0] for d in (self.m, self.n, self.k))
        copies = self.batch.size(self.width)[0] * (1 if self.kernel.part is None else self.kernel.part.size[0])
        setting = self.setting
        return ranked(
            m,
            n,
            k,
            copies,
            half=self.half,
            on_cuda=setting.on_cuda,
            warpgroups=setting.warpgroups,
            scattered=self._is_scattered(),
            follow_up=self._follow_up(),
            # In the interpreter a program takes as long whatever its tile.
            processors=1 if setting.interpreted else setting.processors,
        )

    def _follow_up(self) -> int:
        """What is loaded for every element of the result, and the functions that take many instructions."""
        live, reduced = self.kernel.live(), set(self.kernel.reduced)
        rows, columns = set(self.kernel.rows), set(self.kernel.columns)
        nodes = [self.kernel.nodes[i] for i in live]
        axes = [node.index.axes() for node in nodes if node.kind == "load" and node.index is not None]
        full = sum(1 for found in axes if found & rows and found & columns and not found & reduced)
        return full + sum(LONG_FUNCTIONS.get(node.function, 0) for node in nodes if node.kind == "point")

    def _is_scattered(self) -> bool:
        """Whether operands are read one by one, as a convolution reads its windows: their addresses take registers."""
        reduced = set(self.kernel.reduced)
        for node in along_reduced(self.kernel):
            assert node.index is not None
            steps = [step[0] for _, step in node.index.terms]
            if node.guards or len(node.index.axes() & reduced) > 2 or any(s > 1 and s % TOGETHER for s in steps):
                return True
        return False

    def _precision(self) -> str:
        if self.half:
            return ""
        if self.setting.allow_tf32:
            return ', input_precision="tf32"'
        return f', input_precision="{self.setting.float32_products}"'

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        self._tile_position()
        self._inner_loop()
        self.body.fillers = {}
        self.body.place = Place(suffixes={"m": "[:, None]", "n": "[None, :]"}, mask=self._mask)
        self.body.replaced[self.dot] = Text("accumulator")
        stores(self.body, self.setting)
        tiles = self.tiles
        blocks = {
            "BLOCK_M": BlockSize(value=tiles.rows),
            "BLOCK_N": BlockSize(value=tiles.columns),
            "BLOCK_K": BlockSize(value=tiles.inner),
        }
        grid = [GridEntry(parts=((self.m.size(self.width), "BLOCK_M"), (self.n.size(self.width), "BLOCK_N")))]
        if self.kernel.batch or self.kernel.part is not None:
            grid.append(GridEntry(parts=((self.batch.size(self.width), 1),)))
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
            alternatives=tuple(self.alternatives),
            uses_libdevice="libdevice" in self.body.helpers,
        )

    def _tile_position(self) -> None:
        body, wide = self.body, self.setting.needs_int64(self.kernel)
        self.limits = {
            dimension.name: self.arguments.size_argument(dimension.size(self.width), dimension.plural)
            for dimension in (self.m, self.n, self.k)
        }
        rows, columns = self.limits["m"], self.limits["n"]
        if self._is_grouped():
            body.comment(
                f"Tiles are taken in groups of {GROUP} rows of tiles, so that neighbours share what they read."
            )
            body.line("tile = tl.program_id(0)")
            body.line(f"tiles_n = tl.cdiv({columns}, BLOCK_N)")
            body.line(f"first_tile = tile // ({GROUP} * tiles_n) * {GROUP}")
            body.line(f"group_rows = tl.minimum(tl.cdiv({rows}, BLOCK_M) - first_tile, {GROUP})")
            body.line(f"tile_m = first_tile + tile % ({GROUP} * tiles_n) % group_rows")
            body.line(f"tile_n = tile % ({GROUP} * tiles_n) // group_rows")
        else:
            body.line(f"tiles_n = tl.cdiv({columns}, BLOCK_N)")
            body.line("tile_m = tl.program_id(0) // tiles_n")
            body.line("tile_n = tl.program_id(0) % tiles_n")
        body.line(f"m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M){'.to(tl.int64)' if wide else ''}")
        body.line(f"n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N){'.to(tl.int64)' if wide else ''}")
        if self.kernel.batch:
            body.line(f"batch = {program_id(1, wide)}")

    def _is_grouped(self) -> bool:
        m, n = self.m.size(self.width)[0], self.n.size(self.width)[0]
        return -(-m // self.tiles.rows) > 1 and -(-n // self.tiles.columns) > 1

    def _inner_loop(self) -> None:
        body, found = self.body, self.kernel.nodes[self.dot]
        body.line("accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
        begin, end = "0", self.limits["k"]
        if self.kernel.part is not None:
            body.line("part = tl.program_id(2)")
            body.line(f"span = tl.cdiv({end}, {self.kernel.part.size[0]} * BLOCK_K) * BLOCK_K")
            body.line(f"last = tl.minimum((part + 1) * span, {end})")
            begin, end = "part * span", "last"
        with body.loop(f"for start in range({begin}, {end}, BLOCK_K):", "k"):
            body.line("k = start + tl.arange(0, BLOCK_K)")
            left = self._operand(found.arguments[0], {"m": "[:, None]", "k": "[None, :]"})
            right = self._operand(found.arguments[1], {"k": "[:, None]", "n": "[None, :]"})
            body.line(f"accumulator = tl.dot({left}, {right}, accumulator{self._precision()})")

    def _operand(self, argument: int | Number, suffixes: dict[str, str]) -> str:
        assert isinstance(argument, int)
        body = self.body
        body.place = Place(suffixes=suffixes, mask=self._mask)
        wanted = self._operand_dtype()
        source = argument
        if self._stored_dtype(argument) == wanted:
            while self.kernel.nodes[source].kind == "point":
                inner = self.kernel.nodes[source].arguments[0]
                assert isinstance(inner, int)
                source = inner
            body.raw = True
        try:
            text = body.text(source)
        finally:
            body.raw = False
        if self._stored_dtype(argument) != wanted and wanted in HALF:
            return f"{text.within(Binding.ATOM)}.to(tl.{wanted})"
        return text.text

    def _mask(self, dimensions: frozenset[str]) -> str:
        suffixes = self.body.place.suffixes
        parts = [f"{d}{suffixes[d]} < {self.limits[d]}" for d in ("m", "n", "k") if d in dimensions and d in suffixes]
        return f"({') & ('.join(parts)})" if len(parts) > 1 else "".join(parts)
