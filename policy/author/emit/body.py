"""Writes the nodes of a kernel as lines of Triton, each in the outermost block in which it can be computed.

A node becomes a variable if it is used twice, is costly, or would make a line hard to read; otherwise it is written
into the line that uses it. Inside a loop, nodes that do not vary along the loop are computed before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator

from triton_agent.policy.author.emit.arguments import Arguments
from triton_agent.policy.author.ir.points import IN_HALF_PRECISION, POINTS, UNSTEADY, Binding
from triton_agent.policy.author.ir.program import FLOATS, HALF, INTEGERS, Number
from triton_agent.policy.author.ir.sizes import LITERAL_LIMIT, Size, constant, is_constant, product, times
from triton_agent.policy.author.plan.indexing import Axis, Index, Lookup, Piece
from triton_agent.policy.author.plan.kernel_graph import Guard, Node
from triton_agent.policy.author.plan.kernel_plan import Kernel
from triton_agent.policy.author.plan.skipped_loads import TOGETHER, GroupCondition, SkippedLoads, beside
from triton_agent.policy.author.plan.tiling import Dimension, depends_on

INDENT = "    "
SMALL = 16
"""Largest constant dimension that is named like a window's position or like one of a few heads or groups."""
_LONGEST_INLINE = 56
LONG = 80
"""Length from which on an expression is put in parentheses, so that it can be broken at its operators."""
_MOST_OPERATIONS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """An expression and its precedence."""

    text: str
    binding: Binding = Binding.ATOM
    operations: int = 0

    def within(self, needs: Binding) -> str:
        return self.text if self.binding >= needs else f"({self.text})"


class Scope:
    """The lines of one block, and the variables that are valid in it."""

    def __init__(self, parent: Scope | None, varies: frozenset[str], depth: int) -> None:
        self.parent = parent
        self.varies = varies
        """Dimensions along which this block is the body of a loop."""
        self.depth = depth
        self.lines: list[str] = []
        self.nodes: dict[int, str] = {}
        self.others: dict[object, str] = {}

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How positions are written in a part of the kernel."""

    suffixes: dict[str, str] = dataclasses.field(default_factory=dict)
    """Maps a dimension to `[:, None]` or the like where its variable is a plain vector."""
    mask: Callable[[frozenset[str]], str] = lambda dimensions: ""
    """Returns the condition that a value varying along these dimensions is inside the tensors; empty if it always
    is.
    """


class Body:
    """The body of one kernel while it is written."""

    def __init__(
        self,
        kernel: Kernel,
        arguments: Arguments,
        dimensions: tuple[Dimension, ...],
        *,
        tensor_name: Callable[[str], str],
        size_name: Callable[[Size], str | None],
        dtypes: Callable[[str], str],
    ) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.dimensions = dimensions
        self.varies = depends_on(kernel)
        self.place = Place()
        self.fillers = fillers_of_choices(kernel)
        self.filled: dict[int, float] = {}
        """Values of masked lanes, for nodes whose variable was overwritten with that value in these lanes."""
        self.scope = Scope(None, frozenset(), 1)
        self._outermost = self.scope
        self._tensor_name = tensor_name
        self._size_name = size_name
        self._dtype_of = dtypes
        self._dimension_of = {axis: dimension for dimension in dimensions for axis in dimension.axes}
        self._uses = self._count_uses()
        self._skipped_loads = SkippedLoads(kernel)
        self.helpers: set[str] = set()
        self.raw = False
        """True if loads keep the stored dtype, as the matrix unit takes it."""
        self.pointers: dict[int, str] = {}
        """For each load of a tensor that may also be passed as a descriptor: the argument to load from."""
        self.counters: frozenset[str] = frozenset()
        """Dimensions that a loop counts through one by one. In the interpreter, their positions are plain numbers."""
        self.exact = False
        """True if no function is replaced by a cheaper one for results of half precision."""
        self.apart: tuple[str, ...] = ()
        """Dimensions whose part of an address is a separate variable, computed outside of loops where possible."""
        self.multiplies_sizes = False
        """True if the kernel computes some sizes as multiples of others, because the host would have to pass too many.
        """
        self.policies: dict[int, str] = {}
        """Eviction policies of loads."""
        self.replaced: dict[int, Text] = {}
        """Texts of nodes that a skeleton computes itself."""
        self._vectors: dict[str, str] = {}
        """Maps a variable that is a plain vector, where others are tiles, to its dimension."""
        self._as_vector = ""
        """The dimension along which nodes are currently written as plain vectors."""

    def _count_uses(self) -> Counter[int]:
        uses: Counter[int] = Counter()
        live = self.kernel.live()
        for i in live:
            node = self.kernel.nodes[i]
            uses.update(node.inputs)
        uses.update(node for root in self.kernel.roots for node in (root.node, *root.index.lookups()))
        return uses

    # -- lines -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.scope.line(text)

    def comment(self, text: str) -> None:
        self.scope.line(f"# {text}")

    @contextlib.contextmanager
    def loop(self, header: str, *varies: str) -> Iterator[None]:
        """Write a block. Lines that do not vary along its dimensions are put before it, the others into it."""
        outer = self.scope
        self.scope = Scope(outer, outer.varies.union(varies), outer.depth + 1)
        names, self.arguments.names._taken = self.arguments.names._taken, set(self.arguments.names._taken)
        try:
            yield
        finally:
            inner, self.scope = self.scope, outer
            kept = self.arguments.names._taken - set(inner.nodes.values()) - set(inner.others.values())
            self.arguments.names._taken = names | kept
        outer.line(header)
        outer.lines += inner.lines

    def step(self, name: str) -> Scope:
        """Return a block for one of several steps that one round of a loop takes. Its lines are those of the loop."""
        made = Scope(self.scope, self.scope.varies | {name}, self.scope.depth)
        made.lines = self.scope.lines
        return made

    @contextlib.contextmanager
    def dealt(self, *dimensions: Dimension) -> Iterator[None]:
        """Assign axes to other dimensions for a part of the kernel."""
        before = self.dimensions, self._dimension_of
        self.dimensions = dimensions
        self._dimension_of = {axis: dimension for dimension in dimensions for axis in dimension.axes}
        try:
            yield
        finally:
            self.dimensions, self._dimension_of = before

    def _home(self, dimensions: frozenset[str]) -> Scope:
        """Return the outermost block in which a value that varies along these dimensions can be computed."""
        scope = self.scope
        while scope.parent is not None and not (scope.varies - scope.parent.varies) & dimensions:
            scope = scope.parent
        return scope

    @contextlib.contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before

    # -- dimensions ------------------------------------------------------------------------------------------------

    def along(self, node: int) -> frozenset[str]:
        """Return the names of the dimensions that a node varies along."""
        return self._names_of(self.varies[node])

    def _names_of(self, axes: frozenset[Axis] | set[Axis]) -> frozenset[str]:
        return frozenset(self._dimension_of[axis].name for axis in axes if axis in self._dimension_of)

    def size(self, size: Size, wanted: str) -> str:
        multiple = self._multiple(size) if self.multiplies_sizes else None
        return multiple or self.arguments.size(size, self._size_name(size) or wanted)

    def _multiple(self, size: Size) -> str | None:
        """Return a size as a small multiple of an argument or of a product of two; None if that is not possible."""
        if (is_constant(size) and abs(size[0]) <= LITERAL_LIMIT) or size in self.arguments.sizes.values():
            return None
        known = [(name, one) for name, one in self.arguments.sizes.items() if all(one)]
        pairs = [(f"{a} * {b}", times(x, y)) for (a, x), (b, y) in itertools.combinations_with_replacement(known, 2)]
        found = [
            (size[0] // one[0], text)
            for text, one in (*known, *pairs)
            if all(s % o == 0 and s // o == size[0] // one[0] for s, o in zip(size, one))
        ]
        count, text = min(found, default=(0, ""))
        return (text if count == 1 else f"{count} * {text}") if found else None

    def divisor(self, size: Size, wanted: str) -> str:
        text = self.arguments.size(size, self._size_name(size) or wanted)  # the compiler needs the value
        if text in self.arguments.sizes:
            self.arguments.divisors.add(text)
        return text

    def axis(self, axis: Axis) -> Text:
        """Return the position along an axis."""
        return self._stretch((axis,))

    def _stretch(self, axes: tuple[Axis, ...]) -> Text:
        """Return the position along neighbouring axes of a dimension, numbered as one."""
        dimension = self._dimension_of[axes[0]]
        suffix = self.place.suffixes.get(dimension.name, "")
        if axes == dimension.axes:
            return Text(f"{dimension.name}{suffix}")
        scope = self._home(frozenset({dimension.name}))
        if axes not in scope.others:
            with self.inside(scope):
                stride, text = dimension.stride(axes[-1]), dimension.name
                size = product((axis.size for axis in axes), len(stride))
                called = self._position_name(size, dimension, is_first=axes[0] == dimension.axes[0])
                if not is_constant(stride, 1):
                    text = f"{text} // {self.divisor(stride, f'{dimension.plural}_per_{called}')}"
                if axes[0] != dimension.axes[0]:
                    text = f"{text} % {self.divisor(size, f'{called}s')}"
                name = self.arguments.names.new(called)
                scope.line(f"{name} = {text}")
            scope.others[axes] = name
        return Text(f"{scope.others[axes]}{suffix}")

    def _position_name(self, size: Size, dimension: Dimension, *, is_first: bool) -> str:
        called = self._size_name(size) or ""
        known = next((singular for plural, singular in SINGULAR.items() if called.endswith(plural)), None)
        if known is not None:
            return f"out_{known}" if called.startswith("out_") else known
        if is_constant(size) and size[0] <= SMALL:
            return "tap" if dimension.name in ("k", "column") else "part"
        return "outer" if is_first else "inner"

    def _stretches(self, index: Index) -> list[tuple[Axis, ...]]:
        """Return runs of neighbouring axes that the index traverses in step, so that they need one common position.

        This takes fewer divisions, and the compiler only recognizes contiguous elements if their position is not
        divided.
        """
        found: list[tuple[Axis, ...]] = []
        for dimension in self.dimensions:
            run: list[Axis] = []
            for axis in dimension.axes:
                coefficient = index.coefficient(axis)
                if run and index.coefficient(run[-1]) == times(coefficient, axis.size):
                    run.append(axis)
                    continue
                found += [tuple(run)] if len(run) > 1 else []
                run = [] if is_constant(coefficient, 0) else [axis]
            found += [tuple(run)] if len(run) > 1 else []
        return found

    def index(self, index: Index, wanted: str = "") -> Text:
        """Return the offset in elements. `wanted` is the tensor's name, for naming its strides."""
        terms = sorted(index.terms, key=lambda term: [-abs(c) for c in term[1]])
        texts: list[str] = []
        if self.apart and self.place.suffixes:
            index, texts = self._shares(index, wanted)
            terms = [term for term in terms if term in index.terms]
        within = {axis: run for run in self._stretches(index) for axis in run}
        for base, coefficient in terms:
            run = within.get(base, ()) if isinstance(base, Axis) else ()
            if not run:
                texts.append(self._term(base, coefficient, wanted))
            elif base == run[-1]:
                texts.append(self._scaled(self._stretch(run), coefficient, wanted))
        if not texts or not is_constant(index.offset, 0):
            negative = bool(texts) and all(entry <= 0 for entry in index.offset)
            offset = tuple(-entry for entry in index.offset) if negative else index.offset
            text = self.size(offset, "shift")
            texts.append(f"-{text}" if negative else text)
        joined = texts[0]
        for text in texts[1:]:
            joined += f" - {text[1:]}" if text.startswith("-") else f" + {text}"
        binding = (
            Binding.SUM if len(texts) > 1 else Binding.PRODUCT if "*" in joined or "//" in joined else Binding.UNARY
        )
        if len(texts) == 1 and (texts[0].isidentifier() or texts[0].isdigit()):
            binding = Binding.ATOM
        return Text(joined, binding, len(texts) - 1)

    def _shares(self, index: Index, wanted: str) -> tuple[Index, list[str]]:
        """Split an index by the dimensions in `apart`: return the rest of the index, and the text of each separate
        part.
        """
        shares: dict[str, list[tuple[Axis | Piece | Lookup, Size]]] = {}
        rest: list[tuple[Axis | Piece | Lookup, Size]] = []
        for base, coefficient in index.terms:
            found = self._dimension_of.get(base) if isinstance(base, Axis) else None
            belongs = found is not None and found.name in self.apart
            (shares.setdefault(found.name, []) if belongs and found else rest).append((base, coefficient))
        texts: list[str] = []
        offset = index.offset
        for dimension in sorted(shares, key=self.apart.index):
            # Add the constant offset to the part that is a single number.
            is_single = dimension in ("tap", *self.counters)
            own = offset if is_single else constant(0, index.width)
            offset = constant(0, index.width) if is_single else offset
            texts.append(self._share(dimension, Index(tuple(shares[dimension]), own), wanted))
        return Index(tuple(rest), offset), texts

    def _share(self, dimension: str, index: Index, wanted: str) -> str:
        suffix, key = self.place.suffixes.get(dimension, ""), ("share", dimension, index)
        home = self._home(frozenset({dimension}))
        if key not in home.others:
            before, self.place = self.place, dataclasses.replace(self.place, suffixes={})
            with self.inside(home):
                text = self.index(index, wanted).text
                name = text
                if not text.isidentifier():
                    name = self.arguments.names.new(f"{wanted or 'place'}_{SHARES.get(dimension, dimension)}")
                    # parentheses, so that the line can be broken
                    home.line(f"{name} = ({text})" if len(text) > LONG else f"{name} = {text}")
            self.place = before
            home.others[key] = name
        return f"{home.others[key]}{suffix}"

    def _term(self, base: Axis | Piece | Lookup, coefficient: Size, wanted: str) -> str:
        if isinstance(base, Axis):
            text = self.axis(base)
        elif isinstance(base, Lookup):
            text = self._looked_up(base)
        else:
            text = self._piece(base)
        return self._scaled(text, coefficient, wanted)

    def _scaled(self, text: Text, coefficient: Size, wanted: str) -> str:
        if is_constant(coefficient, 1):
            return text.text if text.binding > Binding.SUM else f"({text.text})"
        if is_constant(coefficient) and coefficient[0] < 0:
            positive = tuple(-c for c in coefficient)
            return "-" + (
                text.within(Binding.UNARY) if is_constant(positive, 1) else self._times(text, positive, wanted)
            )
        return self._times(text, coefficient, wanted)

    def _times(self, text: Text, coefficient: Size, wanted: str) -> str:
        along = text.text.split("[")[0]
        names = [wanted, along] if along.isidentifier() else [wanted]
        stride = self.size(coefficient, "_".join([name for name in names if name] + ["stride"]))
        return f"{text.within(Binding.PRODUCT)} * {stride}"

    def _looked_up(self, base: Lookup) -> Text:
        dimensions = self.along(base.node)
        dimension = next(iter(dimensions)) if len(dimensions) == 1 else ""
        suffix = self.place.suffixes.get(dimension, "")
        if not suffix:
            return Text(self.named(base.node))
        before, self.place = self.place, dataclasses.replace(self.place, suffixes={dimension: ""})
        self._as_vector = dimension
        try:
            name = self.named(base.node)
        finally:
            self.place, self._as_vector = before, ""
        return Text(f"{name}{suffix}")

    def _piece(self, piece: Piece) -> Text:
        inner = self.index(piece.index)
        text, binding = inner.text, inner.binding
        if not is_constant(piece.divisor, 1):
            text = f"{inner.within(Binding.PRODUCT)} // {self.divisor(piece.divisor, 'part_size')}"
            binding = Binding.PRODUCT
        if piece.modulus is not None:
            text = f"{Text(text, binding).within(Binding.PRODUCT)} % {self.divisor(piece.modulus, 'part_size')}"
            binding = Binding.PRODUCT
        return Text(text, binding, 1)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def is_shared(self, node: int) -> bool:
        return self._uses[node] > 1

    def named(self, node: int) -> str:
        """Return the node as a variable."""
        text = self.text(node)
        if text.text.isidentifier():
            return text.text
        scope = self._home(self.along(node))
        name = self.arguments.names.new(self._hint(node))
        scope.line(f"{name} = {text.text}")
        self._keep(scope, node, name)
        return name

    def _hint(self, node: int) -> str:
        found = self.kernel.nodes[node]
        if found.kind == "load":
            return self._tensor_name(found.tensor)
        if found.kind == "point" and found.function == "cast":
            return found.hint or "value"
        return found.hint or POINTS[found.function].hint if found.function in POINTS else found.hint or "value"

    def text(self, node: int) -> Text:
        """Return the node as an expression, or as a variable if it has one or deserves one."""
        scope: Scope | None = self.scope
        while scope is not None:
            if node in scope.nodes and self._has_shape(node, scope.nodes[node]):
                return Text(self._shaped(scope.nodes[node]))
            scope = scope.parent
        if node in self.replaced:
            return self.replaced[node]
        home = self._home(self.along(node))
        with self.inside(home):
            made = self._made(node)
            if not self._deserves_name(node, made):
                return made
            name = self.arguments.names.new(self._hint(node))
            home.line(f"{name} = {made.text}")
            self._keep(home, node, name)
        return Text(name)

    def _keep(self, scope: Scope, node: int, name: str) -> None:
        scope.nodes[node] = name
        if self._as_vector and self.along(node):
            self._vectors[name] = self._as_vector

    def _has_shape(self, node: int, name: str) -> bool:
        """Return False if a vector is needed and the variable is a tile. A vector can be shown as a tile."""
        return not self._as_vector or name in self._vectors or not self.along(node)

    def _shaped(self, name: str) -> str:
        if name not in self._vectors or self._as_vector:
            return name
        return name + self.place.suffixes.get(self._vectors[name], "")

    def _deserves_name(self, node: int, made: Text) -> bool:
        found = self.kernel.nodes[node]
        if found.kind in ("number", "position") or made.text.isidentifier():
            return False
        if found.kind in ("load", "state", "scan", "reduce"):
            return True
        return self._uses[node] > 1 or len(made.text) > _LONGEST_INLINE or made.operations > _MOST_OPERATIONS

    def _made(self, node: int) -> Text:
        found = self.kernel.nodes[node]
        method: Callable[[int, Node], Text] = getattr(self, f"_{found.kind}")
        return method(node, found)

    def _number(self, node: int, found: Node) -> Text:
        number = found.arguments[0]
        assert isinstance(number, Number)
        return Text(self.literal(number, found.dtype))

    def literal(self, number: Number, dtype: str) -> str:
        """Return a number's text: a literal, or an argument if it changes with the sizes."""
        value = number.values[0]
        if number.fixed:
            return written(value, dtype)
        known = self.arguments.known_size(number.values)
        if known is not None:
            return known
        if all(float(v).is_integer() for v in number.values):
            size = tuple(int(v) for v in number.values)
            return self.arguments.size_argument(size, self._size_name(size) or "length")
        return self.arguments.number(number, "factor")

    def _position(self, node: int, found: Node) -> Text:
        assert found.index is not None
        made = self.index(found.index)
        if not self.varies[node]:
            return Text(f"{made.within(Binding.ATOM)} * 1.0", Binding.PRODUCT) if found.dtype in FLOATS else made
        return made if found.dtype in ("int32", "int64") else self._in_dtype(node, made, found.dtype)

    def _in_dtype(self, node: int, inner: Text, dtype: str) -> Text:
        """Return the text of a node in another dtype."""
        along = self.along(node)
        if along and along <= self.counters:
            return Text(f"tl.full((), {inner.text}, tl.{dtype})", Binding.ATOM, inner.operations + 1)
        return _cast(inner, dtype)

    def _load(self, node: int, found: Node) -> Text:
        assert found.index is not None
        pointer = self.pointers.get(node) or self.arguments.pointer(found.tensor, self._tensor_name(found.tensor))
        at = self.index(found.index, self._tensor_name(found.tensor))
        address = pointer if at.text == "0" else f"{pointer} + {at.text}"
        mask = self._joined([self.mask(self.along(node), found.guards), *self._needed_where(node)])
        if found.guards and not found.index.lookups():
            # The mask must have the shape of the addresses, even along dimensions that only a guard varies along.
            for name in sorted(self.along(node) - self._names_of(found.index.axes())):
                address += f" + 0 * {name}{self.place.suffixes.get(name, '')}"
        parts = [address]
        if mask:
            parts.append(f"mask={mask}")
            if node in self.fillers:
                parts.append(f"other={written(self.fillers[node], found.dtype)}")
        if node in self.policies:
            parts.append(f'eviction_policy="{self.policies[node]}"')
        made = Text(f"tl.load({', '.join(parts)})", Binding.ATOM, 1)
        stored = self._dtype_of(found.tensor)
        return made if stored == found.dtype or self.raw else _cast(made, found.dtype)

    def _needed_where(self, load: int) -> list[str]:
        """Return conditions that hold wherever a user needs the loaded value."""
        if self.kernel.multiplies:
            return []
        axis, found = beside(self.kernel, load), []
        for condition, wanted in self._skipped_loads.conditions(load):
            if axis is None or axis not in self.varies[condition]:
                found.append(f"{'' if wanted else '~'}{self.named(condition)}")
            elif self._dimension_of[axis].axes == (axis,):
                found.append(self._group_condition(axis).text(condition, wanted) or "")
        return found

    def _group_condition(self, axis: Axis) -> GroupCondition:
        return GroupCondition(
            self.kernel,
            axis,
            lambda: self._group(axis),
            steady=lambda node: None if axis in self.varies[node] else self.text(node).within(Binding.UNARY),
            index=lambda index: self.index(index).text,
            number=self.literal,
        )

    def _group(self, axis: Axis) -> str:
        """Return the variable with the first position of each group of neighbours that are loaded together."""
        dimension = self._dimension_of[axis]
        home = self._home(frozenset({dimension.name}))
        key = ("group", axis)
        if key not in home.others:
            home.others[key] = self.arguments.names.new("group")
            home.line(f"{home.others[key]} = {self.axis(axis).within(Binding.ATOM)} // {TOGETHER} * {TOGETHER}")
        return home.others[key]

    def mask(self, dimensions: frozenset[str], guards: tuple[Guard, ...] = ()) -> str:
        """Return the condition of an access that varies along these dimensions."""
        return self._joined([self.place.mask(dimensions), *self.conditions(guards)])

    @staticmethod
    def _joined(conditions: list[str]) -> str:
        parts = [part for part in conditions if part]
        return " & ".join(part if part.isidentifier() or len(parts) == 1 else _grouped(part) for part in parts)

    def conditions(self, guards: tuple[Guard, ...]) -> list[str]:
        parts = []
        for guard in dict.fromkeys(guards):
            index = self.index(guard.index)
            if guard.below:
                parts.append(f"{index.within(Binding.SUM)} >= 0")
            if guard.above:
                parts.append(f"{index.within(Binding.SUM)} < {self.size(guard.size, 'limit')}")
        return parts

    def _choose(self, node: int, found: Node) -> Text:
        conditions = self.conditions(found.guards)
        yes, no = (self._operand(argument, found.dtype).text for argument in found.arguments)
        if self._is_filled(found):
            return Text(yes)
        condition = " & ".join(f"({part})" for part in conditions) if len(conditions) > 1 else conditions[0]
        return Text(f"tl.where({condition}, {yes}, {no})", Binding.ATOM, 2)

    def _is_filled(self, found: Node) -> bool:
        """Return True if a load under the same guards already has the other value in its masked lanes."""
        yes, no = found.arguments
        if not isinstance(yes, int) or not isinstance(no, Number) or not no.fixed:
            return False
        load = self.kernel.nodes[yes]
        return load.kind == "load" and load.guards == found.guards and self.fillers.get(yes) == no.values[0]

    def _operand(self, argument: int | Number, dtype: str) -> Text:
        if isinstance(argument, Number):
            text = self.literal(argument, dtype)
            return Text(text, Binding.UNARY if text.startswith("-") else Binding.ATOM)
        return self.text(argument)

    def _point(self, node: int, found: Node) -> Text:
        if found.function == "cast":
            return self._cast_node(found)
        point = POINTS[self._by_precision(node, found)]
        compute = self._compute_dtype(found)
        texts = []
        for position, argument in enumerate(found.arguments):
            own = "bool" if found.function == "where" and position == 0 else compute
            text = self._operand(argument, own)
            if point.occurrences(position) > 1 and isinstance(argument, int) and not text.text.isidentifier():
                text = Text(self.named(argument))
            texts.append(text)
        self.helpers |= point.helpers
        if self._divides_many(node, found):
            inverse = self._inverse(found.arguments[1], texts[1])  # type: ignore[arg-type]
            return Text(f"{texts[0].within(Binding.PRODUCT)} * {inverse}", Binding.PRODUCT, 1 + texts[0].operations)
        needs = point.needs
        made = point.template.format(*(text.within(need) for text, need in zip(texts, needs)))
        return Text(made, point.binding, 1 + sum(text.operations for text in texts))

    def _by_precision(self, node: int, found: Node) -> str:
        """Return the function, or a cheaper one that is accurate enough here.

        Exponentials within a row are summed, so values too small for a normal float32 may become zero.
        """
        if found.dtype != "float32":
            return found.function
        if found.function == "exp" and self.kernel.kind == "rows" and self.varies[node] & set(self.kernel.reduced):
            return "fast_exp"
        kept = {self._dtype_of(root.value) for root in self.kernel.roots}
        is_half = kept <= {*HALF} and not self.exact
        is_score = self.kernel.kind == "attention" and bool(self.varies[node] & set(self.kernel.reduced))
        if found.function == "tanh" and is_half and is_score:
            return "score_tanh"
        return IN_HALF_PRECISION.get(found.function, found.function) if is_half else found.function

    def _divides_many(self, node: int, found: Node) -> bool:
        """Return True if many elements are divided by one number, so that they are multiplied by its inverse instead.

        A division takes several instructions, and the division that the compiler generates is no more accurate than
        inverse and product. Divisions whose result is later compared or rounded to an integer stay as they are, because
        there the last digit decides.
        """
        divisor = found.arguments[1] if len(found.arguments) > 1 else None
        if found.function != "div" or found.dtype != "float32" or not isinstance(divisor, int):
            return False
        return self.along(divisor) < self.along(node) and node not in self._decisive

    @functools.cached_property
    def _decisive(self) -> frozenset[int]:
        """Nodes whose rounding error may change an integer or a boolean."""
        waiting: list[int] = []
        for i in self.kernel.live():
            found = self.kernel.nodes[i]
            to_whole = found.function == "cast" and found.dtype not in FLOATS
            by_order = found.function.startswith("arg")
            if to_whole or by_order or found.function in UNSTEADY:
                waiting.extend(found.inputs)
        found_nodes: set[int] = set()
        while waiting:
            current = waiting.pop()
            if current not in found_nodes:
                found_nodes.add(current)
                waiting.extend(self.kernel.nodes[current].inputs)
        return frozenset(found_nodes)

    def _inverse(self, divisor: int, text: Text) -> str:
        home = self._home(self.along(divisor))
        key = ("inverse", divisor)
        if key not in home.others:
            home.others[key] = self.arguments.names.new("inverse")
            home.line(f"{home.others[key]} = 1.0 / {text.within(Binding.UNARY)}")
        return home.others[key]

    def _compute_dtype(self, found: Node) -> str:
        """Return the dtype of the operands: that of the first one that is not boolean."""
        for argument in found.arguments:
            if isinstance(argument, int) and self.kernel.nodes[argument].dtype != "bool":
                return self.kernel.nodes[argument].dtype
        return found.dtype

    def _cast_node(self, found: Node) -> Text:
        (argument,) = found.arguments
        assert isinstance(argument, int)
        inner = self.text(argument)
        if self.kernel.nodes[argument].kind in ("number", "position") and not self.varies[argument]:
            return inner
        if found.dtype == "bool":
            return Text(f"{inner.within(Binding.SUM)} != 0", Binding.COMPARE, inner.operations + 1)
        return self._in_dtype(argument, inner, found.dtype)

    def _reduce(self, node: int, found: Node) -> Text:
        raise AssertionError("reductions are written by the skeleton")

    _scan = _dot = _attention = _reduce
    _state = _load

    # -- masked lanes ----------------------------------------------------------------------------------------------

    def filler(self, node: int) -> float | None:
        """Return the value of a node in lanes beyond the tensor; None if it is not known."""
        found = self.kernel.nodes[node]
        if node in self.filled:
            return self.filled[node]
        if found.kind == "load":
            # A load that does not vary along the row has its value in these lanes, too, not the filler.
            return self.fillers.get(node) if self.varies[node] & set(self.kernel.reduced) else None
        if found.kind == "choose" and self._is_filled(found):
            return self.filler(found.arguments[0])  # type: ignore[arg-type]
        if found.kind != "point":
            return None
        fills = [self.filler(a) if isinstance(a, int) else float(a.values[0]) for a in found.arguments]
        return _filled(found.function, fills, self._is_row_level(found))

    def _is_row_level(self, found: Node) -> list[bool]:
        reduced = set(self.kernel.reduced)
        return [isinstance(a, Number) or not (self.varies[a] & reduced) for a in found.arguments]


def fillers_of_choices(kernel: Kernel) -> dict[int, float]:
    """Map each load to the number that replaces it where its mask is false."""
    found: dict[int, float] = {}
    for i in sorted(kernel.live()):
        node = kernel.nodes[i]
        if node.kind != "choose":
            continue
        inner, other = node.arguments
        if isinstance(inner, int) and kernel.nodes[inner].kind == "load" and isinstance(other, Number) and other.fixed:
            found[inner] = float(other.values[0])
    return found


def _filled(function: str, fills: list[float | None], steady: list[bool]) -> float | None:
    """Return the value of a point function in masked lanes, if it follows from its operands; `steady` marks finite
    ones.
    """
    first = fills[0] if fills else None
    if function == "cast":
        return first
    if function in ("square", "abs", "sqrt", "relu", "silu", "gelu", "neg", "cube") and first == 0:
        return 0.0
    if function in ("add", "sub") and len(fills) == 2 and first is not None and math.isinf(first) and steady[1]:
        return first
    if function == "exp" and first == -math.inf:
        return 0.0
    if function == "mul" and len(fills) == 2 and ((first == 0 and fills[1] == 0) or (first == 0 and steady[1])):
        return 0.0
    if function == "mul" and len(fills) == 2 and fills[1] == 0 and steady[0]:
        return 0.0
    if function == "sub" and len(fills) == 2 and first == 0 and fills[1] == 0:
        return 0.0
    if function == "add" and len(fills) == 2 and first == 0 and fills[1] == 0:
        return 0.0
    return None


def written(value: float | int | bool, dtype: str) -> str:
    """Return a number as Triton text."""
    if dtype == "bool":
        return str(bool(value))
    if dtype in INTEGERS:
        return str(int(value)) if math.isfinite(value) else _limit(dtype, value > 0)
    value = float(value)
    if math.isinf(value) or math.isnan(value):
        text = "nan" if math.isnan(value) else "inf"
        return f'{"-" if value < 0 else ""}float("{text}")'
    return repr(value)


def _grouped(condition: str) -> str:
    """Put a condition in parentheses, unless it is a conjunction whose operands have parentheses already."""
    return (
        condition if condition.startswith("(") and condition.endswith(")") and " & " in condition else f"({condition})"
    )


def _limit(dtype: str, largest: bool) -> str:
    bits = int(dtype.lstrip("uint"))
    if dtype.startswith("u"):
        return str(2**bits - 1) if largest else "0"
    return str(2 ** (bits - 1) - 1) if largest else str(-(2 ** (bits - 1)))


def _cast(inner: Text, dtype: str) -> Text:
    name = "int1" if dtype == "bool" else dtype
    return Text(f"{inner.within(Binding.ATOM)}.to(tl.{name})", Binding.ATOM, inner.operations + 1)


SHARES = {"m": "row", "n": "column", "tap": "tap", "k": "inner"}
"""Last word of the name of a variable that holds one dimension's part of an address, by dimension."""
SINGULAR = {
    "rows": "row",
    "columns": "column",
    "batch": "sample",
    "channels": "channel",
    "height": "line",
    "width": "place",
    "length": "step",
    "features": "feature",
    "heads": "head",
    "depth": "layer",
    "pixels": "pixel",
}
"""Names of positions, by the name of the size."""
