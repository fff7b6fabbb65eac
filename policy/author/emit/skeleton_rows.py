"""Kernels with reductions or scans: each program takes one row or a few, and keeps the results for a row in registers.

A row that fits is loaded once and kept in registers through all reductions. A longer row is processed in steps: one
pass for each reduction that depends on another, and a last pass for values that are stored along the row. Sums are
accumulated per lane until the end of a pass, which makes them as accurate as a tree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping

from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.emit.body import Place, Text, fillers_of_choices, written
from triton_agent.policy.author.emit.folded_sums import Folded
from triton_agent.policy.author.emit.kernel_text import Wide
from triton_agent.policy.author.emit.skeleton import (
    BlockSize,
    GridEntry,
    KernelText,
    body_of,
    needs_int64,
    program_id,
    read_once,
    stores,
)
from triton_agent.policy.author.ir.points import Binding
from triton_agent.policy.author.ir.program import FLOATS, FOLDS, INTEGERS
from triton_agent.policy.author.ir.sizes import Size, is_constant, power_of_two, product
from triton_agent.policy.author.plan.indexing import Axis
from triton_agent.policy.author.plan.kernel_graph import Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.tiling import Dimension
from triton_agent.policy.author.tile.row_tiles import MOST_SORTING_WARPS, MOST_THREADS, WHOLE_ROW, RowCut
from triton_agent.policy.author.tile.window_lines import Lines, tap_of, with_lines

IDENTITY = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf, "any": 0.0, "all": 1.0}
IDENTITY |= {"argmax": -math.inf, "argmin": math.inf}
LOADED_AHEAD = 64
"""Most registers per thread, of 128 or more, for values that are loaded before the first reduction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """How a scan is written."""

    start: float
    """The initial value, and the value of lanes beyond the end."""
    function: str
    """A function of Triton, or the file's own function that combines two totals."""
    both: str
    """Template that combines two totals."""

    @property
    def is_own(self) -> bool:
        return not self.function.startswith("tl.")


_LARGER = "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)"
SCANS = {
    "sum": Scan(0.0, "tl.cumsum", "{0} + {1}"),
    "prod": Scan(1.0, "tl.cumprod", "{0} * {1}"),
    "max": Scan(-math.inf, "take_larger", _LARGER),
    "min": Scan(math.inf, "take_smaller", _LARGER.replace("maximum", "minimum")),
    "logs": Scan(-math.inf, "add_logarithms", "add_logarithms({0}, {1})"),
}


AHEAD = 4
"""Steps of a loop whose loads are in flight at the same time."""


def write(kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> KernelText:
    return _RowKernel(kernel, drafting, name, comment).text()


class _RowKernel:
    def __init__(self, kernel: Kernel, drafting: Drafting, name: str, comment: tuple[str, ...]) -> None:
        self.kernel, self.drafting, self.name, self.comment = kernel, drafting, name, comment
        width = drafting.width
        self.cut = RowCut(kernel, drafting)
        self.lanes = Dimension(name="lane", plural="lanes", axes=self.cut.lanes) if self.cut.lanes else None
        outer = kernel.kept[: len(kernel.kept) - len(self.cut.lanes)]
        self.lines: Lines | None = None
        if self.cut.window is not None and self.cut.tiles.lines > 1:
            self.lines = with_lines(kernel, *self.cut.window, self.cut.tiles.lines)
            self.kernel, outer = self.lines.kernel, outer[:-1]
        self.nested = self.lines is not None and 1 < self.cut.tiles.unrolled < self.cut.columns[0]
        """True if only the taps of one line of a window are unrolled, inside a loop over its lines."""
        self.row = Dimension(name="row", plural="rows", axes=outer)
        self.column = Dimension(name="column", plural="columns", axes=kernel.reduced[1 if self.nested else 0 :])
        self.rows, self.columns, self.folds = self.row.size(width), self.cut.columns, self.cut.folds
        self.tiles, self.serial = self.cut.tiles, self.cut.serial
        self.single = self.tiles.rows == 1 and not self.serial
        self.later: frozenset[str] = frozenset()
        """Names of steps whose loads come before their round, and may lie behind the last one."""
        self.backwards = False
        """True if the loop over a row begins at its end."""
        self.arguments = Arguments(width)
        for word in ("row", "column", "inside", "start"):
            self.arguments.names.new(word)
        dimensions: tuple[Dimension, ...] = (self.row, self.column) if kernel.kept else (self.column,)
        if self.lanes is not None:
            self.arguments.names.new("lane")
            dimensions = (self.row, self.lanes, self.column)
        if self.lines is not None:
            self.arguments.names.new("line")
            dimensions = (*dimensions, Dimension(name="line", plural="lines", axes=(self.lines.line,)))
        if self.nested:
            self.arguments.names.new("step")
            dimensions = (*dimensions, Dimension(name="step", plural="steps", axes=kernel.reduced[:1]))
        if kernel.part is not None:
            self.arguments.names.new("part")
            dimensions = (*dimensions, Dimension(name="part", plural="parts", axes=(kernel.part,)))
        self.body = body_of(drafting, self.kernel, self.arguments, dimensions)
        self.body.fillers = self._fillers()
        self.body.counters = frozenset({"column", "step"}) if self.serial else frozenset()

    def _fillers(self) -> dict[int, float]:
        """Return the value of each load's masked lanes: the identity of the reduction that uses it."""
        live, nodes = self.kernel.live(), self.kernel.nodes
        found = {i: 0.0 for i in sorted(live) if nodes[i].kind == "load"} | fillers_of_choices(self.kernel)
        for i in sorted(live):
            node = nodes[i]
            if node.kind == "reduce" and node.function in ("max", "min", "argmax", "argmin", "prod", "all"):
                source = node.arguments[0]
                while isinstance(source, int) and nodes[source].kind == "point" and nodes[source].function == "cast":
                    source = nodes[source].arguments[0]
                if isinstance(source, int) and nodes[source].kind == "load":
                    found[source] = IDENTITY[node.function]
        return found

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self) -> KernelText:
        self._head()
        if self.tiles.looped:
            self._in_steps()
        else:
            self._at_once()
        parts: tuple[tuple[Size, int | str], ...] = ((self.rows, 1 if self.single else "BLOCK_ROWS"),)
        if self.lanes is not None:
            each = 1 if self.tiles.rows == 1 else "BLOCK_ROWS"
            parts = ((self.rows, each), (self.lanes.size(self.drafting.width), "BLOCK_LANES"))
            if self.lines is not None:
                parts = (*parts, (self.lines.line.size, self.lines.count))
        grids = [GridEntry(parts=parts if self.kernel.kept else ())]
        if self.kernel.part is not None:
            grids.append(GridEntry(parts=((self.kernel.part.size, 1),)))
        blocks: dict[str, BlockSize] = {}
        if not self.single and self.kernel.kept:
            blocks["BLOCK_ROWS"] = BlockSize(value=self.tiles.rows)
        if self.lanes is not None:
            blocks["BLOCK_LANES"] = BlockSize(value=self.tiles.columns)
            if self.tiles.rows == 1:
                del blocks["BLOCK_ROWS"]
        if not self.serial:
            fixed = self.tiles.columns if self.tiles.looped else None
            blocks["BLOCK_COLUMNS"] = BlockSize(value=fixed if fixed else self.columns)
        return KernelText(
            kernel=self.kernel,
            name=self.name,
            comment=self.comment,
            lines=tuple(self.body.scope.lines),
            arguments=self.arguments,
            grid=tuple(grids),
            blocks=blocks,
            tiles=self.tiles,
            wide_warps=self._warps_of_long_rows(),
            alternatives=tuple(self.cut.alternatives()),
            uses_libdevice="libdevice" in self.body.helpers,
            functions=tuple(sorted(self.body.helpers - {"libdevice"})),
        )

    def _warps_of_long_rows(self) -> Wide | None:
        """Return more warps for rows at other sizes that are too long for those of the main sizes, as wholes."""
        whole, longest = power_of_two(self.columns[0]), power_of_two(max(self.columns))
        if self.cut.sorts and longest > whole:
            return Wide(sizes=(self.columns,), at_most=whole, value=MOST_SORTING_WARPS)
        if not self.tiles.looped and not self.serial and longest > WHOLE_ROW >= whole:
            warps = MOST_THREADS // self.drafting.brief.hardware.lanes
            return Wide(sizes=(self.columns,), at_most=WHOLE_ROW, value=warps)
        return None

    def _head(self) -> None:
        body, wide = self.body, needs_int64(self.drafting, self.kernel)
        if not self.single and self.kernel.kept and not (self.lanes and self.tiles.rows == 1):
            self.row_limit = self.arguments.size_argument(self.rows, "rows")
        few = self.serial and is_constant(self.columns)
        self.limit = str(self._steps_of_window()) if few else self.arguments.size_argument(self.columns, "columns")
        if self.lanes is not None:
            self._head_of_lanes(self.lanes, program_id(0, wide))
        elif self.serial:
            body.line(f"row = {program_id(0, wide)} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)")
            body.line(f"inside = row < {self.row_limit}")
        elif not self.kernel.kept:
            self.single = True
        elif self.single:
            body.line(f"row = {program_id(0, wide)}")
        else:
            body.line(f"row = ({program_id(0, wide)} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        body.place = Place(mask=self._mask)
        self.end, self.begin = self.limit, "0"
        if self.kernel.part is not None:
            self._part_bounds()

    def _head_of_lanes(self, lanes: Dimension, program: str) -> None:
        """Write the positions of a tile of rows and lanes, or of lanes of a single row."""
        body = self.body
        self.lane_limit = self.arguments.size_argument(lanes.size(self.drafting.width), "lanes")
        self.arguments.names.new("blocks")
        body.line(f"blocks = tl.cdiv({self.lane_limit}, BLOCK_LANES)")
        row = f"{program} // blocks"
        if self.lines is not None:
            self.arguments.names.new("groups")
            height = self.body.size(self.lines.line.size, "lines")
            body.line(f"groups = tl.cdiv({height}, {self.lines.count})")
            body.line(f"line = {row} % groups * {self.lines.count}")
            row += " // groups"
        if self.tiles.rows == 1:
            body.line(f"row = {row}")
            body.line(f"lane = {program} % blocks * BLOCK_LANES + tl.arange(0, BLOCK_LANES)")
            body.line(f"inside = lane < {self.lane_limit}")
        else:
            body.line(f"row = ({row} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
            body.line(f"lane = ({program} % blocks * BLOCK_LANES + tl.arange(0, BLOCK_LANES))[None, :]")
            body.line(f"inside = (row < {self.row_limit}) & (lane < {self.lane_limit})")

    def _mask_of_lanes(self, dimensions: frozenset[str]) -> str:
        if self.tiles.rows == 1:
            return "inside" if "lane" in dimensions else ""
        if "row" in dimensions:
            return "inside" if "lane" in dimensions else f"row < {self.row_limit}"
        return f"lane < {self.lane_limit}" if "lane" in dimensions else ""

    def _part_bounds(self) -> None:
        """Write the range of columns of this program."""
        assert self.kernel.part is not None
        parts, body = self.kernel.part.size[0], self.body
        for word in ("span", "last"):
            self.arguments.names.new(word)
        body.line("part = tl.program_id(1)")
        body.line(f"span = tl.cdiv({self.limit}, {parts} * BLOCK_COLUMNS) * BLOCK_COLUMNS")
        body.line(f"last = tl.minimum((part + 1) * span, {self.limit})")
        self.begin, self.end = "part * span", "last"

    def _mask(self, dimensions: frozenset[str]) -> str:
        if self.lanes is not None:
            return self._mask_of_lanes(dimensions)
        if self.serial:
            rows = "inside" if "row" in dimensions else ""
            ends = (f"({it} >= 0)" if self.backwards else f"({it} < {self.limit})" for it in dimensions & self.later)
            return " & ".join(filter(None, (rows, *ends)))
        if "column" in dimensions:
            both = "row" in dimensions and not self.single
            return "inside" if both or self.single else f"column < {self.limit}"
        return "" if self.single or "row" not in dimensions else f"row < {self.row_limit}"

    def _column_line(self, start: str) -> None:
        lanes = "tl.arange(0, BLOCK_COLUMNS)"
        text = f"{start} + {lanes}" if start else lanes
        if not self.single:
            text = f"({text})[None, :]" if start else f"{text}[None, :]"
        self.body.line(f"column = {text}")
        inside = f"column < {self.limit}"
        if not self.single:
            inside = f"(row < {self.row_limit}) & ({inside})"
        self.body.line(f"inside = {inside}")

    # -- a row at once ---------------------------------------------------------------------------------------------

    def _at_once(self) -> None:
        self._column_line("")
        live = self.kernel.live()
        for i in self._loads_ahead():
            self.body.named(i)
        for i, node in enumerate(self.kernel.nodes):
            if i in live and node.kind in ("reduce", "scan"):
                self._name_special(i, node)
        stores(self.body, self.drafting)

    def _loads_ahead(self) -> list[int]:
        """Return the loads to issue first: indices that other loads need, then the rest, as long as registers last.

        The warps of a program synchronize in every reduction, and no load is issued before its place in the program. A
        load behind a reduction would have its full latency exposed.
        """
        nodes, live = self.kernel.nodes, sorted(self.kernel.live())
        if self.tiles.rows * self.tiles.warps == 1 or not any(nodes[i].kind in ("reduce", "scan") for i in live):
            return []
        waits, depths = dict[int, bool](), dict[int, int]()
        for i in live:
            waits[i] = nodes[i].kind in ("reduce", "scan") or any(waits[j] for j in nodes[i].inputs)
            depths[i] = max((depths[j] for j in nodes[i].inputs), default=0) + (nodes[i].kind == "load")
        loads = [i for i in live if nodes[i].kind == "load" and not waits[i]]
        lanes = self.tiles.warps * self.drafting.brief.hardware.lanes
        each = max(1, self.tiles.rows * power_of_two(self.columns[0]) // lanes)
        room, found = LOADED_AHEAD, list[int]()
        for i in sorted(loads, key=lambda i: (depths[i], i)):
            needed = each if self.body.varies[i] & set(self.kernel.reduced) else 1
            if needed <= room:
                found.append(i)
                room -= needed
        return found

    def _name_special(self, node: int, found: Node) -> None:
        """Write a reduction or scan as a variable."""
        made = self._scan_text(found) if found.kind == "scan" else self._reduction_text(found)
        name = self.arguments.names.new(found.hint or found.function)
        self.body.line(f"{name} = {made}")
        self.body.scope.nodes[node] = name

    def _axis(self) -> str:
        return "axis=0" if self.single else "axis=1, keep_dims=True"

    def _reduction_text(self, found: Node) -> str:
        function = found.function
        (argument,) = found.arguments
        assert isinstance(argument, int)
        value = self._filled(argument, IDENTITY[function])
        return self._reduced(function, value, passes_nan=self._passes_nan(found))

    def _passes_nan(self, found: Node) -> bool:
        """Return True if this maximum or minimum must propagate NaN.

        A softmax subtracts the maximum and sums exponentials. A NaN reaches that sum in any case, so its maximum need
        not propagate it.
        """
        (argument,) = found.arguments
        assert isinstance(argument, int)
        nodes = self.kernel.nodes
        if nodes[argument].dtype not in FLOATS:
            return False
        place = next(i for i, node in enumerate(nodes) if node is found)
        live = sorted(self.kernel.live())
        apart = {i for i in live if nodes[i].function == "sub" and nodes[i].arguments == (argument, place)}
        powers = {i for i in live if nodes[i].function == "exp" and apart & set(nodes[i].inputs)}
        behind = {i for i in live if nodes[i].function == "sum" and powers & set(nodes[i].inputs)}
        for i in live:  # users of a node come after it
            behind |= {i} if behind & set(nodes[i].inputs) else set()
        inside = {place} | apart | powers
        taken = [i for i in live if inside & set(nodes[i].inputs)]
        stored = inside & {root.node for root in self.kernel.roots}
        return bool(stored) or not behind or any(i not in inside | behind for i in taken)

    def _reduced(self, function: str, value: Text, *, passes_nan: bool = False) -> str:
        axis = self._axis()
        if self.serial:
            return value.text
        if function == "sum":
            return f"tl.sum({value.text}, {axis})"
        if function in ("max", "min") and passes_nan:
            self.body.helpers.add(SCANS[function].function)
            return f"tl.reduce({value.text}, combine_fn={SCANS[function].function}, {axis})"
        if function in ("max", "min"):
            return f"tl.{function}({value.text}, {axis})"
        if function in ("any", "all"):
            name = "max" if function == "any" else "min"
            return f"tl.{name}({value.within(Binding.ATOM)}.to(tl.int32), {axis}) != 0"
        if function == "prod":
            self.body.helpers.add("multiply")
            return f"tl.reduce({value.text}, combine_fn=multiply, {axis})"
        return f"tl.{function}({value.text}, {axis}).to(tl.int64)"

    def _filled(self, node: int, identity: float) -> Text:
        """Return the node, with the identity in masked lanes."""
        if self.serial:
            return self.body.text(node)
        known = self.body.filler(node)
        dtype = self.kernel.nodes[node].dtype
        across = "column" in self.body.along(node)
        text = self.body.text(node)
        if across and known == identity:
            return text
        if across and math.isinf(identity) and dtype in FLOATS and not self.tiles.looped and self.body.is_shared(node):
            # Overwrite the variable: values computed from it are then right in masked lanes, too. Exponentials are zero
            # there.
            name = self.body.named(node)
            self.body.line(f"{name} = tl.where(inside, {name}, {written(identity, dtype)})")
            self.body.filled[node] = identity
            return Text(name)
        if dtype in INTEGERS and math.isinf(identity):
            return Text(f"tl.where(inside, {text.text}, {written(identity, dtype)})")
        return Text(f"tl.where(inside, {text.text}, {written(identity, dtype)})")

    def _scan_text(self, found: Node) -> str:
        (argument,) = found.arguments
        assert isinstance(argument, int)
        if found.function == "sort":
            value = self._filled(argument, IDENTITY["min"])
            return f"tl.sort({value.text}{'' if self.single else ', dim=1'})"
        value = self._filled(argument, SCANS[found.function].start)
        return self._scanned(found.function, value)

    def _scanned(self, function: str, value: Text) -> str:
        scan, axis = SCANS[function], 0 if self.single else 1
        if scan.is_own:
            self.body.helpers.add(scan.function)
            return f"tl.associative_scan({value.text}, {axis}, {scan.function})"
        return f"{scan.function}({value.text}, axis={axis})"

    def _scan_total(self, function: str, value: Text) -> str:
        if function in ("sum", "prod"):
            return self._reduced(function, value)
        return f"tl.reduce({value.text}, combine_fn={SCANS[function].function}, {self._axis()})"

    # -- a row in steps --------------------------------------------------------------------------------------------

    def _in_steps(self) -> None:
        levels = self.cut.levels(self.kernel)
        live = self.kernel.live()
        reductions = [i for i, node in enumerate(self.kernel.nodes) if i in live and node.kind == "reduce"]
        along = [k for k, root in enumerate(self.kernel.roots) if "column" in self._root_dimensions(k)]
        again = read_once(self.drafting, self.kernel) if reductions else []
        if along:
            # The data is read again soon, so ask the cache to keep it.
            self.body.policies = dict.fromkeys(again, "evict_last")
        elif len({levels[i] for i in reductions}) > 1:
            self.body.policies = {}
        for level in sorted({levels[i] for i in reductions}):
            self._pass([i for i in reductions if levels[i] == level])
        if along:
            self.body.policies = dict.fromkeys(again, "evict_first")
            self._last_pass(along)
        stores(self.body, self.drafting, [k for k in range(len(self.kernel.roots)) if k not in along])

    def _root_dimensions(self, position: int) -> frozenset[str]:
        return self.body._names_of(self.kernel.roots[position].index.axes())

    def _pass(self, reductions: list[int]) -> None:
        body, nodes = self.body, self.kernel.nodes
        shape = "(BLOCK_COLUMNS,)" if self.single else "(BLOCK_ROWS, BLOCK_COLUMNS)"
        if self.serial:
            shape = self._serial_shape()
        names = {i: self.arguments.names.new(nodes[i].hint or nodes[i].function) for i in reductions}
        best: dict[int, str] = {}
        folded = {i: Folded(self.folds[i], names[i], self.arguments.names) for i in reductions if i in self.folds}
        for one in folded.values():
            one.begin(body, shape)
        known = {one.fold.base: one.maximum for one in folded.values() if one.maximum is not None}
        plain = [i for i in reductions if i not in folded and i not in known]
        for i in plain:
            function, dtype = nodes[i].function, self._accumulator(nodes[i])
            start = written(IDENTITY[function], dtype)
            if function.startswith("arg"):
                best[i] = self.arguments.names.new("best")
                body.line(f"{best[i]} = tl.full({shape}, {start}, tl.{dtype})")
                body.line(f"{names[i]} = tl.zeros({shape}, tl.int32)")
            elif start in ("0.0", "0"):
                body.line(f"{names[i]} = tl.zeros({shape}, tl.{dtype})")
            else:
                body.line(f"{names[i]} = tl.full({shape}, {start}, tl.{dtype})")
        with self._lines_of_window(), self._steps():
            for one in folded.values():
                is_sum = one.fold.kind == "squares"
                source = one.fold.source
                one.step(body, body.text(source) if is_sum else self._filled(source, IDENTITY["max"]))
            for i in plain:
                if self.lines is None:
                    self._accumulate(nodes[i], names[i], best.get(i, ""))
                else:
                    self._accumulate_line(self.lines, i, names[i])
        for i in plain:
            self._conclude(nodes[i], names[i], best.get(i, ""))
            body.scope.nodes[i] = names[i]
        for i, maximum in known.items():
            body.line(f"{names[i]} = tl.max({maximum}, {self._axis()})")
            body.scope.nodes[i] = names[i]
        lanes = "tl.arange(0, BLOCK_COLUMNS)" if self.single else "tl.arange(0, BLOCK_COLUMNS)[None, :]"
        for i, one in folded.items():
            one.conclude(body, self.limit, lanes, self._axis())
            body.scope.nodes[i] = names[i]

    def _steps_of_window(self) -> int:
        """Return the steps of a short row: with several lines of results, the steps of all their windows together, or
        those within a line if there is a loop over these.
        """
        count = self.columns[0]
        if self.lines is None:
            return count
        lines = self.lines.taps.size[0]
        return count // lines * (1 if self.nested else lines + self.lines.count - 1)

    @contextlib.contextmanager
    def _lines_of_window(self) -> Iterator[None]:
        if not self.nested or self.lines is None:
            yield
            return
        with self.body.loop(f"for step in range({self.lines.taps.size[0] + self.lines.count - 1}):", "step"):
            yield

    def _serial_shape(self) -> str:
        if self.lanes is None:
            return "(BLOCK_ROWS,)"
        return "(BLOCK_LANES,)" if self.tiles.rows == 1 else "(BLOCK_ROWS, BLOCK_LANES)"

    @contextlib.contextmanager
    def _steps(self) -> Iterator[None]:
        """Write the loop over a row, one block at a time."""
        if self.serial:
            steps = f"range({self.limit})"
            if self.nested or self.tiles.unrolled >= self.columns[0] > 1:
                steps = f"tl.static_range({self.limit})"
            elif self.tiles.unrolled > 1:
                steps = f"tl.range({self.limit}, loop_unroll_factor={self.tiles.unrolled})"
            with self.body.loop(f"for column in {steps}:", "column"):
                yield
            return
        steps, told = f"{self.begin}, {self.end}, BLOCK_COLUMNS", []
        if self.tiles.stages > 1:
            told.append(f"num_stages={self.tiles.stages}")
        if self.tiles.unrolled > 1:
            told.append(f"loop_unroll_factor={self.tiles.unrolled}")
        steps = f"tl.range({', '.join([steps, *told])})" if told else f"range({steps})"
        with self.body.loop(f"for start in {steps}:", "column"):
            self._column_line("start")
            yield

    def _accumulator(self, found: Node) -> str:
        (argument,) = found.arguments
        assert isinstance(argument, int)
        if found.function in ("any", "all") or self._counted(found) is not None:
            return "int32"
        dtype = self.kernel.nodes[argument].dtype
        return dtype if dtype in FLOATS or found.function not in ("sum", "prod") else found.dtype

    def _counted(self, found: Node) -> int | None:
        """Return the boolean node that a sum of int64 counts, if it does. Rows are short enough for 32-bit counts."""
        argument = found.arguments[0]
        if found.function != "sum" or found.dtype != "int64" or not isinstance(argument, int):
            return None
        cast = self.kernel.nodes[argument]
        inner = cast.inputs[0] if cast.kind == "point" and cast.function == "cast" else None
        return inner if inner is not None and self.kernel.nodes[inner].dtype == "bool" else None

    def _accumulate(self, found: Node, name: str, best: str) -> None:
        (argument,) = found.arguments
        assert isinstance(argument, int)
        function, body = found.function, self.body
        counted = self._counted(found)
        value = self._filled(argument if counted is None else counted, IDENTITY[function])
        if counted is not None:
            body.line(f"{name} += {value.within(Binding.ATOM)}.to(tl.int32)")
        elif function == "sum":
            body.line(f"{name} += {value.text}")
        elif function == "prod":
            body.line(f"{name} *= {value.within(Binding.PRODUCT)}")
        elif function in ("max", "min"):
            both = SCANS[function].both if self._passes_nan(found) else f"tl.{function}imum({{0}}, {{1}})"
            body.line(f"{name} = {both.format(name, value.text)}")
        elif function in ("any", "all"):
            sign = "|" if function == "any" else "&"
            body.line(f"{name} = {name} {sign} {value.within(Binding.ATOM)}.to(tl.int32)")
        else:
            new = self.arguments.names.new("candidate")
            body.line(f"{new} = {value.text}")
            better = self.arguments.names.new("better")
            body.line(f"{better} = {new} {'>' if function == 'argmax' else '<'} {best}")
            body.line(f"{name} = tl.where({better}, column, {name})")
            body.line(f"{best} = tl.where({better}, {new}, {best})")

    def _accumulate_line(self, lines: Lines, node: int, name: str) -> None:
        """Add a step to the results of a line if it is one of its taps."""
        (argument,) = self.kernel.nodes[node].arguments
        assert isinstance(argument, int)
        self.body.named(argument)  # loads belong before the condition
        guard = tap_of(lines.taps, lines.of_reduction[node], lines.count)
        with self.body.loop(f"if {self.body.mask(frozenset(), (guard,))}:"):
            self._accumulate(self.kernel.nodes[node], name, "")

    def _conclude(self, found: Node, name: str, best: str) -> None:
        function, body = found.function, self.body
        if self.serial:
            if function in ("any", "all"):
                body.line(f"{name} = {name} != 0")
            if function.startswith("arg"):
                body.line(f"{name} = {name}.to(tl.int64)")
        elif function.startswith("arg"):
            top = self.arguments.names.new("top")
            body.line(f"{top} = tl.{function[3:]}({best}, {self._axis()})")
            body.line(f"{name} = tl.min(tl.where({best} == {top}, {name}, {self.limit}), {self._axis()}).to(tl.int64)")
        elif function in ("any", "all"):
            body.line(f"{name} = tl.{'max' if function == 'any' else 'min'}({name}, {self._axis()}) != 0")
        else:
            wide = ".to(tl.int64)" if self._counted(found) is not None else ""
            passes_nan = function in ("max", "min") and self._passes_nan(found)
            body.line(f"{name} = {self._reduced(function, Text(name), passes_nan=passes_nan)}{wide}")

    def _last_pass(self, roots: list[int]) -> None:
        live, nodes = self.kernel.live(), self.kernel.nodes
        scans = [i for i, node in enumerate(nodes) if i in live and node.kind == "scan"]
        carries = {}
        for i in scans:
            if nodes[i].function in FOLDS:
                carries[i] = self._first_state(nodes[i])
                continue
            carries[i] = self.arguments.names.new("carry")
            start = written(SCANS[nodes[i].function].start, nodes[i].dtype)
            shape = "" if self.single else "(BLOCK_ROWS, 1), "
            if self.serial:
                shape = f"{self._serial_shape()}, "
            self.body.line(f"{carries[i]} = tl.full({shape or '(), '}{start}, tl.{nodes[i].dtype})")
        self.backwards = any(nodes[i].function == "fold_back" for i in scans)
        if self.cut.by_steps:
            self._go_through_steps(carries, roots)
            return
        with self._steps() if scans else self._steps_of_last_pass():
            for i in scans:
                self._carried_scan(i, nodes[i], carries[i])
            stores(self.body, self.drafting, roots)

    def _go_through_steps(self, carries: Mapping[int, str], roots: list[int]) -> None:
        """Write a loop over steps, a few in each round, which begins with the loads of the next round: they do not wait
        for the states.
        """
        body, count, fixed = self.body, self.columns[0], is_constant(self.columns)
        rounds = "0"
        if not fixed or count >= 2 * AHEAD:
            rounds = str(count // AHEAD * AHEAD) if fixed else f"{self.limit} // {AHEAD} * {AHEAD}"
            self._rounds_of_steps(rounds, carries, roots)
        if not fixed or count % AHEAD or rounds == "0":
            bounds = f"{rounds}, {self.limit}" if rounds != "0" else self.limit
            if self.backwards:
                bounds = f"{count - int(rounds) - 1}, -1, -1"
            with body.loop(f"for column in range({bounds}):", "column"):
                self._one_step(carries, roots)

    def _rounds_of_steps(self, rounds: str, carries: Mapping[int, str], roots: list[int]) -> None:
        body, names = self.body, self.arguments.names
        names.new("start")
        now = ["column", *(names.new("column") for _ in range(1, AHEAD))]
        later = [names.new("later") for _ in range(AHEAD)]
        body.counters = frozenset([*now, *later])
        self.later = frozenset(() if is_constant(self.columns) else now[1:])

        def loaded(name: str, position: str) -> dict[int, str]:
            column = dataclasses.replace(self.column, name=name)
            with body.inside(body.step(name)), body.dealt(self.row, column):
                body.line(f"{name} = {position}")
                return {i: body.named(i) for i in self._loads_of_steps()}

        held = [loaded(name, self._step_text(ahead)) for ahead, name in enumerate(now)]
        self.later = frozenset(later)
        with body.loop(f"for start in range(0, {rounds}, {AHEAD}):", "start"):
            following = [loaded(name, self._step_text(AHEAD + ahead, "start")) for ahead, name in enumerate(later)]
            for ahead, name in enumerate(now):
                step = body.step(name)
                step.nodes |= held[ahead]
                with body.inside(step), body.dealt(self.row, dataclasses.replace(self.column, name=name)):
                    body.line(f"{name} = {self._step_text(ahead, 'start')}")
                    self._one_step(carries, roots)
            for before, after in zip(held, following):
                for i, name in before.items():
                    body.line(f"{name} = {after[i]}")

    def _step_text(self, ahead: int, start: str = "") -> str:
        """Return the position of a step that comes so many steps behind `start`, or behind the first step."""
        if self.backwards:
            return " - ".join(filter(None, (str(self.columns[0] - 1 - ahead), start)))
        return " + ".join(filter(None, (start, str(ahead) if ahead or not start else "")))

    def _one_step(self, carries: Mapping[int, str], roots: list[int]) -> None:
        for scan, carry in carries.items():
            self._carried_scan(scan, self.kernel.nodes[scan], carry)
        stores(self.body, self.drafting, roots)

    def _loads_of_steps(self) -> list[int]:
        live, reduced, nodes = sorted(self.kernel.live()), set(self.kernel.reduced), self.kernel.nodes
        return [i for i in live if nodes[i].kind == "load" and self.body.varies[i] & reduced]

    def _first_state(self, found: Node) -> str:
        """Write the state before the first step of a loop."""
        first = found.arguments[1]
        assert isinstance(first, int)
        text, shape = self.body.text(first), self._serial_shape()
        name = self.arguments.names.new(found.hint or "state")
        if self.body.along(first):
            self.body.line(f"{name} = {text.text}")
        else:
            self.body.line(f"{name} = tl.zeros({shape}, tl.{found.dtype}) + {text.within(Binding.SUM)}")
        carry = next(i for i, node in enumerate(self.kernel.nodes) if node.kind == "carry")
        self.body.replaced[carry] = Text(name)
        return name

    @contextlib.contextmanager
    def _steps_of_last_pass(self) -> Iterator[None]:
        """Write the steps of the last pass. If a load varies only from one stretch of the row to the next (such as from
        channel to channel), loop over the stretches, so that it is loaded once for each.
        """
        outer, inner = self._stretches()
        if not outer:
            with self._steps():
                yield
            return
        stretch = Dimension(name=self.arguments.names.new("stretch"), plural="stretches", axes=outer)
        column = Dimension(name="column", plural="columns", axes=inner)
        before = self.limit, self.end
        with self.body.dealt(self.row, stretch, column):
            count = self.arguments.size_argument(stretch.size(self.drafting.width), "stretches")
            self.limit = self.end = self.arguments.size_argument(column.size(self.drafting.width), "columns")
            with self.body.loop(f"for {stretch.name} in range({count}):", stretch.name), self._steps():
                yield
        self.limit, self.end = before

    def _stretches(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Divide the reduced axes into outer and inner ones; empty if steps do not fit the inner ones or no load varies
        along the outer ones alone.
        """
        nodes, varies, reduced = self.kernel.nodes, self.body.varies, self.kernel.reduced
        loads = [varies[i] & set(reduced) for i in self.kernel.live() if nodes[i].kind == "load"]
        for cut in range(1, len(reduced)):
            outer, inner = reduced[:cut], reduced[cut:]
            length = product((axis.size for axis in inner), self.drafting.width)[0]
            fits = self.tiles.columns > 0 and length % self.tiles.columns == 0
            if fits and self.single and not self.serial and any(found and found <= set(outer) for found in loads):
                return outer, inner
        return (), ()

    def _carried_scan(self, node: int, found: Node, carry: str) -> None:
        argument = found.arguments[0]
        assert isinstance(argument, int)
        if found.function in FOLDS:
            self.body.line(f"{carry} = {self.body.text(argument).text}")
            self.body.scope.nodes[node] = carry
            return
        scan = SCANS[found.function]
        if scan.is_own:
            self.body.helpers.add(scan.function)
        value = self._filled(argument, scan.start)
        if self.serial:
            self.body.line(f"{carry} = {scan.both.format(carry, value.within(Binding.UNARY))}")
            self.body.scope.nodes[node] = carry
            return
        piece = self.arguments.names.new("piece")
        self.body.line(f"{piece} = {value.text}")
        name = self.arguments.names.new(found.hint or "running")
        self.body.line(f"{name} = {scan.both.format(carry, self._scanned(found.function, Text(piece)))}")
        self.body.scope.nodes[node] = name
        total = self._scan_total(found.function, Text(piece))
        self.body.line(f"{carry} = {scan.both.format(carry, total)}")
