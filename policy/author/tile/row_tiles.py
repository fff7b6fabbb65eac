"""Tiles of a kernel over rows: rows per program, whole rows or steps along them, warps; and alternatives to measure.

Defaults come from measurements of memory-bound kernels (`docs/log.md`). Alternatives are ordered by expected speed.
"""

from __future__ import annotations

import dataclasses

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.ir.program import ITEM_BYTES
from triton_agent.policy.author.ir.sizes import is_constant, power_of_two, product
from triton_agent.policy.author.plan.indexing import Axis, Index
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.one_pass import find_folds
from triton_agent.policy.author.plan.tiling import along_reduced, depends_on, goes_through_steps, is_across
from triton_agent.policy.author.tile.window_lines import window_of_lines

WHOLE_ROW = 16384
"""Longest row that is kept in registers: 32 elements for each thread of 16 warps."""
LONGEST_ELSEWHERE = 4 * WHOLE_ROW
"""Most elements of a tile of whole rows at other sizes than the main ones, of which only the answer matters."""
MOST_THREADS = 1024
"""Most threads of a program."""
STEP = 2048
"""Elements per step of a longer row."""
PER_WARP = 256
"""Elements of a step per warp, where the step is fitted to a short row."""
WHOLE_PER_WARP, HALVES_PER_WARP = 512, 1024
"""Elements of a whole row per warp: 16 per thread, or 32 if they are half precision from a single tensor."""
TILE_ELEMENTS = 2048
LINES, WEIGHTED_LINES, FEW_TAPS = 4, 8, 16
"""Lines of a window's results per program; and those of so few taps with weights, loaded once for all lines."""
MANY_TAPS = 25
"""Taps beyond which a program computes two lines. Unrolled, four lines of seven by seven are faster, but compiling them
takes eight seconds.
"""
SHORT_LINE = 32
"""Shortest line, in elements, for which a program computes several."""
FEW = 64
"""Longest row, in elements, that counts as short; fewest rows that count as many."""
TOGETHER = 8
"""Elements of a longer row that are loaded together where they are processed one after another."""
LARGE_WINDOW = 128
"""Longest row of window elements that are processed one after another."""
MANY_SCANS = 4096
"""Fewest rows for scans with one thread for each: the threads wait for memory, and need others to hide it."""
COSTLY_SCANS = frozenset({"logs", "max", "min"})
"""Scans by functions of the file's own."""
SERIAL_ROWS = 512
WINDOW_ROWS = 128
"""Windows per program, one for each thread. With several, each load of a warp would touch as many more memory lines: an
aligned store gives a thread neighbours, whose elements no wide load can take.
"""
INTERPRETED_ROWS = 16384
"""Rows per program in the interpreter, where a step costs the same at any width: 32 for each thread of 16 warps."""
ACROSS, NARROW = 64, 32
"""Rows per program where rows, not the elements of a row, are adjacent in memory; and the fewest for which a program
still reads whole memory lines (half lines in half precision).
"""
STAGES_AHEAD = 3
"""Pipeline stages of a loop over blocks that are scanned."""
SORTED_BYTES, SORTING_WARPS, MOST_SORTING_WARPS = 4096, 8, 16
"""Longest row, in bytes, that a single warp sorts, without an exchange through shared memory; warps for longer ones,
and for those so long that compiling takes seconds.
"""
WASTE = 8
"""Steps may leave at most one in this many lanes idle, in a short row that is read once."""
_FITTING = (256, 128, 64, 32)
"""Candidate steps for such a row, longest first."""
MANY_STREAMS = 3
"""A row kernel with at least this many loads per element keeps memory busy with four elements per thread and load."""
MANY_PROGRAMS = 8
"""With at least this many programs per multiprocessor, small loads of many programs keep memory busy."""
_FIRST_ACROSS = ((64, 64, 16), (128, 16, 8), (64, 8, 4), (32, 64, 4), (64, 64, 8), (32, 128, 8), (64, 32, 4))
_MORE_ACROSS = ((256, 8, 8), (64, 128, 16), (128, 32, 8), (32, 256, 16), (32, 64, 8), (128, 8, 4), (128, 64, 16))
"""Rows, columns and warps worth measuring where rows are adjacent in memory."""
_WALKS = ((2048, 16), (2048, 8), (4096, 16), (1024, 4), (8192, 16), (4096, 8), (2048, 4), (1024, 8), (16384, 16))
"""Step and warps worth measuring along a row."""


class RowCut:
    """The tile decisions for one kernel over rows."""

    def __init__(self, kernel: Kernel, drafting: Drafting) -> None:
        self.kernel, self.drafting = kernel, drafting
        self.width = drafting.width
        self.rows = product((axis.size for axis in kernel.kept), self.width)
        self.columns = product((axis.size for axis in kernel.reduced), self.width)
        # A kernel for a part of split rows has one reduction, so there is no second pass to save.
        self.folds = find_folds(kernel, self.columns) if kernel.part is None else {}
        self.scans_by_steps = self._scans_by_steps()
        """True if each thread goes along a row of its own, and adds one element after another to its totals."""
        self.by_steps = self.scans_by_steps or goes_through_steps(kernel)
        """True if each thread goes along a row of its own: for `scans_by_steps`, and for loops over steps."""
        self.serial = self._is_serial()
        """True if the few elements of a row are processed one after another, for many rows at a time."""
        if self.serial:
            self.folds = {}
        self.window = self._window() if self.serial else None
        """Axis of the lines of a window's results, and the window's axis, if a program may compute several lines."""
        self.lanes = self._lanes() if self.serial else ()
        """Innermost kept axes that are a dimension of the tile of their own, if the elements of a row are processed one
        after another; the others are its rows.
        """
        self.tiles = self._serial_tiles() if self.serial else self._for_wide_warps(self._tiles())

    def levels(self, kernel: Kernel) -> list[int]:
        """Return for each node how many passes must finish before it can be computed."""
        levels: list[int] = []
        for i, node in enumerate(kernel.nodes):
            before = max((levels[i] for i in node.inputs), default=0)
            if i in self.folds:
                levels.append(levels[self.folds[i].base])
            else:
                levels.append(before + 1 if node.kind == "reduce" else before)
        return levels

    def _tiles(self) -> Tiles:
        wanted, rows, columns = self.drafting.tiles, self.rows[0], self.columns[0]
        whole = power_of_two(columns)
        if is_across(self.kernel):
            return self._tiles_across(wanted, rows, whole)
        fitting = self._fitting_step() if wanted.looped is None else 0
        looped = self._is_long() or fitting > 0 if wanted.looped is None else wanted.looped
        looped = (looped or self.kernel.part is not None) and not self._takes_whole_rows()
        step, walking_warps = self._step(rows)
        block = (wanted.columns or fitting or min(step, whole)) if looped else whole
        together = TILE_ELEMENTS // 4 if self._takes_whole_rows() or self._looks_up() else TILE_ELEMENTS
        many = max(1, min(together // block, power_of_two(rows), 8 * FEW, self.drafting.each_of(rows, 1)))
        taken = wanted.rows or (many if block <= TILE_ELEMENTS // 2 else 1)
        along = PER_WARP if fitting else step // walking_warps
        most, each = (walking_warps, along) if looped else (16, self._whole_per_warp())
        fewest = 4 if taken * block >= 512 and not (self._looks_up() and not looped) else 1
        sorting = self._sorting_warps(taken * block)
        warps = power_of_two(wanted.warps or sorting or max(fewest, min(most, taken * block // each)))
        tiles = Tiles(rows=taken, columns=block if looped else 0, looped=looped, warps=warps)
        return dataclasses.replace(tiles, stages=wanted.stages, unrolled=wanted.unrolled) if looped else tiles

    def _is_long(self) -> bool:
        """Return True if rows are too long to be kept in registers.

        On a GPU the main sizes decide, if rows at other sizes are at most so long that they still fit with more warps.
        A machine without a GPU scales the main sizes down, so the longest of all decides there.
        """
        whole, longest = power_of_two(self.columns[0]), power_of_two(max(self.columns))
        if self.drafting.interpreted:
            return longest > WHOLE_ROW
        return whole > WHOLE_ROW or max(1, TILE_ELEMENTS // whole) * longest > LONGEST_ELSEWHERE

    def _sorting_warps(self, elements: int) -> int:
        """Return the warps for a kernel that sorts; zero for others."""
        widest = max((ITEM_BYTES[node.dtype] for node in self.sorts), default=0)
        return (1 if widest * elements <= SORTED_BYTES else SORTING_WARPS) if widest else 0

    @property
    def sorts(self) -> list[Node]:
        """The nodes that sort a row."""
        return [node for node in self._scans() if node.function.startswith("sort")]

    def _whole_per_warp(self) -> int:
        """Return the elements per warp. Fewer warps suffice where threads load little, or look up addresses first."""
        every, varies = {*self.kernel.kept, *self.kernel.reduced}, depends_on(self.kernel)
        nodes = [(self.kernel.nodes[i], varies[i]) for i in self.kernel.live()]
        streams = [node for node, axes in nodes if node.kind == "load" and axes == every]
        halves = all(ITEM_BYTES[self.drafting.dtype_of(node.tensor)] <= 2 for node in streams)
        return HALVES_PER_WARP if halves and (len(streams) == 1 or self._looks_up()) else WHOLE_PER_WARP

    def _fitting_step(self) -> int:
        """Return a step that divides a short row with little waste, if the row is read once; 0 to take the row as a
        whole.
        """
        columns = self.columns[0]
        whole = power_of_two(columns)
        if self._scans() or self.folds or self._passes() > 1 or self.kernel.part is not None or whole > WHOLE_ROW:
            return 0
        if (whole - columns) * WASTE <= columns or self._is_little(whole):
            return 0
        return next((step for step in _FITTING if step < whole and -columns % step * WASTE <= columns), 0)

    def _is_little(self, whole: int) -> bool:
        """Return True if everything fits into one round of programs, so that only the time of a single program
        matters.
        """
        processors = self.drafting.brief.hardware.processors
        return not self.drafting.interpreted and self.rows[0] * whole <= TILE_ELEMENTS * processors

    def _for_wide_warps(self, tiles: Tiles) -> Tiles:
        """Use fewer warps on GPUs with 64-wide warps: 16 of them halve the registers per lane, and scans take many."""
        wanted = self.drafting.tiles
        if self.drafting.brief.hardware.lanes < 64:
            return tiles
        columns = min(tiles.columns, 2 * ACROSS) if self._scans() and tiles.rows > 1 else tiles.columns
        return dataclasses.replace(
            tiles,
            warps=wanted.warps or min(tiles.warps, 8),
            columns=tiles.columns if wanted.columns else columns,
        )

    def _tiles_across(self, wanted: Tiles, rows: int, whole: int) -> Tiles:
        """Return tiles of adjacent rows. A row is kept whole if it would otherwise be read more than once."""
        fits = min(NARROW, power_of_two(rows)) * whole <= WHOLE_ROW
        looped = whole > ACROSS and not (fits and self._passes() > 1) if wanted.looped is None else wanted.looped
        looped = (looped or self.kernel.part is not None) and not self._takes_whole_rows()
        if looped and self.kernel.part is None and rows <= 2 * ACROSS * self.drafting.brief.hardware.processors:
            # Too few programs to hide memory latency, so each loads more at once, and ahead where it has more to do.
            scans = bool(self._scans())
            narrow = NARROW // 2 if scans else NARROW
            taken, block = wanted.rows or min(narrow, power_of_two(rows)), wanted.columns or min(whole, 4 * ACROSS)
            warps = wanted.warps or power_of_two(max(4, min(16, taken * block // 512)))
            stages = wanted.stages or (STAGES_AHEAD if scans and self.drafting.on_cuda else 0)
            return Tiles(rows=taken, columns=block, looped=True, warps=warps, stages=stages)
        if looped:
            many = rows >= MANY_PROGRAMS * ACROSS * self.drafting.brief.hardware.processors
            taken = wanted.rows or min(ACROSS, power_of_two(rows))
            block = wanted.columns or min(whole, NARROW if many else ACROSS)
            warps = wanted.warps or power_of_two(max(4, min(16, taken * block // WHOLE_PER_WARP)))
            unrolled = wanted.unrolled or (4 if many and not wanted.columns else 0)
            return Tiles(rows=taken, columns=block, looped=True, warps=warps, stages=wanted.stages, unrolled=unrolled)
        most = max(1, min(NARROW, WHOLE_ROW // whole), 2 * TILE_ELEMENTS // whole)
        taken = wanted.rows or min(most, power_of_two(rows), self.drafting.each_of(rows, NARROW))
        warps = wanted.warps or power_of_two(max(4, min(16, taken * whole // TILE_ELEMENTS)))
        return Tiles(rows=taken, looped=False, warps=warps)

    def alternatives(self) -> list[Tiles]:
        """Return other tiles worth measuring, the most promising first."""
        own, whole = self.tiles, power_of_two(self.columns[0])
        if self.serial:
            found = self._serial_otherwise(own)
        elif is_across(self.kernel):
            found = self._across_otherwise(own, whole)
        elif own.looped:
            found = [dataclasses.replace(own, columns=c, warps=w) for c, w in _WALKS if c < 2 * whole]
            if self._fitting_step():
                found.insert(0, Tiles(looped=False))
            if self.kernel.part is None and whole <= 2 * WHOLE_ROW:
                found[2:2] = [Tiles(rows=1, looped=False, warps=w) for w in (16, 32)]
        else:
            found = self._whole_otherwise(own, whole)
        if self.kernel.part is not None:
            parts = self.kernel.part.size[0]
            found = [dataclasses.replace(own, splits=s) for s in (2 * parts, parts // 2) if s > 1] + found
        return [
            other for other in dict.fromkeys(found) if other != own and not (other.looped and self._takes_whole_rows())
        ]

    def _takes_whole_rows(self) -> bool:
        """Return True if rows cannot be processed in steps: they are sorted, or a reduction follows a scan."""
        behind: set[int] = set()
        for i in sorted(self.kernel.live()):
            node = self.kernel.nodes[i]
            if node.kind == "scan" and node.function.startswith("sort"):
                return True
            if node.kind == "scan" or behind & set(node.inputs):
                behind.add(i)
                if node.kind == "reduce":
                    return True
        return False

    def _whole_otherwise(self, own: Tiles, whole: int) -> list[Tiles]:
        """Return alternatives to a whole row: other warps, other rows per program, and steps if the row is long."""
        warps = [w for w in (2 * own.warps, own.warps // 2, 4 * own.warps) if 1 <= w <= 32]
        found = [dataclasses.replace(own, warps=w) for w in warps]
        rows = [r for r in (2 * own.rows, own.rows // 2, 4 * own.rows) if r >= 1 and r * whole <= WHOLE_ROW]
        found[1:1] = [dataclasses.replace(own, rows=r) for r in rows]
        if own.rows > 1 and whole >= TILE_ELEMENTS // 4:
            found.insert(1, Tiles(rows=1, looped=False, warps=max(1, own.warps // 2)))
        if own.rows == 1 and whole > 2 * STEP:
            walks = ((STEP, 16), (2 * STEP, 16), (STEP, 8), (2 * STEP, 8))
            for place, (step, warps_walking) in enumerate(walks):
                if step < whole:
                    found.insert(1 + 2 * place, Tiles(rows=1, columns=step, looped=True, warps=warps_walking))
        return found

    def _serial_otherwise(self, own: Tiles) -> list[Tiles]:
        """Return alternatives where the elements of a row are processed one after another."""
        if self.scans_by_steps:
            steps = [dataclasses.replace(own, rows=r, warps=w) for r, w in ((64, 2), (128, 4))]
            blocks = self._across_otherwise(own, power_of_two(self.columns[0]))
            return [steps[0], *blocks[:2], steps[1], *blocks[2:]]
        if not self.lanes:
            sizes = (
                ((64, 2), (128, 4), (256, 4))
                if goes_through_steps(self.kernel)
                else ((256, 4), (1024, 4), (128, 4), (1024, 8))
            )
            found = [dataclasses.replace(own, rows=r, warps=w) for r, w in sizes]
            return [*found[:2], *self._looped(own), *found[2:]]
        shapes = ((own.rows, own.columns, 2), (own.rows, own.columns // 2, 4), (2 * own.rows, own.columns, 4))
        more = ((2 * own.rows, own.columns, 8), (own.rows, own.columns, 8), (4 * own.rows, own.columns // 4, 4))
        found = [
            dataclasses.replace(own, rows=r, columns=c, warps=w)
            for r, c, w in (*shapes, *more)
            if c >= 32 and w * 32 <= r * c
        ]
        counts = (2 * own.lines, own.lines // 2, 4 * own.lines)
        others = [
            dataclasses.replace(own, lines=count) for count in counts if own.lines > 1 and count <= WEIGHTED_LINES
        ]
        return [*others[:1], *self._looped(own), *found[:1], *others[1:], *found[1:]]

    def _looped(self, own: Tiles) -> list[Tiles]:
        """Return tiles with a loop where all taps are unrolled: over a window's lines, or over all of its taps."""
        if own.unrolled <= 1:
            return []
        if own.lines > 1 and len(self.kernel.reduced) > 1:
            return [dataclasses.replace(own, unrolled=own.unrolled // self.kernel.reduced[0].size[0])]
        return [dataclasses.replace(own, unrolled=1)]

    def _across_otherwise(self, own: Tiles, whole: int) -> list[Tiles]:
        """Return alternatives where rows are adjacent in memory: steps and whole rows in turn."""
        shapes = (*_FIRST_ACROSS, *_MORE_ACROSS)
        found = [Tiles(rows=r, columns=c, looped=True, warps=w) for r, c, w in shapes if c < 2 * whole]
        ahead = [dataclasses.replace(tiles, unrolled=4) for tiles in found[:2]]
        ahead += [dataclasses.replace(tiles, stages=3) for tiles in found[:1]]
        if self._scans() and not self.scans_by_steps and self.rows[0] >= MANY_SCANS:
            ahead.insert(0, Tiles(rows=NARROW, columns=1, looped=True, warps=1))
        found[2:2] = ahead
        if self.kernel.part is None:
            fitting = [(r, w) for w in (8, 16, 4) for r in (32, 64, 16, 128) if 512 <= r * whole // w <= 2048]
            whole_rows = [Tiles(rows=rows, looped=False, warps=warps) for rows, warps in fitting]
            for place, tiles in enumerate(whole_rows[:2]):
                found.insert(1 + 2 * place, tiles)
            found += whole_rows[2:]
        return found

    def _step(self, rows: int) -> tuple[int, int]:
        """Return the elements per step of a long row, and the warps for it.

        With few rows, each program must load much at once to keep memory busy. Rows that are read more than once get a
        long step, too, so that they are still in the cache when they are read again.
        """
        if self._passes() == 1 and len(along_reduced(self.kernel)) >= MANY_STREAMS:
            return STEP, 16
        programs = (
            rows
            * (1 if self.kernel.part is None else self.kernel.part.size[0])
            // self.drafting.brief.hardware.processors
        )
        if self._passes() > 1 or programs < 4:
            return 2 * STEP, 16
        return STEP, 8

    def _passes(self) -> int:
        """Return how many passes a long row takes."""
        levels, live = self.levels(self.kernel), self.kernel.live()
        nodes = self.kernel.nodes
        reductions = {levels[i] for i in live if nodes[i].kind == "reduce"}
        reduced = set(self.kernel.reduced)
        return len(reductions) + any(root.index.axes() & reduced for root in self.kernel.roots)

    def _is_serial(self) -> bool:
        """Return True if rows are short and their elements are not adjacent in memory, as the taps of a window are."""
        columns, kept = self.columns, self.kernel.kept
        if self.by_steps:
            return True
        if (
            not kept
            or self.kernel.part is not None
            or not (is_constant(columns) or self._looks_up())
            or columns[0] > (LARGE_WINDOW if self._is_large_window() else FEW)
            or self.rows[0] < FEW
            or self._takes_whole_rows()
        ):
            return False
        return len(self.kernel.reduced) > 1 or is_across(self.kernel) or self._overlaps()

    def _is_large_window(self) -> bool:
        """Return True if rows are windows over several dimensions, which are bounded in each."""
        return len(self.kernel.reduced) > 1 and self._overlaps()

    def _scans_by_steps(self) -> bool:
        """Return True if a thread for each row is estimated to be faster than scans of blocks: many adjacent rows.

        A scan of a block combines each pair of totals several times, which takes long for costly combinations.
        """
        scans = self._scans()
        if not scans or self.kernel.part is not None or goes_through_steps(self.kernel) or self._takes_whole_rows():
            return False
        if not self.kernel.kept or not is_across(self.kernel):
            return False
        if self.drafting.tiles.columns or self.drafting.interpreted:
            return self.drafting.tiles.columns == 1
        return self.rows[0] >= MANY_SCANS and any(node.function in COSTLY_SCANS for node in scans)

    def _scans(self) -> list[Node]:
        nodes = self.kernel.nodes
        return [nodes[i] for i in self.kernel.live() if nodes[i].kind == "scan"]

    def _looks_up(self) -> bool:
        """Return True if elements of the row are looked up by index, as lines of an embedding table are."""
        loads = [node for node, _ in along_reduced(self.kernel)]
        return any(node.index is not None and node.index.lookups() for node in loads)

    def _overlaps(self) -> bool:
        """Return True if neighbouring rows overlap, as windows do. Rows of a table that are read repeatedly do not."""
        values = self.drafting.program.values
        return any(
            elements > values[node.tensor].elements() and node.index is not None and self._is_window(node.index)
            for node, elements in along_reduced(self.kernel)
        )

    def _is_window(self, index: Index) -> bool:
        """Return True if a row begins before the previous one has ended."""
        span = max(index.coefficient(axis)[0] * axis.size[0] for axis in self.kernel.reduced)
        return any(0 < index.coefficient(axis)[0] < span for axis in self.kernel.kept)

    def _window(self) -> tuple[Axis, Axis] | None:
        """Return the axes of a window's lines if the axes within a line are long enough for a dimension of a tile."""
        found = None if self._looks_up() or self.drafting.tiles.lines == 1 else window_of_lines(self.kernel)
        if found is None or found[0] == self.kernel.kept[0]:
            return None
        return found if self._are_many(self._within_line(found[0]), SHORT_LINE) else None

    def _within_line(self, line: Axis) -> tuple[Axis, ...]:
        return self.kernel.kept[self.kernel.kept.index(line) + 1 :]

    def _lanes(self) -> tuple[Axis, ...]:
        """Return the innermost axes along which a window's weights stay the same, or else those with all axes along
        which they change.

        Each program then loads a weight once for many elements.
        """
        if self.window is not None:
            return self._within_line(self.window[0])
        kept, reduced, varies = self.kernel.kept, set(self.kernel.reduced), depends_on(self.kernel)
        loads = [varies[i] for i in self.kernel.live() if self.kernel.nodes[i].kind == "load" and varies[i] & reduced]
        weights = set().union(*(axes - reduced for axes in loads if not axes >= set(kept)))
        if not weights or len(loads) < 2 or self._looks_up() or self.by_steps:
            return ()
        cuts = [kept[at:] for at in range(1, len(kept)) if self._are_many(kept[at:])]
        apart = [inner for inner in cuts if not weights & set(inner)]
        return next(iter(apart), next((inner for inner in reversed(cuts) if weights <= set(inner)), ()))

    def _are_many(self, axes: tuple[Axis, ...], least: int = FEW) -> bool:
        return max(product((axis.size for axis in axes), self.width)) >= least

    def _serial_tiles(self) -> Tiles:
        wanted, unrolled = self.drafting.tiles, self.drafting.tiles.unrolled or self._unrolled()
        most = INTERPRETED_ROWS if self.drafting.interpreted else SERIAL_ROWS // (2 if self._looks_up() else 1)
        if self.lanes:
            length = product((axis.size for axis in self.lanes), self.width)[0]
            most *= 1 if self.drafting.interpreted else 2
            fitting = (
                size for size in (1024, 512, 256, 128, 64, 32) if size <= most and -length % size * WASTE <= length
            )
            columns = wanted.columns or next(fitting, min(256, power_of_two(length)))
            lines = 1 if self.window is None else wanted.lines or self._lines()
            others = self.rows[0] // length // (1 if self.window is None else self.window[0].size[0])
            rows = wanted.rows or min(max(1, most // (1 if lines == 1 else 2) // columns), power_of_two(others))
            warps = wanted.warps or 4
            return Tiles(rows=rows, columns=columns, looped=True, warps=warps, unrolled=unrolled, lines=lines)
        if self.scans_by_steps or (goes_through_steps(self.kernel) and not self.drafting.interpreted):
            # Each step waits for its loads, so many small programs are better than few large ones.
            return Tiles(rows=wanted.rows or 32, columns=1, looped=True, warps=wanted.warps or 1)
        most = min(most, WINDOW_ROWS) if self._is_of_windows() and not self.drafting.interpreted else most
        rows = wanted.rows or min(most, power_of_two(self.rows[0]), self.drafting.each_of(self.rows[0], 2 * FEW))
        warps = wanted.warps or max(4, rows // 1024)
        return Tiles(rows=rows, columns=1, looped=True, warps=warps, unrolled=unrolled)

    def _lines(self) -> int:
        """Return the lines of results that a program computes together."""
        if len(along_reduced(self.kernel)) > 1 and self.columns[0] <= FEW_TAPS:
            return WEIGHTED_LINES
        return LINES if self.columns[0] <= MANY_TAPS else 2

    def _is_of_windows(self) -> bool:
        """Return True if the elements of a row overlap with those of the next, or lie between them."""
        loads = [node.index for node, _ in along_reduced(self.kernel)]
        apart = any(index is not None and index.coefficient(self.kernel.kept[-1])[0] > 1 for index in loads)
        return apart or self._overlaps()

    def _unrolled(self) -> int:
        """Return the length of a window if its loop should be unrolled, so that its bounds are computed once.

        Several passes over more elements are only unrolled in part: they would take the compiler a minute.
        """
        if not is_constant(self.columns) or self.columns[0] > FEW or self._scans() or self._looks_up():
            return 0
        if self.columns[0] * self._passes() <= FEW or self.window is not None:
            return self.columns[0]
        return TOGETHER
