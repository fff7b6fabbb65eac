"""The least that a model's call must do: bytes that cross the memory bus, and arithmetic.

Every element that is really read of what was there before the call is read once, every output is written once, and
values in between cost nothing. A kernel that moves as much is as good as memory allows. Contents are not looked at: a
table read by index counts one row per index, though indices may repeat. Nor is algebra: arithmetic is counted as the
graph does it. What a cache may still hold from an earlier call is not credited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triton_agent.tools.extents import Part, distinct, touched
from triton_agent.tools.flops import UnitFlops, flops_of, itemsize
from triton_agent.tools.graph import Node, OperatorGraph
from triton_agent.tools.graph_values import Reference, TensorMeta, references_in

_TABLES = {
    "index_select": "self",
    "gather": "self",
    "index": "self",
    "_unsafe_index": "self",
    "take": "self",
    "embedding": "weight",
    "_embedding_bag": "weight",
    "_embedding_bag_forward_only": "weight",
}
"""Operators that read only some elements of a tensor, with that argument's name."""

_INDEXED_WRITES = {
    "index_put": "values",
    "_index_put_impl": "values",
    "index_copy": "source",
    "index_add": "source",
    "index_fill": "index",
    "scatter": "index",
    "scatter_add": "index",
    "scatter_reduce": "index",
}
"""In place, these touch as many elements as the named argument has."""

_ACCUMULATING = frozenset({"index_add", "scatter_add", "scatter_reduce"})
"""Of those, the ones that read what they overwrite."""

_REPLACING = frozenset(
    {"copy", "fill", "zero", "bernoulli", "normal", "uniform", "exponential", "cauchy", "log_normal", "random"}
)
"""In place, these do not read what they overwrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least work of one call."""

    bytes_moved: int
    flops: int
    flops_by_unit: tuple[UnitFlops, ...]
    """Sorted by unit; together they make `flops`."""

    def __post_init__(self) -> None:
        if self.flops != sum(part.flops for part in self.flops_by_unit):
            raise ValueError("the parts do not add up to the whole")


def floor_of(graph: OperatorGraph) -> Floor:
    """The least bytes and operations for what `graph` computes."""
    metas = graph.values()
    counted: Counter[str] = Counter()
    for node in graph.nodes:
        for part in flops_of(node, metas):
            counted[part.unit] += part.flops
    traffic = _Traffic(graph)
    return Floor(
        bytes_moved=traffic.bytes_read() + traffic.bytes_written(),
        flops=counted.total(),
        flops_by_unit=tuple(UnitFlops(unit=unit, flops=flops) for unit, flops in sorted(counted.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A value taken by a node."""

    value: str
    elements: int | None = None
    """How many, where an index picks them; None for all."""


class _Traffic:
    """Which elements of which memory a call must read and write."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._graph = graph
        self._metas = graph.values()
        self._sources = graph.sources()
        self._producers = graph.producers()

    def bytes_read(self) -> int:
        parts: dict[str, list[Part]] = defaultdict(list)
        picked: Counter[str] = Counter()
        for read in (read for node in self._graph.nodes for read in _reads(node, self._metas)):
            traced = self._traced(read)
            if traced is None:
                continue
            source, part = traced
            if read.elements is None:
                parts[source].append(part)
            else:
                picked[source] += part.count or 0
        for source, elements in picked.items():
            meta = self._sources[source]
            parts[source].append(Part(layout=meta, count=min(elements, distinct(meta))))
        return self._bytes(parts)

    def bytes_written(self) -> int:
        """Outputs in memory of their own, once per memory, and the elements updated in place."""
        parts: dict[str, list[Part]] = defaultdict(list)
        for name in self._graph.outputs:
            root = self._root(name)
            if root not in self._sources:
                parts[root].append(self._part(root, self._metas[name]))
        for source, value in self._graph.updates.items():
            root = self._graph.shared.get(source, source)
            parts[root] += [self._part(root, layout, count) for layout, count in self._updated(value)]
        return self._bytes(parts)

    def _bytes(self, parts: dict[str, list[Part]]) -> int:
        return sum(touched(group) * itemsize(self._metas[root].dtype) for root, group in parts.items())

    def _part(
        self, root: str, layout: TensorMeta, count: int | None = None, holes: tuple[TensorMeta, ...] = ()
    ) -> Part:
        """In elements of `root`: a view as another dtype counts its elements in other units."""
        own, others = itemsize(layout.dtype), itemsize(self._metas[root].dtype)
        if own == others:
            return Part(layout=layout, count=count, holes=holes)
        elements = distinct(layout) if count is None else count
        return Part(layout=layout, count=elements * own // others)

    def _traced(self, read: _Read) -> tuple[str, Part] | None:
        """The source whose contents are read, and which of them; None for what the call itself made."""
        name, layout, holes, replaced = read.value, self._metas[read.value], [], 0
        while name not in self._sources:
            node = self._producers[name]
            if node.view_of is not None:
                name = node.view_of
            elif _patches(node):
                target, patch = node.references()
                holes.append(self._metas[patch])
                name = target
            elif (elements := _elements_replaced(node, self._metas)) is not None:
                replaced += elements
                name = next(node.references())
            else:
                return None
        root = self._graph.shared.get(name, name)
        count = read.elements
        if replaced or count is not None:
            shown = distinct(layout)
            count = min(shown if count is None else count, max(0, shown - replaced))
        return root, self._part(root, layout, count, tuple(holes))

    def _updated(self, value: str) -> Iterator[tuple[TensorMeta, int | None]]:
        """Layouts written on the way to `value`, with how many elements of each (None for all)."""
        while value not in self._sources:
            node = self._producers[value]
            if node.view_of is not None:
                value = node.view_of
            elif _patches(node):
                value, patch = node.references()
                yield self._metas[patch], None
            elif (elements := _elements_replaced(node, self._metas)) is not None:
                yield self._metas[value], min(elements, distinct(self._metas[value]))
                value = next(node.references())
            else:
                yield self._metas[value], None
                return

    def _root(self, name: str) -> str:
        """The value that first held the memory which `name` shows."""
        while name not in self._sources:
            node = self._producers[name]
            made = len(node.outputs) - len(node.writes)
            position = int(name.partition(".")[2] or 0)
            if node.view_of is not None:
                name = node.view_of
            elif position >= made:
                name = node.writes[position - made]
            else:
                return name
        return self._graph.shared.get(name, name)


def _patches(node: Node) -> bool:
    """A write to part of a memory, as the graph spells it: the whole, with that part replaced."""
    return node.operator == "aten.as_strided_scatter" and bool(node.writes)


def _overwrites_self(node: Node) -> bool:
    """In place, and not by way of `out=`."""
    own = node.argument("self")
    return bool(node.writes) and isinstance(own, Reference) and own.name == node.writes[0]


def _elements_replaced(node: Node, metas: dict[str, TensorMeta]) -> int | None:
    """How many elements an indexed write in place touches; None for other nodes."""
    name = node.operator.removeprefix("aten.")
    if not _overwrites_self(node) or name not in _INDEXED_WRITES:
        return None
    given = node.argument(_INDEXED_WRITES[name])
    return metas[given.name].numel if isinstance(given, Reference) else 0


def _reads(node: Node, metas: dict[str, TensorMeta]) -> Iterator[_Read]:
    """What a node needs the contents of."""
    idle = bool(node.outputs) and all(output.numel == 0 for output in node.outputs)
    if node.view_of is not None or node.kind == "allocation" or _patches(node) or idle:
        return
    name = node.operator.removeprefix("aten.")
    for argument_name, argument in [*zip(node.argument_names, node.arguments), *node.keywords.items()]:
        elements = None
        if _TABLES.get(name) == argument_name:
            elements = _elements_picked(node, metas)
        elif argument_name == "self" and _overwrites_self(node):
            elements = _elements_kept(node, metas)
        yield from (_Read(value=value, elements=elements) for value in references_in(argument))


def _elements_picked(node: Node, metas: dict[str, TensorMeta]) -> int:
    """An output shows each picked element once; only bags add several rows up."""
    if "embedding_bag" not in node.operator:
        return node.outputs[0].numel
    rows = node.argument("indices")
    width = node.outputs[0].shape[-1]
    return metas[rows.name].numel * width if isinstance(rows, Reference) else node.outputs[0].numel


def _elements_kept(node: Node, metas: dict[str, TensorMeta]) -> int | None:
    """How much of what it overwrites a node reads; None for all."""
    name = node.operator.removeprefix("aten.")
    if name in _REPLACING:
        return 0
    accumulates = name in _ACCUMULATING or node.argument("accumulate") is True
    replaced = _elements_replaced(node, metas)
    return replaced if replaced is None or accumulates else 0
