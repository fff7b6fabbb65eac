"""Kernels without reductions: every element is computed from a few others.

There are four forms. *Flat*: the axes collapse to one, the last one is short, or the choice asks for it. *Rows by
columns*: something varies along some axes only, and values of a column are loaded once for a tile. *Transposed*: a tile
over the two axes along which the result and an input are contiguous, where these differ. *Repeats*: much of what an
element takes is the same along one axis; see `skeleton_repeats`.
"""

from __future__ import annotations

import math

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit import skeleton_repeats
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Body, Place
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
from triton_agent.policy.author.ir.program import ITEM_BYTES
from triton_agent.policy.author.ir.sizes import Size, is_constant, power_of_two, product, times
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import Dimension, depends_on, fastest

FLAT_BLOCK, LEAST_BLOCK = 1024, 128
"""Elements per program; and the fewest, for small tensors: one for each thread of four warps."""
STENCIL, STENCIL_BLOCK = 8, 256
"""Fewest neighbours that an element takes from one tensor, times the step between elements, and elements per program
then: two per thread. Loads beside one that is aligned cannot be wide, and with four elements per thread the lanes of
each load would be 16 bytes apart.
"""
MOST_APART = 4
"""Largest step from one element's neighbours to those of the next."""
SHORT_ROW = 32
"""Shortest row that gets a dimension of its own; with shorter ones most lanes would be idle."""
TILE_ELEMENTS = 1024
"""Elements of a tile: eight per thread of four warps, which is one or two 16-byte loads from each tensor and leaves
registers for many programs.
"""
PER_WARP = 512
"""Most elements of a tile per warp: sixteen per thread."""
MOST_LANES = 8
NARROW_TILE = (32, 64)
"""Rows and columns of a tile in which some values are loaded once per column. There are fewer columns than threads, so
that these values are loaded where they are used, not exchanged through shared memory.
"""
WASTE = 16
"""A wider block is used if it leaves at most one lane in this many idle at the end of a row."""
IDLE = 4
"""Kernels that look up elements are flat if rows would leave more than one lane in this many idle."""
WHOLE_ROW, PIECES = 4096, (1024, 512)
"""Longest row that a program takes alone, in pieces of the size that leaves less over."""
SHORT_SIDE = 8
"""Fewest elements along either side of a transposed tile."""
TRANSPOSED_TILE = 64
"""Elements of a tile along either axis: enough to access whole memory lines of both tensors, in half precision, too."""
LEAST_COLUMNS = 16
"""Fewest columns of any transposed tile; more of them than a grid has along its second axis are too many."""


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    other = () if drafting.tiles.flat else _contiguous_elsewhere(kernel)
    if other and max(kernel.kept[-1].size) <= MOST_ASIDE * LEAST_COLUMNS:
        return _tiled(kernel, drafting, name, comment, other)
    repeated = None if drafting.tiles.flat else skeleton_repeats.axis_of_repeats(kernel)
    if repeated is not None and skeleton_repeats.fills_processors(kernel, drafting):
        return skeleton_repeats.write(kernel, drafting, name, comment, repeated)
    if (
        drafting.tiles.flat
        or _is_line(kernel)
        or _would_idle(kernel, drafting)
        or max(kernel.kept[-1].size) > MOST_ASIDE * NARROW_TILE[1]
    ):
        return _flat(kernel, drafting, name, comment)
    return _rows(kernel, drafting, name, comment)


def _most_per_program(kernel: Kernel, drafting: Drafting) -> int:
    """Return the most elements of a program: few for a stencil on a GPU."""
    return FLAT_BLOCK if drafting.interpreted or not _is_stencil(kernel) else STENCIL_BLOCK


def _is_stencil(kernel: Kernel) -> bool:
    """Return True if an element takes many neighbours along the last axis from one tensor, or some at larger steps."""
    if not kernel.kept:
        return False
    taken: dict[str, int] = {}
    for i in kernel.live():
        node = kernel.nodes[i]
        if node.kind == "load" and node.index is not None and not node.index.lookups():
            step = max(node.index.coefficient(kernel.kept[-1]))
            taken[node.tensor] = taken.get(node.tensor, 0) + (step if step <= MOST_APART else 0)
    return max(taken.values(), default=0) >= STENCIL


def _is_line(kernel: Kernel) -> bool:
    return len(kernel.kept) < 2 or kernel.kept[-1].size[0] < SHORT_ROW


def _would_idle(kernel: Kernel, drafting: Drafting) -> bool:
    """Return True if rows would leave many lanes idle while elements are looked up, which takes long for each."""
    columns, varies = kernel.kept[-1].size[0], depends_on(kernel)
    idle = -columns % min(TILE_ELEMENTS, power_of_two(columns))
    if drafting.tiles.rows or idle * IDLE <= columns:
        return False
    indices = [kernel.nodes[i].index for i in kernel.live()]
    return any(kernel.kept[-1] in varies[found] for index in indices if index is not None for found in index.lookups())


def _contiguous_elsewhere(kernel: Kernel) -> tuple[Axis, ...]:
    """Return axes other than the last along which an input or result that varies along all axes is contiguous."""
    nodes = [kernel.nodes[i] for i in sorted(kernel.live())]
    read = [node.index for node in nodes if node.kind == "load" and node.index is not None and not node.index.lookups()]
    for index in [*read, *(root.index for root in kernel.roots)]:
        axis = fastest([index], kernel.kept)
        if axis is None or axis == kernel.kept[-1] or index.axes() != set(kernel.kept):
            continue
        axes = _continued(kernel, index, axis)
        if min(product((one.size for one in axes), index.width)[0], kernel.kept[-1].size[0]) >= SHORT_SIDE:
            return axes
    return ()


def _continued(kernel: Kernel, index: Index, axis: Axis) -> tuple[Axis, ...]:
    """Return the axis, and before it those that continue it in memory, until they fill a tile."""
    found = [axis]
    while product((one.size for one in found), index.width)[0] < TRANSPOSED_TILE:
        after = times(index.coefficient(found[0]), found[0].size)
        outer = next((one for one in kernel.kept[:-1] if index.coefficient(one) == after), None)
        if outer is None:
            break
        found.insert(0, outer)
    return tuple(found)


def _flat(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    width = drafting.width
    arguments = Arguments(width)
    elements = Dimension(name="offset", plural="count", axes=kernel.kept)
    count = elements.size(width)
    most = min(_most_per_program(kernel, drafting), drafting.each_of(max(count), LEAST_BLOCK))
    block = drafting.tiles.columns or min(most, max(16, power_of_two(max(count))))
    for word in ("offset", "inside"):
        arguments.names.new(word)
    body = body_of(drafting, kernel, arguments, (elements,))
    if kernel.kept:
        limit = arguments.size_argument(count, "count")
        body.line(f"offset = {program_id(0, needs_int64(drafting, kernel))} * BLOCK + tl.arange(0, BLOCK)")
        body.line(f"inside = offset < {limit}")
        body.place = Place(mask=lambda dimensions: "inside" if dimensions else "")
    stores(body, drafting)
    tiles = Tiles(columns=block, flat=drafting.tiles.flat, warps=drafting.tiles.warps or 4)
    alternatives = _other_lines(max(count)) if _is_line(kernel) else _other_tiles(kernel)
    grid = GridEntry(parts=((count, "BLOCK"),) if kernel.kept else ())
    blocks = {"BLOCK": BlockSize(value=block)} if kernel.kept else {}
    return finished(kernel, body, name, comment, (grid,), blocks, tiles, alternatives)


def _rows(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    lane = _interleaved(kernel)
    row = Dimension(name="row", plural="rows", axes=kernel.kept[: -1 if lane is None else -2])
    return _two_dimensional(kernel, drafting, name, comment, row, None, square=False, lane=lane)


def _interleaved(kernel: Kernel) -> Axis | None:
    """Return a short axis along which an input is contiguous and the result is not: colours, real and imaginary parts.

    One program takes the whole axis. Otherwise as many programs would each read the same memory lines for a part of
    them.
    """
    *rest, lane, last = (None, None, *kernel.kept)
    if len(rest) < 3 or lane is None or last is None or not is_constant(lane.size) or lane.size[0] > MOST_LANES:
        return None
    live = kernel.live()
    read = [kernel.nodes[i].index for i in live if kernel.nodes[i].kind == "load"]
    together = [index for index in read if index is not None and {lane, last} <= index.axes()]
    return lane if any(is_constant(index.coefficient(lane), 1) for index in together) else None


def _tiled(
    kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...], other: tuple[Axis, ...]
) -> KernelText:
    rest = _rest(kernel, other)
    row = Dimension(name="row", plural="rows", axes=other)
    outer = Dimension(name="plane", plural="planes", axes=rest) if rest else None
    return _two_dimensional(kernel, drafting, name, comment, row, outer, square=True)


def _rest(kernel: Kernel, other: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the axes along which each tile has a single position."""
    return tuple(axis for axis in kernel.kept[:-1] if axis not in other)


def _two_dimensional(
    kernel: Kernel,
    drafting: Drafting,
    name: str,
    comment: tuple[str, ...],
    row: Dimension,
    outer: Dimension | None,
    *,
    square: bool,
    lane: Axis | None = None,
) -> KernelText:
    width = drafting.width
    arguments = Arguments(width)
    column = Dimension(name="column", plural="columns", axes=kernel.kept[-1:])
    rows, columns = row.size(width), column.size(width)
    halves = all(ITEM_BYTES[drafting.dtype_of(root.value)] <= 2 for root in kernel.roots)
    each = min(_most_per_program(kernel, drafting), drafting.each_of(rows[0] * columns[0], LEAST_BLOCK))
    block_rows, block_columns = _tile(drafting.tiles, kernel, rows[0], columns[0], each, square=square, halves=halves)
    if lane is not None:
        block_rows, block_columns = 1, min(FLAT_BLOCK, power_of_two(columns[0]))
    for word in ("row", "column", "plane", "inside", "blocks", "lane"):
        arguments.names.new(word)
    dimensions = (row, column) if outer is None else (row, column, outer)
    planes_first = outer is not None and max(outer.size(width)) > MOST_ASIDE
    if lane is not None:
        dimensions = (*dimensions, Dimension(name="lane", plural="lanes", axes=(lane,)))
    body = body_of(drafting, kernel, arguments, dimensions)
    body.counters = frozenset() if lane is None else frozenset({"lane"})
    wide = needs_int64(drafting, kernel)
    single = block_rows == 1 and not square
    in_order = not square and columns[0] > block_columns
    planes = "" if outer is None else "first" if planes_first else "aside"
    _positions(body, arguments, rows, columns, wide=wide, single=single, planes=planes, in_order=in_order)
    if lane is None:
        stores(body, drafting)
    else:
        with body.loop(f"for lane in tl.static_range({lane.size[0]}):", "lane"):
            stores(body, drafting)
    per_warp = PER_WARP if lane is None else PER_WARP // 4
    warps = drafting.tiles.warps or (4 if square else max(4, block_rows * block_columns // per_warp))
    tiles = Tiles(rows=block_rows, columns=block_columns, warps=warps)
    alternatives = _other_squares(block_rows, block_columns) if square else _other_tiles(kernel)
    cut = ((rows, 1 if single else "BLOCK_ROWS"), (columns, "BLOCK_COLUMNS"))
    grid = [GridEntry(parts=cut)] if in_order else [GridEntry(parts=(one,)) for one in cut]
    if outer is not None and planes_first:
        grid[0] = GridEntry(parts=((outer.size(width), 1), cut[0]))
    elif outer is not None:
        grid.append(GridEntry(parts=((outer.size(width), 1),)))
    blocks = {} if single else {"BLOCK_ROWS": BlockSize(value=block_rows)}
    blocks["BLOCK_COLUMNS"] = BlockSize(value=block_columns)
    return finished(kernel, body, name, comment, tuple(grid), blocks, tiles, alternatives)


def _positions(
    body: Body,
    arguments: Arguments,
    rows: Size,
    columns: Size,
    *,
    wide: bool,
    single: bool,
    planes: str,
    in_order: bool,
) -> None:
    """Write the lines with the positions of a program's elements. Values of a single row are loaded once, as a number.

    With `in_order`, consecutive programs take adjacent elements, so that programs running at the same time share memory
    pages and cache lines. `planes` tells where the grid counts planes: "aside", on its last axis, or "first", together
    with rows on the first one, which has room for more; empty without planes.
    """
    row_limit = "" if single else arguments.size_argument(rows, "rows")
    column_limit = arguments.size_argument(columns, "columns")
    row, block = program_id(0, wide), program_id(1, wide)
    if in_order:
        body.line(f"blocks = tl.cdiv({column_limit}, BLOCK_COLUMNS)")
        row, block = f"{row} // blocks", f"{row} % blocks"
    if planes == "first":
        body.line(f"blocks = tl.cdiv({row_limit}, BLOCK_ROWS)")
        body.line(f"plane = {row} // blocks")
        row = f"{row} % blocks"
    column = f"{block} * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)"
    body.line(f"row = {row}" if single else f"row = ({row} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
    body.line(f"column = {column}" if single else f"column = ({column})[None, :]")
    if planes == "aside":
        body.line(f"plane = {program_id(2, wide)}")
    inside = f"column < {column_limit}"
    body.line(f"inside = {inside}" if single else f"inside = (row < {row_limit}) & ({inside})")
    masks = {
        frozenset({"row", "column"}): "inside",
        frozenset({"row"}): "" if single else f"row < {row_limit}",
        frozenset({"column"}): "inside" if single else inside,
    }
    body.place = Place(mask=lambda names: masks.get(names - {"plane", "lane"}, ""))


def _other_lines(count: int) -> list[Tiles]:
    others = [(2048, 8), (512, 4), (2048, 4), (512, 2), (1024, 8), (4096, 8), (8192, 16), (256, 4)]
    return [Tiles(columns=c, warps=w) for c, w in others if c < 2 * count]


def _other_tiles(kernel: Kernel) -> list[Tiles]:
    """Return alternatives: long pieces of a row, square tiles, and flat blocks, in turn; short ones for stencils."""
    columns = power_of_two(kernel.kept[-1].size[0])
    count = math.prod(axis.size[0] for axis in kernel.kept)
    rows, rest = power_of_two(count // kernel.kept[-1].size[0]), []
    kinds = ((2048, 64, 4), (4096, 4096, 8)) if _has_values_of_columns(kernel) else ((4096, 4096, 8), (2048, 256, 4))
    first = ((1024, 1024, 4), (0, 1024, 4), kinds[0], (2048, 1024, 8), (0, 512, 4), kinds[1])
    short = ((0, 256, 4), (0, 512, 8), (512, 512, 8)) if _is_stencil(kernel) else ()
    more = ((2048, 512, 4), (1024, 1024, 2), (0, 2048, 8), (2048, 128, 8), (4096, 1024, 8), (1024, 128, 4))
    for elements, wide, warps in (*short, *first, *more):
        if not elements:
            rest.append(Tiles(columns=wide, flat=True, warps=warps))
            continue
        block = min(wide, columns)
        rest.append(Tiles(rows=max(1, min(elements // block, rows)), columns=block, warps=warps))
    return [tiles for tiles in rest if max(1, tiles.rows) * tiles.columns < 2 * max(64, count)]


def _other_squares(rows: int, columns: int) -> list[Tiles]:
    """Return larger and smaller tiles, and narrower ones of the same size."""
    half, narrow = max(1, rows // 2), max(16, columns // 2)
    shapes = [(rows, columns, 8), (half, columns, 4), (2 * rows, columns, 8), (2 * rows, narrow, 4)]
    shapes += [(4 * rows, columns, 8), (half, columns, 2), (4 * rows, max(16, columns // 4), 4), (rows, narrow, 4)]
    return [Tiles(rows=r, columns=c, warps=w) for r, c, w in shapes if 64 <= r * c <= 16384]


def _tile(
    tiles: Tiles, kernel: Kernel, rows: int, columns: int, each: int, *, square: bool, halves: bool
) -> tuple[int, int]:
    """Return the rows and columns per program, with at most `each` elements for small tensors."""
    if tiles.rows and tiles.columns:
        return tiles.rows, tiles.columns
    if square:
        return min(TRANSPOSED_TILE, power_of_two(rows)), min(TRANSPOSED_TILE, power_of_two(columns))
    block = min(TILE_ELEMENTS, power_of_two(columns))
    if each < TILE_ELEMENTS:
        return max(1, min(each // block, power_of_two(rows))), min(block, each)
    if columns % block and columns > NARROW_TILE[1]:
        if rows >= NARROW_TILE[0] and _has_values_of_columns(kernel):
            return NARROW_TILE
        if 256 < columns <= WHOLE_ROW and rows >= FLAT_BLOCK:
            return 2 if _looks_up(kernel) else 1, min(PIECES, key=lambda piece: -columns % piece)
    while block > 256 and (-columns % block) * WASTE > columns:
        block //= 2
    together = TILE_ELEMENTS * (2 if halves and not _has_values_of_columns(kernel) else 1)
    return max(1, min(together // block, power_of_two(rows))), block


def _has_values_of_columns(kernel: Kernel) -> bool:
    """Return True if a load varies along columns only."""
    live = kernel.live()
    loads = [node.index for i, node in enumerate(kernel.nodes) if i in live and node.kind == "load"]
    return any(index is not None and not index.lookups() and index.axes() == {kernel.kept[-1]} for index in loads)


def _looks_up(kernel: Kernel) -> bool:
    """Return True if an index is loaded first; two rows per program then wait for it together."""
    return any(kernel.nodes[i].index is not None and kernel.nodes[i].index.lookups() for i in kernel.live())  # type: ignore[union-attr]
