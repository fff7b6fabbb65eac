"""Attention with an online softmax: a program holds a few queries and goes through the keys in blocks.

For each query the program keeps the largest score so far, the sum of the exponentials, and the sum of the values
weighted by them. When a larger score comes, both sums are rescaled. The scores are never stored (Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).

Blocks in which the mask shows every key to every query have a loop of their own, which does not evaluate the mask.
Blocks in which it shows none are skipped (`visible_keys.py`). Exponents are of base two, as the GPU computes them; if
the scores are a multiple of the product, its factor is folded into them, which leaves one operation for each score
before the exponential. Other scores may be so large that this would lose the largest one's exponent of zero.

In half precision, tensor descriptors load keys and values of blocks that need no mask, if both are whole rows of their
tensors (`descriptors.py`). Other blocks are loaded by pointers.

Not covered: keys split into parts for several programs, where there are few queries.
"""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import INDENT, Place, Text
from triton_agent.policy.author.emit.kernel_text import Wide
from triton_agent.policy.author.emit.skeleton import (
    MOST_ASIDE,
    BlockSize,
    GridEntry,
    KernelText,
    body_of,
    needs_int64,
    operand,
    program_id,
    stores,
)
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.ir.program import HALF, ITEM_BYTES, WIDEST_HEAD, Number
from triton_agent.policy.author.ir.sizes import Size, is_constant, power_of_two
from triton_agent.policy.author.plan.indexing import Index
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import SMALLEST, Dimension
from triton_agent.policy.author.plan.visible_keys import visible_keys
from triton_agent.policy.author.tile.descriptors import Matrix, rows_of
from triton_agent.policy.author.tile.product_facts import cast_source, stored_dtype
from triton_agent.policy.author.tile.product_tiles import ranked_for_attention

LOG2_E = "1.4426950408889634"
_OWN_WORDS = (
    *("tile", "start", "end", "whole", "products", "scores", "highest", "anchor", "power", "kept"),
    *("largest", "total", "accumulator", "scale", "first_key", "first_value", "keys_tile", "values_tile"),
)
"""Variables of the skeleton; no other name in the kernel may equal one."""


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _Attention(kernel, drafting, name, comment).text()


class _Attention:
    def __init__(self, kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.drafting, self.name, self.comment = kernel, drafting, name, comment
        self.width = drafting.width
        live = sorted(kernel.live())
        (self.attended,) = (i for i in live if kernel.nodes[i].kind == "attention")
        self.product = next((i for i in live if kernel.nodes[i].kind == "dot"), None)
        """The product of queries and keys; None if scores are loaded."""
        self.scores, self.values, self.empty = kernel.nodes[self.attended].arguments
        self.m = Dimension(name="m", plural="queries", axes=kernel.rows)
        self.n = Dimension(name="n", plural="columns", axes=kernel.columns)
        self.k = Dimension(name="k", plural="keys", axes=kernel.reduced)
        self.d = Dimension(name="d", plural="width", axes=kernel.side)
        self.batch = Dimension(name="batch", plural="batches", axes=kernel.batch)
        self.arguments = Arguments(self.width)
        for word in ("m", "n", "k", "d", "batch", *_OWN_WORDS):
            self.arguments.names.new(word)
        dimensions = [self.m, self.n, self.k]
        dimensions += [self.d] if kernel.side else []
        dimensions += [self.batch] if kernel.batch else []
        self.body = body_of(drafting, kernel, self.arguments, tuple(dimensions))
        self.body.fillers = {i: 0.0 for i in live if kernel.nodes[i].kind == "load"}
        assert isinstance(self.scores, int)
        if not {"m", "k"} <= self.body.along(self.scores):
            raise BeyondAuthor("the scores do not vary by query and key")
        self.visible = visible_keys(kernel, self.scores)
        self.factor = self._factor()
        """The number by which the product is multiplied to give unmasked scores; None for other scores."""
        self.rows = self._rows()
        """Keys and values as rows of their tensors, each with the number of the first row. Empty if they are not rows,
        if there are other scores, or if every block needs a mask.
        """
        self.alternatives = self._alternatives()
        best, wanted = self.alternatives[0], drafting.tiles
        self.tiles = Tiles(
            rows=wanted.rows or best.rows,
            inner=wanted.inner or best.inner,
            warps=wanted.warps or best.warps,
            stages=wanted.stages or best.stages,
            described=bool(self.rows and (best.described if wanted.described is None else wanted.described)),
        )
        self.is_masked = False
        """True while writing a block that extends beyond the last key or that the mask hides in part."""

    def _alternatives(self) -> list[Tiles]:
        queries, keys, columns, width, copies = (
            dimension.size(self.width)[0] for dimension in (self.m, self.k, self.n, self.d, self.batch)
        )
        hardware = self.drafting.brief.hardware
        return ranked_for_attention(
            queries,
            keys,
            (width, columns),
            copies,
            half=self._values_dtype() in HALF,
            on_cuda=self.drafting.on_cuda,
            warpgroups=self.drafting.warpgroups,
            interpreted=self.drafting.interpreted,
            processors=hardware.processors,
            shared_limit_bytes=hardware.shared_bytes,
            describable=bool(self.rows) and self.drafting.warpgroups and not self.drafting.interpreted,
            plain=self.factor is not None,
        )

    def _factor(self) -> Number | None:
        node = self.scores
        while node in self.visible.decided:
            yes, no = self.kernel.nodes[node].arguments[1:]
            node = no if isinstance(yes, Number) else yes
        if self.product is None or not isinstance(node, int):
            return None
        if node == self.product:
            return Number((1.0,) * self.width)
        found = self.kernel.nodes[node]
        if (found.kind, found.function) != ("point", "mul") or self.product not in found.arguments:
            return None
        number = next((argument for argument in found.arguments if isinstance(argument, Number)), None)
        return number if number is not None and all(value > 0 for value in number.values) else None

    def _rows(self) -> dict[str, tuple[Matrix, Index]]:
        if self.product is None or not self.kernel.side or self.factor is None or self.visible.first is not None:
            return {}
        keys, dtypes = self.kernel.nodes[self.product].arguments[1], (self._keys_dtype(), self._values_dtype())
        found: dict[str, tuple[Matrix, Index]] = {}
        for name, argument, across, dtype in zip(("keys", "values"), (keys, self.values), (self.d, self.n), dtypes):
            if dtype not in HALF or stored_dtype(self.kernel, self.drafting, argument) != dtype:
                return {}
            load = self.kernel.nodes[cast_source(self.kernel, argument)]
            if load.kind != "load" or load.index is None or load.guards:
                return {}
            value = self.drafting.program.values[load.tensor]
            elements = tuple(value.elements(at) for at in range(self.width))
            rows = rows_of(load.tensor, load.index, self.k, across, elements, ITEM_BYTES[dtype])
            if rows is None:
                return {}
            found[name] = rows
        return found

    # -- dtypes of the matrix unit's operands
    # ---------------------------------------------------------------------------

    def _values_dtype(self) -> str:
        dtype = self.kernel.nodes[self.attended].function
        return dtype if dtype in HALF else "float32"

    def _keys_dtype(self) -> str:
        """Return half precision if queries and keys are both stored in it."""
        assert self.product is not None
        node = self.kernel.nodes[self.product]
        stored = {stored_dtype(self.kernel, self.drafting, argument) for argument in node.arguments[:2]}
        only = stored.pop() if len(stored) == 1 else None
        return only if only in HALF else node.function

    def _precision(self, dtype: str) -> str:
        if dtype in HALF:
            return ""
        allowed = self.drafting.brief.allow_tf32
        return f', input_precision="{"tf32" if allowed else self.drafting.float32_products}"'

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        dimensions = [self.m, self.n, self.k, *([self.d] if self.kernel.side else [])]
        self.limits = {d.name: self.arguments.size_argument(d.size(self.width), d.plural) for d in dimensions}
        self._position()
        body = self.body
        body.line('largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)')
        body.line("total = tl.zeros((BLOCK_M,), tl.float32)")
        body.line("accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
        if self.factor is not None and self._scale(self.factor) == "scale":
            body.line(f"scale = {body.literal(self.factor, 'float32')} * {LOG2_E}")
        self._first_rows()
        self._all_keys()
        self._results()
        tiles, grid = self.tiles, [GridEntry(parts=((self.m.size(self.width), "BLOCK_M"),))]
        if self.kernel.batch:
            grid.insert(0 if self._batch_first() else 1, GridEntry(parts=((self.batch.size(self.width), 1),)))
        wide = self._wide()
        blocks = {"BLOCK_M": BlockSize(value=tiles.rows, wide=wide), "BLOCK_K": BlockSize(value=tiles.inner, wide=wide)}
        blocks["BLOCK_N"] = BlockSize(value=self.n.size(self.width), at_least=SMALLEST)
        if self.kernel.side:
            blocks["BLOCK_D"] = BlockSize(value=self.d.size(self.width), at_least=SMALLEST)
        return KernelText(
            kernel=self.kernel,
            name=self.name,
            comment=self.comment,
            lines=tuple(body.scope.lines),
            arguments=self.arguments,
            grid=tuple(grid),
            blocks=blocks,
            tiles=tiles,
            alternatives=tuple(self.alternatives),
            uses_libdevice="libdevice" in body.helpers,
            functions=tuple(sorted(body.helpers - {"libdevice"})),
        )

    def _wide(self) -> Wide | None:
        """Return the smallest block for heads at other sizes that are too wide for the tiles of the main sizes."""
        widths = tuple(dimension.size(self.width) for dimension in (self.d, self.n) if dimension.axes)
        if max(map(max, widths)) <= WIDEST_HEAD:
            return None
        return Wide(sizes=widths, at_most=WIDEST_HEAD, value=SMALLEST)

    def _batch_first(self) -> bool:
        """Return True if the batch needs the first dimension of the grid, the only one without a limit."""
        return max(self.batch.size(self.width)) > MOST_ASIDE

    def _position(self) -> None:
        body, wide = self.body, needs_int64(self.drafting, self.kernel)
        axis = 1 if self.kernel.batch and self._batch_first() else 0
        if self.visible.last is None:
            body.line(f"tile = tl.program_id({axis})")
        else:
            body.comment("Later queries see more keys. Start with them, because their programs take longest.")
            body.line(f"tile = tl.num_programs({axis}) - 1 - tl.program_id({axis})")
        if self.kernel.batch:
            body.line(f"batch = {program_id(1 - axis, wide)}")
        suffix = ".to(tl.int64)" if wide else ""
        body.line(f"m = tile * BLOCK_M + tl.arange(0, BLOCK_M){suffix}")
        body.line(f"n = tl.arange(0, BLOCK_N){suffix}")
        if self.kernel.side:
            body.line(f"d = tl.arange(0, BLOCK_D){suffix}")

    def _first_rows(self) -> None:
        """Write the numbers of the rows at which this program's keys and values begin; descriptors take 32 bits."""
        if not self.tiles.described:
            return
        narrow = ".to(tl.int32)" if needs_int64(self.drafting, self.kernel) else ""
        for name, word in (("keys", "first_key"), ("values", "first_value")):
            matrix, first = self.rows[name]
            self.arguments.matrix(matrix, self.drafting.host.tensor_name(matrix.value))
            self.body.place = Place()
            text = self.body.index(first)
            self.body.line(f"{word} = {text.within(Binding.ATOM) + narrow if narrow and first.terms else text.text}")

    def _all_keys(self) -> None:
        """Write the loops over the keys that any query of the tile sees, first over blocks that need no mask."""
        body, keys, visible, block = self.body, self.limits["k"], self.visible, self.tiles.inner
        size = self.k.size(self.width)
        begin, end = "0", keys
        if visible.last is not None:
            end = f"tl.minimum({keys}, {self._moved('(tile + 1) * BLOCK_M', visible.last)})"
            body.line(f"end = {end}")
            end = "end"
        if visible.first is not None:
            begin = f"tl.maximum(0, {self._moved('tile * BLOCK_M', visible.first)}) // BLOCK_K * BLOCK_K"
            self._blocks(begin, end, masked=True)
            return
        if visible.last is None and is_constant(size) and size[0] % block == 0:
            self._blocks(begin, end, masked=False)
            return
        whole = keys
        if visible.last is not None:
            body.comment("In the blocks before `whole`, every query sees every key.")
            whole = f"tl.maximum(0, tl.minimum({keys}, {self._moved('tile * BLOCK_M', visible.last)}))"
        body.line(f"whole = {whole} // BLOCK_K * BLOCK_K")
        self._blocks(begin, "whole", masked=False)
        self._blocks("whole", end, masked=True)

    def _moved(self, text: str, by: Size) -> str:
        if is_constant(by, 0):
            return text
        is_negative = all(entry <= 0 for entry in by)
        amount = self.body.size(tuple(-entry for entry in by) if is_negative else by, "shift")
        return f"{text} {'-' if is_negative else '+'} {amount}"

    def _blocks(self, begin: str, end: str, *, masked: bool) -> None:
        body, self.is_masked = self.body, masked
        before = dict(body.replaced)
        described = self.tiles.described and not masked
        # Nothing but loads by pointers varies with the keys then, so their block of lines is where it belongs.
        with body.loop(f"for start in range({begin}, {end}, BLOCK_K):", *(() if described else ("k",))):
            if not described:
                self._positions_of_keys()
            tiles = self._tiles_of_rows() if described else {}
            self._shares_of_block(tiles.get("keys"), masked=masked)
            dtype = self._values_dtype()
            shares = f"power.to(tl.{dtype})" if dtype in HALF else "power"
            values = tiles.get("values") or self._operand(self.values, {"k": "[:, None]", "n": "[None, :]"}, dtype)
            sums = "accumulator * kept[:, None]"
            body.line(f"accumulator = tl.dot({shares}, {values}, {sums}{self._precision(dtype)})")
        body.replaced = before

    def _positions_of_keys(self) -> None:
        suffix = ".to(tl.int64)" if needs_int64(self.drafting, self.kernel) else ""
        self.body.line(f"k = start + tl.arange(0, BLOCK_K){suffix}")

    def _shares_of_block(self, keys: str | None, *, masked: bool) -> None:
        """Write the exponentials of a block's scores, and rescale the sum of the earlier ones."""
        body = self.body
        self._product_of_block(keys)
        if self.factor is not None and not masked:
            scores, scale = "products", self._scale(self.factor)
        else:
            text = self._block_of_scores()
            if masked:
                text = f'tl.where({self._inside("k", "[None, :]")}, {text}, float("-inf"))'
            body.line(f"scores = {text}")
            scores, scale = "scores", LOG2_E
        if self.factor is not None:  # `largest` is an exponent of two
            body.line(f"highest = tl.maximum(largest, tl.max({scores}, 1) * {scale})")
            power, kept = f"{scores} * {scale} - anchor[:, None]", "largest - anchor"
        else:
            body.line(f"highest = tl.maximum(largest, tl.max({scores}, 1))")
            power, kept = f"({scores} - anchor[:, None]) * {LOG2_E}", f"(largest - anchor) * {LOG2_E}"
        body.line('anchor = tl.where(highest == float("-inf"), 0.0, highest)')
        body.line(f"power = tl.exp2({power})")
        body.line(f"kept = tl.exp2({kept})")
        body.line("largest = highest")
        body.line("total = total * kept + tl.sum(power, 1)")

    def _scale(self, factor: Number) -> str:
        """Return the variable or number by which a product becomes an exponent of two."""
        return LOG2_E if factor.fixed and factor.values[0] == 1 else "scale"

    def _tiles_of_rows(self) -> dict[str, str]:
        """Write the loads of a block of keys and of values, by descriptors or by pointers; return their variables."""
        body, outer = self.body, self.body.scope
        assert self.product is not None
        keys = self.kernel.nodes[self.product].arguments[1]
        loads = {
            "keys": (keys, {"d": "[:, None]", "k": "[None, :]"}, self._keys_dtype()),
            "values": (self.values, {"k": "[:, None]", "n": "[None, :]"}, self._values_dtype()),
        }
        names = {}
        with body.loop("else:", "k"):
            self._positions_of_keys()
            for name, load in loads.items():
                names[name] = self._operand(*load)
                if not names[name].isidentifier():
                    body.line(f"{name}_tile = {names[name]}")
                    names[name] = f"{name}_tile"
            outer.line("if DESCRIBED:")
            for name, first, turned in (("keys", "first_key", ".T"), ("values", "first_value", "")):
                matrix, _ = self.rows[name]
                described = self.arguments.matrix(matrix, self.drafting.host.tensor_name(matrix.value))
                outer.line(f"{INDENT}{names[name]} = {described}.load([{first} + start, 0]){turned}")
        return names

    def _product_of_block(self, keys: str | None) -> None:
        """Write the product of queries and keys, if the kernel computes it; `keys` is the variable of its keys."""
        if self.product is None:
            return
        queries, source = self.kernel.nodes[self.product].arguments[:2]
        dtype = self._keys_dtype()
        left = self._operand(queries, {"m": "[:, None]", "d": "[None, :]"}, dtype)
        right = keys or self._operand(source, {"d": "[:, None]", "k": "[None, :]"}, dtype)
        self.body.line(f"products = tl.dot({left}, {right}{self._precision(dtype)})")
        self.body.replaced[self.product] = Text("products")

    def _block_of_scores(self) -> str:
        body = self.body
        body.place = Place(suffixes={"m": "[:, None]", "k": "[None, :]"}, mask=self._mask)
        if not self.is_masked:
            for node in sorted(self.visible.decided):  # inner choices before those around them
                yes, no = self.kernel.nodes[node].arguments[1:]
                score = no if isinstance(yes, Number) else yes
                assert isinstance(score, int)
                body.replaced[node] = body.text(score)
        assert isinstance(self.scores, int)
        return body.text(self.scores).text

    def _operand(self, argument: int | Number, suffixes: dict[str, str], dtype: str) -> str:
        self.body.place = Place(suffixes=suffixes, mask=self._mask)
        return operand(self.body, self.drafting, argument, dtype)

    def _mask(self, dimensions: frozenset[str]) -> str:
        suffixes = self.body.place.suffixes
        used = [d for d in ("m", "k", "n", "d") if d in dimensions and d in suffixes and (d != "k" or self.is_masked)]
        parts = [self._inside(d, suffixes[d]) for d in used]
        return f"({') & ('.join(parts)})" if len(parts) > 1 else "".join(parts)

    def _inside(self, name: str, suffix: str) -> str:
        """Return the condition to be within the tensors. Where the block has the size of the dimension, it is
        constant.
        """
        limit, block = self.limits[name], {"n": "BLOCK_N", "d": "BLOCK_D"}.get(name)
        if block is not None:
            size = {"n": self.n, "d": self.d}[name].size(self.width)[0]
            if size == max(SMALLEST, power_of_two(size)):
                self.arguments.divisors.add(limit)  # becomes a constant for the compiler
                return f"({name}{suffix} < {limit}) | ({limit} == {block})"
        return f"{name}{suffix} < {limit}"

    def _results(self) -> None:
        body = self.body
        assert isinstance(self.empty, Number)
        if self.empty.values[0] == 0:
            body.comment("A query that sees no key gets zeros.")
            body.line("total = tl.where(total == 0.0, 1.0, total)")
        body.line("accumulator = accumulator / total[:, None]")
        body.fillers = {}
        body.place = Place(suffixes={"m": "[:, None]", "n": "[None, :]"}, mask=self._mask)
        body.replaced[self.attended] = Text("accumulator")
        stores(body, self.drafting)
