"""Merges the graphs of one model at several sizes into one graph.

Graphs of the same structure are traversed in parallel. A number that differs among them becomes a `Number`; everything
else must agree, including which dimensions an operator works on. A graph of another structure, where the model took
another path, is left out and reported as a limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.regrouping import regrouped
from triton_agent.policy.author.ir.sizes import Shape
from triton_agent.tools.graph.graph import Node, OperatorGraph, Reference, TensorMeta
from triton_agent.tools.graph.values import renamed

_DIMENSIONS = frozenset({"dim", "dims", "dim0", "dim1", "dim2"})
"""Arguments that name dimensions; they must be the same at every size."""
_RESHAPES = frozenset({"aten.view", "aten._unsafe_view"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlignedNode:
    """One operator call at all sizes."""

    node: Node
    """The call at the first size."""
    arguments: dict[str, Any]
    """Arguments by name: plain values, `Reference`, `Number`, tuples of them."""
    shapes: tuple[Shape, ...]
    """Shapes of the outputs."""

    @property
    def operator(self) -> str:
        return self.node.operator

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(meta.dtype for meta in self.node.outputs)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlignedGraph:
    """One graph, at all sizes that share its structure."""

    main: OperatorGraph
    graphs: tuple[OperatorGraph, ...]
    nodes: tuple[AlignedNode, ...]
    left_out: int
    """Number of graphs left out because their structure differs."""
    numbers: Mapping[str, tuple[float, ...]]
    """Attributes of the modules that hold a number at every size."""

    @property
    def width(self) -> int:
        return len(self.graphs)

    def shape_of(self, name: str) -> Shape:
        """Return the shape of a source at all sizes."""
        return shape_over([graph.sources()[name] for graph in self.graphs])

    def strides_of(self, name: str) -> Shape:
        metas = [graph.sources()[name] for graph in self.graphs]
        return tuple(tuple(entries) for entries in zip(*(meta.strides for meta in metas)))


def shape_over(metas: Sequence[TensorMeta]) -> Shape:
    return tuple(tuple(entries) for entries in zip(*(meta.shape for meta in metas)))


def align(graphs: Sequence[OperatorGraph], numbers: Sequence[Mapping[str, float]] = ()) -> AlignedGraph:
    """Merge the graphs that have the structure of the first one."""
    graphs, numbers = _without_empty([regrouped(graph) for graph in graphs], numbers)
    # The first graph may lack a view that has no effect at its sizes, because torch did not run it. A longer graph
    # shows where that view belongs.
    longer = sorted((graph for graph in graphs if len(graph.nodes) > len(graphs[0].nodes)), key=lambda g: len(g.nodes))
    templates = [graphs[0], *{len(graph.nodes): graph for graph in longer}.values()]
    alike = max((_completed(template, graphs) for template in templates), key=len)
    known = [numbers[i] for i in alike] if numbers else []
    shared = [name for name in (known[0] if known else ()) if all(name in held for held in known)]
    main = alike[0]
    nodes = tuple(_aligned([graph.nodes[i] for graph in alike.values()]) for i in range(len(main.nodes)))
    return AlignedGraph(
        main=main,
        graphs=tuple(alike.values()),
        nodes=nodes,
        left_out=len(graphs) - len(alike),
        numbers={name: tuple(held[name] for held in known) for name in shared},
    )


def _completed(template: OperatorGraph, graphs: Sequence[OperatorGraph]) -> dict[int, OperatorGraph]:
    """Return the graphs that match a template, by index, with missing views inserted; empty if the first does not
    match.
    """
    found: dict[int, OperatorGraph] = {}
    for place, graph in enumerate(graphs):
        completed = graph if _same_structure(template, graph) else _with_idle_views(template, graph)
        if completed is not None and _same_structure(template, completed):
            found[place] = completed
        elif place == 0:
            return {}
    return found


def _without_empty(
    graphs: Sequence[OperatorGraph], numbers: Sequence[Mapping[str, float]]
) -> tuple[Sequence[OperatorGraph], Sequence[Mapping[str, float]]]:
    """Leave out graphs with an empty tensor: nothing is computed there, and sizes of zero distinguish nothing."""
    full = [i for i, graph in enumerate(graphs) if all(meta.numel for meta in graph.values().values())]
    if 0 not in full or len(full) < 2:
        return graphs, numbers
    return [graphs[i] for i in full], [numbers[i] for i in full] if numbers else numbers


def _with_idle_views(main: OperatorGraph, graph: OperatorGraph) -> OperatorGraph | None:
    """Insert the views that torch did not run because they have no effect at this graph's sizes; None if that fails.

    To reshape, torch makes a view if the strides allow it and copies first if not. Which of the two happens can differ
    between sizes, for example at a batch of one, so a copy before a reshape is removed.
    """
    metas = dict(graph.sources())
    nodes: list[Node] = []
    waiting = list(graph.nodes)
    theirs: dict[str, str] = {name: name for name in graph.sources()}
    idle: dict[str, str] = {}
    for ours in main.nodes:
        if ours.operator in _RESHAPES and _copies_to_reshape(waiting):
            copy = waiting.pop(0)
            theirs[copy.output_name()] = theirs.get(source := next(copy.references()), source)
        found = _restated(waiting[0], len(nodes), theirs) if waiting else None
        found = None if found is None else _through_idle_views(found, ours, idle)
        if found is not None and found.operator in _RESHAPES and ours.operator in _RESHAPES:
            alike = {"operator": ours.operator, "overload": ours.overload, "argument_names": ours.argument_names}
            found = dataclasses.replace(found, **alike)  # type: ignore[arg-type]
        if found is not None and _same_node(ours, found):
            theirs.update({waiting[0].output_name(k): found.output_name(k) for k in range(len(found.outputs))})
            waiting.pop(0)
        else:
            found = _idle(ours, len(nodes), metas)
            if found is None:
                return None
            idle[found.output_name()] = next(iter(found.references()))
        nodes.append(found)
        metas.update({found.output_name(k): meta for k, meta in enumerate(found.outputs)})
    outputs = tuple(theirs.get(name, name) for name in graph.outputs)
    if waiting:
        return None
    # An inserted view at the very end changes the name of an output.
    outputs = tuple(m if _behind(m, idle) == _behind(o, idle) else o for o, m in zip(outputs, main.outputs))
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=outputs, updates=dict(main.updates))


def _copies_to_reshape(waiting: Sequence[Node]) -> bool:
    """Return True if the next two calls are a copy and a reshape of it, and nothing else uses the copy."""
    if len(waiting) < 2 or waiting[0].operator != "aten.clone" or waiting[1].operator not in _RESHAPES:
        return False
    name = waiting[0].output_name()
    return name in waiting[1].references() and not any(name in node.references() for node in waiting[2:])


def _behind(name: str, idle: Mapping[str, str]) -> str:
    """Return the value behind the inserted views."""
    while name in idle:
        name = idle[name]
    return name


def _through_idle_views(found: Node, ours: Node, idle: Mapping[str, str]) -> Node:
    """Return the call with inserted views as operands where the call at the main sizes has views."""
    names = {
        theirs: mine
        for mine, theirs in zip(ours.references(), found.references())
        if mine != theirs and _behind(mine, idle) == _behind(theirs, idle)
    }
    return _restated(found, found.index, names) if names else found


def _restated(node: Node, index: int, names: Mapping[str, str]) -> Node:
    return dataclasses.replace(
        node,
        index=index,
        arguments=tuple(renamed(argument, names) for argument in node.arguments),
        keywords={name: renamed(argument, names) for name, argument in node.keywords.items()},
    )


def _idle(ours: Node, index: int, metas: Mapping[str, TensorMeta]) -> Node | None:
    """Return a view that has no effect here, in place of the main graph's view; None if it would have an effect."""
    references = list(ours.references())
    if ours.kind not in ("view", "movement") or len(references) != 1 or len(ours.outputs) != 1:
        return None
    meta = metas.get(references[0])
    if meta is None or len(meta.shape) != len(ours.outputs[0].shape):
        return None
    here = {"size": meta.shape, "shape": meta.shape} | ({"start": 0} if ours.operator == "aten.slice" else {})
    arguments = tuple(here.get(name, argument) for name, argument in zip(ours.argument_names, ours.arguments))
    keywords = {name: here.get(name, argument) for name, argument in ours.keywords.items()}
    return dataclasses.replace(ours, index=index, arguments=arguments, keywords=keywords, outputs=(meta,))


def _same_structure(a: OperatorGraph, b: OperatorGraph) -> bool:
    if len(a.nodes) != len(b.nodes) or a.outputs != b.outputs or dict(a.updates) != dict(b.updates):
        return False
    ours, theirs = a.sources(), b.sources()
    if ours.keys() != theirs.keys() or any(not _alike(ours[name], theirs[name]) for name in ours):
        return False
    return all(_same_node(x, y) for x, y in zip(a.nodes, b.nodes))


def _same_node(a: Node, b: Node) -> bool:
    if (a.operator, a.argument_names, len(a.outputs)) != (b.operator, b.argument_names, len(b.outputs)):
        return False
    if not all(_alike(x, y) for x, y in zip(a.outputs, b.outputs)) or a.keywords.keys() != b.keywords.keys():
        return False
    try:
        merged = {name: _merged(values, name) for name, values in _named(a, b)}
    except ValueError:
        return False
    return not any(_varies(merged[name]) for name in merged.keys() & _DIMENSIONS)


def _varies(argument: Any) -> bool:
    return isinstance(argument, Number) or (isinstance(argument, tuple) and any(map(_varies, argument)))


def _alike(a: TensorMeta, b: TensorMeta) -> bool:
    return a.dtype == b.dtype and len(a.shape) == len(b.shape)


def _named(*nodes: Node) -> list[tuple[str, list[Any]]]:
    first = nodes[0]
    named = [(name or str(i), [node.arguments[i] for node in nodes]) for i, name in enumerate(first.argument_names)]
    return named + [(name, [node.keywords[name] for node in nodes]) for name in first.keywords]


def _aligned(nodes: Sequence[Node]) -> AlignedNode:
    return AlignedNode(
        node=nodes[0],
        arguments={name: _merged(values, name) for name, values in _named(*nodes)},
        shapes=tuple(shape_over([node.outputs[k] for node in nodes]) for k in range(len(nodes[0].outputs))),
    )


def _merged(values: Sequence[Any], where: str) -> Any:
    first = values[0]
    if isinstance(first, tuple):
        if any(not isinstance(value, tuple) or len(value) != len(first) for value in values):
            raise ValueError(where)
        return tuple(_merged([value[i] for value in values], where) for i in range(len(first)))
    if isinstance(first, (Reference, bool, str)) or first is None:
        if any(value != first for value in values):
            raise ValueError(where)
        return first
    if isinstance(first, (int, float)):
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
            raise ValueError(where)
        return first if all(value == first or value != value for value in values) else Number(tuple(values))
    if any(value != first for value in values):
        raise ValueError(where)
    return first
