"""The floor of a model's call: bytes that must cross the memory bus, and arithmetic operations.

Each needed element that existed before the call is read once, each output is written once, and intermediate values cost
nothing. Values are not inspected: a table read by index counts one row per index, even if indices repeat. Arithmetic is
counted as in the graph, without algebraic simplification. Data that a cache still holds from an earlier call counts as
read again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from triton_agent.tools.graph.extents import Part, distinct, touched
from triton_agent.tools.graph.flops import UnitFlops, flops_of, itemsize
from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.operators import ADDING, INDEXED_WRITES, REPLACING, TABLES
from triton_agent.tools.graph.values import Reference, TensorMeta, references_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Fewest bytes and operations of one call."""

    bytes_moved: int
    flops: int
    flops_by_unit: tuple[UnitFlops, ...]
    """The parts of `flops`, sorted by unit."""

    def __post_init__(self) -> None:
        if self.flops != sum(part.flops for part in self.flops_by_unit):
            raise ValueError("the parts do not add up to the whole")


def floor_of(graph: OperatorGraph) -> Floor:
    """Return the fewest bytes and operations for the computation of `graph`."""
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


class _Traffic:
    """The elements of each storage that a call must read and write."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._graph = graph
        self._metas = graph.values()
        self._sources = graph.sources()
        self._producers = graph.producers()

    def bytes_read(self) -> int:
        parts: dict[str, list[Part]] = defaultdict(list)
        picked: Counter[str] = Counter()
        for name, elements in (read for node in self._graph.nodes for read in _reads(node, self._metas)):
            traced = self._traced(name, elements)
            if traced is None:
                continue
            source, part = traced
            if elements is None:
                parts[source].append(part)
            else:
                picked[source] += part.count or 0
        for source, elements in picked.items():
            meta = self._sources[source]
            parts[source].append(Part(layout=meta, count=min(elements, distinct(meta))))
        return self._bytes(parts)

    def bytes_written(self) -> int:
        """Count outputs in memory of their own, once per storage, and elements updated in place."""
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
        """Return a part in elements of `root`: a view with another dtype has elements of another size."""
        own, others = itemsize(layout.dtype), itemsize(self._metas[root].dtype)
        if own == others:
            return Part(layout=layout, count=count, holes=holes)
        elements = distinct(layout) if count is None else count
        return Part(layout=layout, count=elements * own // others)

    def _traced(self, name: str, elements: int | None) -> tuple[str, Part] | None:
        """Return the source of a value that is read, and the part that is read; None for values the call computed."""
        layout, holes, replaced = self._metas[name], [], 0
        while name not in self._sources:
            node = self._producers[name]
            if node.view_of is not None:
                name = node.view_of
            elif _patches(node):
                name, patch = node.references()
                holes.append(self._metas[patch])
            elif (written := _elements_replaced(node, self._metas)) is not None:
                replaced += written
                name = next(node.references())
            else:
                return None
        root = self._graph.shared.get(name, name)
        if replaced or elements is not None:
            shown = distinct(layout)
            elements = min(shown if elements is None else elements, max(0, shown - replaced))
        return root, self._part(root, layout, elements, tuple(holes))

    def _updated(self, value: str) -> Iterator[tuple[TensorMeta, int | None]]:
        """Yield the layouts that the call writes to produce `value`, with the number of elements (None for all)."""
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
        """Return the value that first held the memory of `name`."""
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
    """Return True if the node writes part of a storage: its result is the whole with that part replaced."""
    return node.operator == "aten.as_strided_scatter" and bool(node.writes)


def _overwrites_self(node: Node) -> bool:
    """Return True if the node writes in place, and not through `out=`."""
    own = node.argument("self")
    return bool(node.writes) and isinstance(own, Reference) and own.name == node.writes[0]


def _elements_replaced(node: Node, metas: dict[str, TensorMeta]) -> int | None:
    name = node.operator.removeprefix("aten.")
    if not _overwrites_self(node) or name not in INDEXED_WRITES:
        return None
    given = node.argument(INDEXED_WRITES[name])
    return metas[given.name].numel if isinstance(given, Reference) else 0


def _reads(node: Node, metas: dict[str, TensorMeta]) -> Iterator[tuple[str, int | None]]:
    """Yield the values that a node reads, each with the number of elements read by index, or None if all are read."""
    idle = bool(node.outputs) and all(output.numel == 0 for output in node.outputs)
    if node.view_of is not None or node.kind == "allocation" or _patches(node) or idle:
        return
    name = node.operator.removeprefix("aten.")
    for argument_name, argument in [*zip(node.argument_names, node.arguments), *node.keywords.items()]:
        elements = None
        if TABLES.get(name) == argument_name:
            elements = node.outputs[0].numel  # an output holds each read element once, but a bag adds several rows
            rows = node.argument("indices")
            if "embedding_bag" in name and isinstance(rows, Reference):
                elements = metas[rows.name].numel * node.outputs[0].shape[-1]
        elif argument_name == "self" and _overwrites_self(node):
            elements = _elements_replaced(node, metas)
            accumulates = name in ADDING or node.argument("accumulate") is True
            if name in REPLACING or (elements is not None and not accumulates):
                elements = 0
        yield from ((value, elements) for value in references_in(argument))
