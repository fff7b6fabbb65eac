"""Kernels without reductions in which much of what an element takes is the same along one axis.

Angles of a rotary embedding are the same for all heads, and places in an image that is sampled are the same for all
channels. A program computes them once for a block of the other axes, and goes through several positions of this axis.
"""

from __future__ import annotations

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Place
from triton_agent.policy.author.emit.skeleton import (
    MOST_ASIDE,
    BlockSize,
    GridEntry,
    KernelText,
    body_of,
    finished,
    needs_int64,
    program_id,
    stores,
)
from triton_agent.policy.author.ir.points import POINTS
from triton_agent.policy.author.ir.sizes import power_of_two, product
from triton_agent.policy.author.plan.indexing import Axis
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import Dimension, depends_on

LOAD, LOOKUP, COSTLY = 4, 8, 12
"""Estimated cost of a load, of one at a computed place, and of a function such as a sine; that of a sum is 1."""
WORTH_SHARING, LEAST_SHARE = 24, 0.75
"""Least cost of what is the same along the axis, and its least ratio to the cost of the rest."""
FEWEST, AT_ONCE = 4, 8
"""Shortest axis worth it, and the number of its positions for one program."""
ELEMENTS_OF_A_PROCESSOR = 1024
"""Fewest elements for each processor of a GPU. With fewer, most of it would be idle while some share their work."""
BLOCK, LEAST_BLOCK = 512, 128
"""Elements of a block; and the fewest, for small tensors."""
_SIMPLE = frozenset({"load", "point", "number", "position", "choose", "lookup"})


def axis_of_repeats(kernel: Kernel) -> Axis | None:
    """Return the axis along which most of the computation is the same, if sharing it is worth it.

    What is the same along a row does not count: a program for a part of a row computes it once anyway.
    """
    live, varies, inner = sorted(kernel.live()), depends_on(kernel), _innermost(kernel)
    if any(kernel.nodes[i].kind not in _SIMPLE for i in live):
        return None
    best: dict[Axis, int] = {}
    for axis in kernel.kept[:-1]:
        same = sum(_cost(kernel.nodes[i]) for i in live if axis not in varies[i] and inner & varies[i])
        rest = sum(_cost(kernel.nodes[i]) for i in live if axis in varies[i])
        is_long = min(axis.size) >= 1 and axis.size[0] >= FEWEST and max(axis.size) <= MOST_ASIDE
        if is_long and same >= max(WORTH_SHARING, LEAST_SHARE * rest):
            best[axis] = same
    return max(best, key=best.__getitem__, default=None)


def _innermost(kernel: Kernel) -> set[Axis]:
    """Return the innermost axes that a block of a program goes along."""
    found: set[Axis] = set()
    length = 1
    for axis in reversed(kernel.kept):
        if length >= LEAST_BLOCK:
            break
        found.add(axis)
        length *= axis.size[0]
    return found


def fills_processors(kernel: Kernel, drafting: Drafting) -> bool:
    """Return True if there are so many elements that computing everything for each of them would take longer."""
    elements = max(product((axis.size for axis in kernel.kept), drafting.width))
    return drafting.interpreted or elements >= ELEMENTS_OF_A_PROCESSOR * drafting.brief.hardware.processors


def _cost(node: Node) -> int:
    if node.kind == "load":
        return LOOKUP if node.index is not None and node.index.lookups() else LOAD
    costly = node.kind == "point" and node.function in POINTS and POINTS[node.function].is_costly
    return COSTLY if costly else int(node.kind in ("point", "choose"))


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...], axis: Axis) -> KernelText:
    """Write the kernel with a loop over positions of the axis."""
    width, arguments = drafting.width, Arguments(drafting.width)
    elements = Dimension(name="offset", plural="count", axes=tuple(one for one in kernel.kept if one != axis))
    lane = Dimension(name="lane", plural="lanes", axes=(axis,))
    count = elements.size(width)
    block = drafting.tiles.columns or min(BLOCK, drafting.each_of(max(count), LEAST_BLOCK), power_of_two(max(count)))
    lanes = drafting.tiles.rows or min(AT_ONCE, power_of_two(axis.size[0]))
    for word in ("offset", "inside", "lane", "step"):
        arguments.names.new(word)
    body = body_of(drafting, kernel, arguments, (elements, lane))
    wide = needs_int64(drafting, kernel)
    body.line(f"offset = {program_id(0, wide)} * BLOCK + tl.arange(0, BLOCK)")
    body.line(f"inside = offset < {arguments.size_argument(count, 'count')}")
    fills = all(size % lanes == 0 for size in axis.size)
    beyond = "" if fills else f"(lane < {arguments.size_argument(axis.size, 'lanes')})"
    body.place = Place(mask=lambda names: _mask(names, beyond))
    with body.loop(f"for step in tl.static_range({lanes}):", "lane"):
        body.line(f"lane = {program_id(1, wide)} * {lanes} + step")
        stores(body, drafting)
    tiles = Tiles(rows=lanes, columns=block, warps=drafting.tiles.warps or 4)
    grid = (GridEntry(parts=((count, "BLOCK"),)), GridEntry(parts=((axis.size, lanes),)))
    blocks = {"BLOCK": BlockSize(value=block)}
    return finished(kernel, body, name, comment, grid, blocks, tiles, _alternatives(max(count), lanes))


def _mask(names: frozenset[str], beyond: str) -> str:
    conditions = ["inside"] if "offset" in names else []
    conditions += [beyond] if beyond and "lane" in names else []
    return " & ".join(conditions)


def _alternatives(count: int, lanes: int) -> list[Tiles]:
    """Return other tiles to try: longer and shorter blocks, more and fewer positions, and elements one by one."""
    sizes = [(1024, lanes, 4), (256, lanes, 4), (512, 2 * lanes, 4), (512, max(2, lanes // 2), 4), (256, lanes, 2)]
    found = [Tiles(rows=rows, columns=columns, warps=warps) for columns, rows, warps in sizes if columns < 2 * count]
    return [*found[:2], Tiles(columns=1024, flat=True, warps=4), *found[2:]]
