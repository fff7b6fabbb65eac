"""Functions that the skeletons share."""

from __future__ import annotations

from collections.abc import Iterable

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Body
from triton_agent.policy.author.emit.kernel_text import MOST_ASIDE, BlockSize, GridEntry, KernelText
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.ir.program import HALF, ITEM_BYTES, Number
from triton_agent.policy.author.plan import tiling
from triton_agent.policy.author.plan.indexing import Index, Lookup, of
from triton_agent.policy.author.plan.kernel_graph import Guard
from triton_agent.policy.author.plan.kernel_plan import Kernel, Root
from triton_agent.policy.author.plan.tiling import Dimension
from triton_agent.policy.author.tile.product_facts import cast_source, stored_dtype

_LARGE = 2**31 - 2**16
"""Most elements that 32-bit offsets can address; the last block may extend past the end."""

LITTLE = 3
"""Ratio of bytes read to bytes stored from which on loads are marked for early eviction. This made such kernels 4% to
13% faster, while kernels that store as much as they read became 3% slower (H200, 17 kernels).
"""


def body_of(drafting: Drafting, kernel: Kernel, arguments: Arguments, dimensions: tuple[Dimension, ...]) -> Body:
    """Return the empty body of a kernel, with the eviction policies of its loads."""
    host = drafting.host
    body = Body(
        kernel,
        arguments,
        dimensions,
        tensor_name=host.tensor_name,
        size_name=host.size_name,
        dtypes=drafting.dtype_of,
    )
    body.exact = drafting.choice.exact
    passing = read_once(drafting, kernel) if not kernel.multiplies else []
    if _stores_little(drafting, kernel, passing):
        body.policies = dict.fromkeys(passing, "evict_first")
    return body


def read_once(drafting: Drafting, kernel: Kernel) -> list[int]:
    """Return the loads whose data is not needed again, neither in this kernel nor in a later one."""
    found = tiling.read_once(kernel, lambda name: drafting.program.values[name].elements())
    return [i for i in found if kernel.nodes[i].tensor not in drafting.host.loaded_later]


def _stores_little(drafting: Drafting, kernel: Kernel, passing: list[int]) -> bool:
    """Return True if the kernel reads much more than it stores, so that its loads should not evict others' data.

    Written cache lines must go to memory before they can be replaced. A kernel that stores as much as it reads evicts
    that much anyway.
    """

    def moved(names: Iterable[str]) -> int:
        return sum(drafting.program.values[n].elements() * ITEM_BYTES[drafting.dtype_of(n)] for n in names)

    read = {kernel.nodes[i].tensor for i in passing}
    return LITTLE * moved(root.value for root in kernel.roots) <= moved(read)


def needs_int64(drafting: Drafting, kernel: Kernel) -> bool:
    values = drafting.program.values
    names = [*kernel.loads, *(root.value for root in kernel.roots)]
    return any(max(values[name].elements(i) for i in range(drafting.width)) >= _LARGE for name in names)


def operand(body: Body, drafting: Drafting, argument: int | Number, wanted: str) -> str:
    """Return an operand of a product in the dtype that the matrix unit takes."""
    assert isinstance(argument, int)
    as_stored = stored_dtype(body.kernel, drafting, argument) == wanted
    body.raw = as_stored
    try:
        text = body.text(cast_source(body.kernel, argument) if as_stored else argument)
    finally:
        body.raw = False
    return text.text if as_stored or wanted not in HALF else f"{text.within(Binding.ATOM)}.to(tl.{wanted})"


def program_id(axis: int, wide: bool) -> str:
    return f"tl.program_id({axis})" + (".to(tl.int64)" if wide else "")


def stores(body: Body, drafting: Drafting, roots: list[int] | None = None) -> None:
    """Write the kernel's results, or those at the given positions."""
    for position, root in enumerate(body.kernel.roots):
        if roots is None or position in roots:
            made = body.text(root.node)
            if len(made.text) > 48:
                made = type(made)(body.named(root.node))
            target = drafting.host.in_place.get(root.value, root.value)
            pointer = body.arguments.pointer(target, drafting.host.tensor_name(target))
            body.line(store(body, root, drafting.host.tensor_name(root.value), pointer, made.text))


def store(body: Body, root: Root, tensor: str, pointer: str, made: str) -> str:
    """Return the line that stores one result, or adds it to memory."""
    at = body.index(root.index, tensor)
    address = pointer if at.text == "0" else f"{pointer} + {at.text}"
    if root.adds:
        mask = body.mask(frozenset(dimension.name for dimension in body.dimensions), _within(root.index))
        if root.how == "put":
            return f"tl.store({address}, {made}, mask={mask})"
        return f'tl.atomic_{root.how or "add"}({address}, {made}, mask={mask}, sem="relaxed")'
    mask = body.mask(body._names_of(root.index.axes()), root.guards)
    return f"tl.store({address}, {made}{f', mask={mask}' if mask else ''})"


def _within(index: Index) -> tuple[Guard, ...]:
    """Return guards that keep a scatter inside the tensor, whatever its indices are."""
    looked_up = [base for base, _ in index.terms if isinstance(base, Lookup)]
    return tuple(Guard(of(base), base.size, below=True, above=True) for base in looked_up)


def finished(
    kernel: Kernel,
    body: Body,
    name: str,
    comment: tuple[str, ...],
    grid: tuple[GridEntry, ...],
    blocks: dict[str, BlockSize],
    tiles: Tiles,
    alternatives: list[Tiles],
) -> KernelText:
    """Return the text of a kernel whose body is complete."""
    return KernelText(
        kernel=kernel,
        name=name,
        comment=comment,
        lines=tuple(body.scope.lines),
        arguments=body.arguments,
        grid=grid,
        blocks=blocks,
        tiles=tiles,
        alternatives=tuple(dict.fromkeys(other for other in alternatives if other != tiles)),
        uses_libdevice="libdevice" in body.helpers,
        functions=tuple(sorted(body.helpers - {"libdevice"})),
    )


__all__ = [
    "MOST_ASIDE",
    "BlockSize",
    "GridEntry",
    "KernelText",
    "body_of",
    "finished",
    "needs_int64",
    "operand",
    "program_id",
    "read_once",
    "store",
    "stores",
]
