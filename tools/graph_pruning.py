"""Leaves out of a graph what nothing depends on, and numbers the rest anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from triton_agent.tools.graph import Node, OperatorGraph
from triton_agent.tools.graph_values import renamed


def pruned(graph: OperatorGraph, droppable: Mapping[int, range]) -> OperatorGraph:
    """Nodes that reach an output, an update or a look at values; `droppable` outputs only where something uses them."""
    used = _used(graph)
    nodes: list[Node] = []
    names: dict[str, str] = {}
    for node in graph.nodes:
        if node.outputs and not any(node.output_name(k) in used for k in range(len(node.outputs))):
            continue
        optional = droppable.get(node.index, range(0))
        kept = [k for k in range(len(node.outputs)) if k not in optional or node.output_name(k) in used]
        short = replace(_renamed(node, names), index=len(nodes), outputs=tuple(node.outputs[k] for k in kept))
        names.update({node.output_name(k): short.output_name(position) for position, k in enumerate(kept)})
        nodes.append(short)
    return replace(
        graph,
        nodes=tuple(nodes),
        outputs=tuple(names.get(name, name) for name in graph.outputs),
        updates={source: names.get(value, value) for source, value in graph.updates.items()},
    )


def _used(graph: OperatorGraph) -> set[str]:
    """Names of values that matter. Nodes come after what they take, so one pass backwards finds them all."""
    used = {*graph.outputs, *graph.updates.values()}
    for node in reversed(graph.nodes):
        if not node.outputs or any(node.output_name(k) in used for k in range(len(node.outputs))):
            used.update(node.references(), node.writes, [node.view_of] if node.view_of else [])
    return used


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        arguments=tuple(renamed(argument, names) for argument in node.arguments),
        keywords={name: renamed(argument, names) for name, argument in node.keywords.items()},
        view_of=names.get(node.view_of, node.view_of) if node.view_of else None,
        writes=tuple(names.get(name, name) for name in node.writes),
    )
