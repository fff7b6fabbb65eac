"""What all skeletons share: the writer of one kernel, from its plan to its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triton_agent.policy.author.brief import Hardware
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Body
from triton_agent.policy.author.emit.kernel_text import MOST_ASIDE, BlockSize, GridEntry, KernelText
from triton_agent.policy.author.ir.program import ITEM_BYTES, Program
from triton_agent.policy.author.ir.sizes import Size
from triton_agent.policy.author.plan.choice import Tiles
from triton_agent.policy.author.plan.indexing import Index, Lookup, of
from triton_agent.policy.author.plan.kernel_graph import Guard
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root
from triton_agent.policy.author.plan.tiling import Dimension, read_once

_LARGE = 2**31 - 2**16
"""Elements beyond which 32 bits do not reach; the last block may reach past the end."""

LITTLE = 3
"""Bytes read for each that is stored, from which on what is read passes through the cache: 4% to 13% faster, while
kernels that store as much as they read became 3% slower (H200, 17 kernels)."""


class Setting:
    """What a skeleton is given beside the plan."""

    def __init__(
        self,
        program: Program,
        tiles: Tiles,
        *,
        tensor_name: Callable[[str], str],
        size_name: Callable[[Size], str | None],
        in_place: Mapping[str, str],
        loaded_later: frozenset[str],
        target: str,
        hardware: Hardware,
        float32_products: str,
        allow_tf32: bool,
        interpreted: bool,
    ) -> None:
        self.program = program
        self.tiles = tiles
        self.tensor_name = tensor_name
        self.size_name = size_name
        self.in_place = in_place
        self.loaded_later = loaded_later
        """Tensors that kernels behind this one read, and may find in the cache."""
        self.on_cuda = target.startswith("cuda")
        self.warpgroups = self.on_cuda and 90 <= int(target.partition(":")[2] or 0) < 120
        """True if four warps share one product, and shared memory holds the large tiles for it."""
        self.processors, self.shared_bytes, self.lanes = hardware.processors, hardware.shared_bytes, hardware.lanes
        self.float32_products = float32_products
        """`ieee` or `tf32x3`."""
        self.allow_tf32 = allow_tf32
        self.interpreted = interpreted
        """In the interpreter a program costs about a millisecond, however little it does."""

    def dtype_of(self, value: str) -> str:
        return self.program.stored_dtype(value)

    def body(self, kernel: Kernel, arguments: Arguments, dimensions: tuple[Dimension, ...]) -> Body:
        body = Body(
            kernel,
            arguments,
            dimensions,
            tensor_name=self.tensor_name,
            size_name=self.size_name,
            dtypes=self.dtype_of,
        )
        passing = self.read_once(kernel) if kernel.kind != "product" else []
        if self._stores_little(kernel, passing):
            body.policies = dict.fromkeys(passing, "evict_first")
        return body

    def read_once(self, kernel: Kernel) -> list[int]:
        """Loads that the cache need not keep anything of."""
        found = read_once(kernel, lambda name: self.program.values[name].elements())
        return [i for i in found if kernel.nodes[i].tensor not in self.loaded_later]

    def _stores_little(self, kernel: Kernel, passing: list[int]) -> bool:
        """Return whether the cache is better used for what others left in it than for what is read here.

        What it holds may have to be written to memory before its place is free. A kernel that stores as much as it
        reads makes that room anyway.
        """
        tensors = {kernel.nodes[i].tensor for i in passing}
        stored = sum(self._bytes(root.value) for root in kernel.roots)
        return LITTLE * stored <= sum(map(self._bytes, tensors))

    def _bytes(self, name: str) -> int:
        return self.program.values[name].elements() * ITEM_BYTES[self.dtype_of(name)]

    def needs_int64(self, kernel: Kernel) -> bool:
        names = [*kernel.loads, *(root.value for root in kernel.roots)]
        return any(
            max(self.program.values[name].elements(i) for i in range(self.program.width)) >= _LARGE for name in names
        )


def program_id(axis: int, wide: bool) -> str:
    return f"tl.program_id({axis})" + (".to(tl.int64)" if wide else "")


def stores(body: Body, setting: Setting, roots: list[int] | None = None) -> None:
    """Write the kernel's results (or those of the given positions)."""
    for position, root in enumerate(body.kernel.roots):
        if roots is None or position in roots:
            made = body.text(root.node)
            if len(made.text) > 48:
                made = type(made)(body.named(root.node))
            target = setting.in_place.get(root.value, root.value)
            pointer = body.arguments.pointer(target, setting.tensor_name(target))
            body.line(store(body, root, setting.tensor_name(root.value), pointer, made.text))


def store(body: Body, root: Root, tensor: str, pointer: str, made: str) -> str:
    """The line that stores one result, or adds it to what is there."""
    at = body.index(root.index, tensor)
    address = pointer if at.text == "0" else f"{pointer} + {at.text}"
    if root.adds:
        mask = body.mask(frozenset(dimension.name for dimension in body.dimensions), _within(root.index))
        if root.how == "put":
            return f"tl.store({address}, {made}, mask={mask})"
        return f'tl.atomic_{root.how or "add"}({address}, {made}, mask={mask}, sem="relaxed")'
    mask = body.mask(body._names_of(root.index.axes()))
    return f"tl.store({address}, {made}{f', mask={mask}' if mask else ''})"


def _within(index: Index) -> tuple[Guard, ...]:
    """Nothing is added outside of the tensor, whatever the places say."""
    looked_up = [base for base, _ in index.terms if isinstance(base, Lookup)]
    return tuple(Guard(of(base), base.size, below=True, above=True) for base in looked_up)


__all__ = [
    "MOST_ASIDE",
    "BlockSize",
    "GridEntry",
    "KernelText",
    "Setting",
    "program_id",
    "store",
    "stores",
]
