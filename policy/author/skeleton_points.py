"""Kernels without reductions: every element is computed from a few others.

Three forms. Flat, where the axes collapse to one or the last one is short. Rows by columns, where something varies
along some axes only: what belongs to a column is loaded once for a tile. A tile of the two axes along which the
result and an input lie contiguously, where these differ: a transposition.
"""

from __future__ import annotations

from triton_agent.policy.author.arguments import Arguments
from triton_agent.policy.author.body import Body, Place
from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.indexing import Axis
from triton_agent.policy.author.kernel_plan import Kernel
from triton_agent.policy.author.skeleton import (
    BlockSize,
    GridEntry,
    KernelText,
    Setting,
    power_of_two,
    program_id,
    stores,
)
from triton_agent.policy.author.tiling import Dimension, fastest

FLAT_BLOCK = 1024
SHORT_ROW = 32
"""Below this a row is no dimension of its own: most lanes would idle."""
TILE_ELEMENTS = 2048
TRANSPOSED_TILE = 64
"""Neighbours along either axis: whole lines of memory on both sides, in half precision too."""


def write(kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...]) -> KernelText:
    axes = kernel.kept
    other = _contiguous_elsewhere(kernel)
    if other is not None:
        return _tiled(kernel, setting, name, comment, other)
    if len(axes) < 2 or axes[-1].size[0] < SHORT_ROW:
        return _flat(kernel, setting, name, comment)
    return _rows(kernel, setting, name, comment)


def _contiguous_elsewhere(kernel: Kernel) -> Axis | None:
    """An axis other than the last along which an input or a result of every axis lies contiguously."""
    nodes = [kernel.nodes[i] for i in sorted(kernel.live())]
    read = [node.index for node in nodes if node.kind == "load" and node.index is not None and not node.index.lookups()]
    for index in [*read, *(root.index for root in kernel.roots)]:
        axis = fastest([index], kernel.kept)
        if axis is None or axis == kernel.kept[-1] or axis.size[0] < 8 or kernel.kept[-1].size[0] < 8:
            continue
        if index.axes() == set(kernel.kept):
            return axis
    return None


def _flat(kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...]) -> KernelText:
    width = setting.program.width
    arguments = Arguments(width)
    elements = Dimension(name="offset", plural="count", axes=kernel.kept)
    count = elements.size(width)
    block = setting.tiles.columns or min(FLAT_BLOCK, max(16, power_of_two(max(count))))
    for word in ("offset", "inside"):
        arguments.names.new(word)
    body = setting.body(kernel, arguments, (elements,))
    if kernel.kept:
        limit = arguments.size_argument(count, "count")
        body.line(f"offset = {program_id(0, setting.needs_int64(kernel))} * BLOCK + tl.arange(0, BLOCK)")
        body.line(f"inside = offset < {limit}")
        body.place = Place(mask=lambda dimensions: "inside" if dimensions else "")
    stores(body, setting)
    tiles = Tiles(columns=block, warps=setting.tiles.warps or 4)
    others = [(2048, 8), (2048, 4), (512, 4), (4096, 8), (1024, 8), (512, 2), (8192, 16), (256, 4)]
    alternatives = [Tiles(columns=c, warps=w) for c, w in others if c < 2 * max(count)]
    grid = GridEntry(parts=((count, "BLOCK"),) if kernel.kept else ())
    blocks = {"BLOCK": BlockSize(value=block)} if kernel.kept else {}
    return _finished(kernel, body, name, comment, (grid,), blocks, tiles, alternatives)


def _rows(kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...]) -> KernelText:
    row = Dimension(name="row", plural="rows", axes=kernel.kept[:-1])
    return _two_dimensional(kernel, setting, name, comment, row, None, square=False)


def _tiled(kernel: Kernel, setting: Setting, name: str, comment: tuple[str, ...], other: Axis) -> KernelText:
    rest = tuple(axis for axis in kernel.kept[:-1] if axis != other)
    row = Dimension(name="row", plural="rows", axes=(other,))
    outer = Dimension(name="plane", plural="planes", axes=rest) if rest else None
    return _two_dimensional(kernel, setting, name, comment, row, outer, square=True)


def _two_dimensional(
    kernel: Kernel,
    setting: Setting,
    name: str,
    comment: tuple[str, ...],
    row: Dimension,
    outer: Dimension | None,
    *,
    square: bool,
) -> KernelText:
    width = setting.program.width
    arguments = Arguments(width)
    column = Dimension(name="column", plural="columns", axes=kernel.kept[-1:])
    rows, columns = row.size(width), column.size(width)
    block_rows, block_columns = _tile(setting.tiles, rows[0], columns[0], square=square)
    for word in ("row", "column", "plane", "inside"):
        arguments.names.new(word)
    dimensions = (row, column) if outer is None else (row, column, outer)
    body = setting.body(kernel, arguments, dimensions)
    wide = setting.needs_int64(kernel)
    row_limit = arguments.size_argument(rows, "rows")
    column_limit = arguments.size_argument(columns, "columns")
    body.line(f"row = ({program_id(0, wide)} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
    body.line(f"column = ({program_id(1, wide)} * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS))[None, :]")
    if outer is not None:
        body.line(f"plane = {program_id(2, wide)}")
    body.line(f"inside = (row < {row_limit}) & (column < {column_limit})")
    masks = {
        frozenset({"row", "column"}): "inside",
        frozenset({"row"}): f"row < {row_limit}",
        frozenset({"column"}): f"column < {column_limit}",
    }
    body.place = Place(mask=lambda names: masks.get(names - {"plane"}, ""))
    stores(body, setting)
    tiles = Tiles(rows=block_rows, columns=block_columns, warps=setting.tiles.warps or 4)
    alternatives = _other_tiles(block_rows, block_columns)
    grid = [GridEntry(parts=((rows, "BLOCK_ROWS"),)), GridEntry(parts=((columns, "BLOCK_COLUMNS"),))]
    if outer is not None:
        grid.append(GridEntry(parts=((outer.size(width), 1),)))
    blocks = {"BLOCK_ROWS": BlockSize(value=block_rows), "BLOCK_COLUMNS": BlockSize(value=block_columns)}
    return _finished(kernel, body, name, comment, tuple(grid), blocks, tiles, alternatives)


def _other_tiles(rows: int, columns: int) -> list[Tiles]:
    """Larger and smaller ones, and narrower ones of the same size."""
    half, narrow = max(1, rows // 2), max(16, columns // 2)
    shapes = [(2 * rows, columns, 8), (half, columns, 4), (rows, columns, 8), (2 * rows, narrow, 4)]
    shapes += [(4 * rows, columns, 8), (half, columns, 2), (4 * rows, max(16, columns // 4), 4), (rows, narrow, 4)]
    return [Tiles(rows=r, columns=c, warps=w) for r, c, w in shapes if 64 <= r * c <= 16384]


def _tile(tiles: Tiles, rows: int, columns: int, *, square: bool) -> tuple[int, int]:
    if tiles.rows and tiles.columns:
        return tiles.rows, tiles.columns
    if square:
        return min(TRANSPOSED_TILE, power_of_two(rows)), min(TRANSPOSED_TILE, power_of_two(columns))
    block_columns = min(1024, power_of_two(columns))
    if columns % block_columns and columns > 256:
        block_columns = 256  # fewer idle lanes at the end of a row
    return max(1, min(TILE_ELEMENTS // block_columns, power_of_two(rows))), block_columns


def _finished(
    kernel: Kernel,
    body: Body,
    name: str,
    comment: tuple[str, ...],
    grid: tuple[GridEntry, ...],
    blocks: dict[str, BlockSize],
    tiles: Tiles,
    alternatives: list[Tiles],
) -> KernelText:
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
    )
