"""All steps of a recurrent layer in one kernel: a program holds a few rows of the batch and goes through the steps.

Rows of the batch do not depend on each other. A narrow layer keeps the weights of the state and the state itself in
registers from the first step to the last. A wider layer processes its columns block by block, and reads the weights and
the state of the step before from the cache: a barrier between two steps lets all threads of the program see what the
others stored.

Not covered: columns split over several programs, which would need a barrier across the GPU in each step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Place, Text
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
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.ir.program import HALF, ITEM_BYTES
from triton_agent.policy.author.ir.sizes import power_of_two
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import SMALLEST, Dimension
from triton_agent.policy.author.tile.product_facts import stored_dtype

HELD_BYTES = 1 << 16
"""Most bytes of weights that a program holds in registers, a quarter of all registers of a processor."""
HELD_IN_INTERPRETER = 1 << 18
"""The same in the interpreter, where a step takes longer the more blocks it has, whatever their size."""
_OWN_WORDS = ("turn", "first", "start", "state", "cell")


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _Recurrence(kernel, drafting, name, comment).text()


class _Recurrence:
    def __init__(self, kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.drafting, self.name, self.comment = kernel, drafting, name, comment
        self.width = drafting.width
        live = sorted(kernel.live())
        self.dots = [i for i in live if kernel.nodes[i].kind == "dot"]
        self.states = [i for i in live if kernel.nodes[i].kind == "state"]
        self.value = drafting.program.values[kernel.key]
        self.step = Dimension(name="step", plural="steps", axes=kernel.batch)
        self.m = Dimension(name="m", plural="rows", axes=kernel.rows)
        self.n = Dimension(name="n", plural="hidden", axes=kernel.columns)
        self.k = Dimension(name="k", plural="hidden", axes=kernel.reduced)
        self.arguments = Arguments(self.width)
        for word in ("step", "m", "n", "k", *_OWN_WORDS, *(f"total{i}" for i in range(len(self.dots)))):
            self.arguments.names.new(word)
        self.body = body_of(drafting, kernel, self.arguments, (self.step, self.m, self.n, self.k))
        varies = self.body.varies
        self.fresh = [i for i in live if kernel.nodes[i].kind == "load" and varies[i] & set(kernel.batch)]
        """Loads of the products of the inputs."""
        count = 1 + bool(self._cells())
        self.firsts, self.results = list(range(count)), list(range(count, 2 * count))
        """Positions of the roots that store the first state (and cell), and of those that every step stores."""
        self.body.fillers = {i: 0.0 for i in live if kernel.nodes[i].kind in ("load", "state")}
        stored = {stored_dtype(kernel, drafting, argument) for argument in kernel.nodes[self.dots[0]].arguments}
        only = stored.pop() if len(stored) == 1 else None
        self.dtype = only if only in HALF else "float32"
        """Dtype of the products' operands."""
        self.hidden = max(SMALLEST, power_of_two(self.value.shape[-1][0]))
        most = HELD_IN_INTERPRETER if drafting.interpreted else HELD_BYTES
        self.is_held = len(self.dots) * self.hidden**2 * ITEM_BYTES[self.dtype] <= most
        """True if the weights and the state stay in registers."""
        self.alternatives = self._alternatives()
        best, wanted = self.alternatives[0], drafting.tiles
        self.tiles = Tiles(
            rows=wanted.rows or best.rows,
            columns=best.columns if self.is_held else wanted.columns or best.columns,
            inner=best.inner if self.is_held else wanted.inner or best.inner,
            warps=wanted.warps or best.warps,
            stages=wanted.stages or best.stages,
        )

    def _alternatives(self) -> list[Tiles]:
        rows = SMALLEST
        if self.is_held:
            counts = (4, 8) if self.hidden <= 32 else (8, 4)
            return [Tiles(rows=rows, columns=self.hidden, inner=self.hidden, warps=n, stages=1) for n in counts]
        found = []
        for columns, inner, warps in ((64, 32, 8), (128, 32, 8), (32, 64, 4), (64, 64, 8)):
            columns, inner = min(self.hidden, columns), min(self.hidden, inner)
            step_bytes = inner * (rows + len(self.dots) * columns) * ITEM_BYTES[self.dtype]
            stages = max(1, min(4, self.drafting.brief.hardware.shared_bytes // step_bytes))
            found.append(Tiles(rows=rows, columns=columns, inner=inner, warps=warps, stages=stages))
        return list(dict.fromkeys(found))

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        body, arguments = self.body, self.arguments
        self.limits = {d.name: arguments.size_argument(d.size(self.width), d.plural) for d in (self.m, self.n, self.k)}
        arguments.divisors.add(self.limits["n"])  # a constant for the compiler, as in every call of the layer
        wide = needs_int64(self.drafting, self.kernel)
        self.suffix = ".to(tl.int64)" if wide else ""
        body.line(f"m = {program_id(0, wide)} * BLOCK_M + tl.arange(0, BLOCK_M)")
        if self.is_held:
            body.line(f"n = tl.arange(0, BLOCK_N){self.suffix}")
            body.line(f"k = tl.arange(0, BLOCK_K){self.suffix}")
        self._start()
        self._steps()
        return KernelText(
            kernel=self.kernel,
            name=self.name,
            comment=self.comment,
            lines=tuple(body.scope.lines),
            arguments=arguments,
            grid=(GridEntry(parts=((self.m.size(self.width), "BLOCK_M"),)),),
            blocks={
                "BLOCK_M": BlockSize(value=self.tiles.rows),
                "BLOCK_N": self._block(self.tiles.columns),
                "BLOCK_K": self._block(self.tiles.inner),
            },
            tiles=self.tiles,
            alternatives=tuple(self.alternatives),
            uses_libdevice="libdevice" in body.helpers,
            functions=tuple(sorted(body.helpers - {"libdevice"})),
        )

    def _block(self, block: int) -> BlockSize:
        """Return the block along the columns: all of them if they are held."""
        size = self.value.shape[-1]
        return BlockSize(value=size, at_least=SMALLEST) if self.is_held else BlockSize(value=block)

    def _start(self) -> None:
        """Store the first state, and an LSTM's first cell, where the first step finds them."""
        body = self.body
        with self._columns():
            self._place("m", "n")
            if self.is_held:
                for name, root in zip(("state", "cell"), self.firsts):
                    node = self.kernel.roots[root].node
                    tile = f"tl.full((BLOCK_M, BLOCK_N), {body.text(node).text}, tl.float32)"
                    if body.along(node):
                        tile = f"tl.zeros((BLOCK_M, BLOCK_N), tl.float32) + {body.text(node).within(Binding.SUM)}"
                    body.line(f"{name} = {tile}")
            stores(body, self.drafting, self.firsts)
        if not self.is_held:
            body.line("tl.debug_barrier()")

    def _steps(self) -> None:
        body, backwards = self.body, self.value.detail
        body.multiplies_sizes = True  # the places of the first states stay arguments, so that layers share a kernel
        steps = self.arguments.size_argument(self.step.size(self.width), "steps")
        if self.is_held:
            body.replaced = {i: Text("cell" if i in self._cells() else "state") for i in self.states}
        with body.loop(f"for {'turn' if backwards else 'step'} in range(0, {steps}):", "step"):
            if backwards:
                body.line(f"step = {steps} - 1 - turn")
            with self._columns():
                self._place("m", "n")
                for node in self.fresh:
                    body.named(node)  # loaded before the products, so that they hide its latency
                self._products()
                self._place("m", "n")
                stores(body, self.drafting, self.results)
                if self.is_held:
                    for name, root in zip(("state", "cell"), reversed(self.results)):
                        body.line(f"{name} = {body.text(self.kernel.roots[root].node).text}")
            if not self.is_held:
                body.comment("The next step reads what all threads of the program have stored.")
                body.line("tl.debug_barrier()")

    def _cells(self) -> list[int]:
        return [i for i in self.states if self.kernel.nodes[i].hint == "cell"]

    def _columns(self) -> contextlib.AbstractContextManager[None]:
        """Return the loop over blocks of columns; no loop if one block holds them all."""
        return contextlib.nullcontext() if self.is_held else self._column_loop()

    @contextlib.contextmanager
    def _column_loop(self) -> Iterator[None]:
        with self.body.loop(f"for first in range(0, {self.limits['n']}, BLOCK_N):", "n"):
            self.body.line(f"n = first + tl.arange(0, BLOCK_N){self.suffix}")
            yield

    def _products(self) -> None:
        """Write the products of the state with the weights of all gates."""
        body = self.body
        if self.is_held:
            state = "state" if self.dtype == "float32" else f"state.to(tl.{self.dtype})"
            for i, dot in enumerate(self.dots):
                body.line(f"total{i} = tl.dot({state}, {self._weight(dot)}{self._precision()})")
        else:
            for i in range(len(self.dots)):
                body.line(f"total{i} = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
            before = dict(body.replaced)
            with body.loop(f"for start in range(0, {self.limits['k']}, BLOCK_K):", "k"):
                body.line(f"k = start + tl.arange(0, BLOCK_K){self.suffix}")
                for i, dot in enumerate(self.dots):
                    self._place("m", "k")
                    state = operand(body, self.drafting, self.kernel.nodes[dot].arguments[0], self.dtype)
                    body.line(f"total{i} = tl.dot({state}, {self._weight(dot)}, total{i}{self._precision()})")
            body.replaced = before
        body.replaced |= {dot: Text(f"total{i}") for i, dot in enumerate(self.dots)}

    def _weight(self, dot: int) -> str:
        self._place("k", "n")
        return operand(self.body, self.drafting, self.kernel.nodes[dot].arguments[1], self.dtype)

    def _precision(self) -> str:
        if self.dtype in HALF:
            return ""
        allowed = self.drafting.brief.allow_tf32
        return f', input_precision="{"tf32" if allowed else self.drafting.float32_products}"'

    def _place(self, rows: str, columns: str) -> None:
        self.body.place = Place(suffixes={rows: "[:, None]", columns: "[None, :]"}, mask=self._mask)

    def _mask(self, dimensions: frozenset[str]) -> str:
        suffixes = self.body.place.suffixes
        parts = [self._inside(d, suffixes[d]) for d in ("m", "k", "n") if d in dimensions and d in suffixes]
        return f"({') & ('.join(parts)})" if len(parts) > 1 else "".join(parts)

    def _inside(self, name: str, suffix: str) -> str:
        """Return the condition to be within the tensors. Where blocks fill the dimension, it is constant."""
        limit, block = self.limits[name], {"n": self.tiles.columns, "k": self.tiles.inner}.get(name)
        inside = f"{name}{suffix} < {limit}"
        if block is not None and self.value.shape[-1][0] % block == 0:
            return f"({inside}) | ({limit} % BLOCK_{name.upper()} == 0)"
        return inside
