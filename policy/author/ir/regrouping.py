"""Replaces an `unbind` and the `cat` of all its pieces by two views.

`torch.cat(x.unbind(1), 0)` has as many pieces as the dimension has elements, so its graph differs at every size. As a
permutation and a reshape the graph is the same at all sizes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from triton_agent.tools.graph.graph import Node, OperatorGraph, Reference, TensorMeta


def regrouped(graph: OperatorGraph) -> OperatorGraph:
    """Return the graph with a permutation for each such `unbind`, and a reshape for the `cat` of its pieces."""
    uses = Counter(name for node in graph.nodes for name in node.references())
    uses.update([*graph.outputs, *graph.updates.values()])
    nodes = list(graph.nodes)
    metas = graph.values()
    for join in graph.nodes:
        apart = _joins_again(graph, join, uses)
        if apart is not None:
            source = next(iter(apart.references()))
            nodes[apart.index], nodes[join.index] = _as_views(apart, join, source, metas[source])
    return dataclasses.replace(graph, nodes=tuple(nodes))


def _joins_again(graph: OperatorGraph, join: Node, uses: Counter[str]) -> Node | None:
    """Return the `unbind` whose pieces this `cat` joins, if it joins all of them in order and they have no other
    use.
    """
    pieces = list(join.references())
    if join.operator != "aten.cat" or not pieces:
        return None
    apart = graph.producers().get(pieces[0])
    if apart is None or apart.operator != "aten.unbind" or apart.writes or join.writes:
        return None
    own = [apart.output_name(k) for k in range(len(apart.outputs))]
    return apart if pieces == own and all(uses[name] == 1 for name in own) else None


def _as_views(apart: Node, join: Node, source: str, meta: TensorMeta) -> tuple[Node, Node]:
    rank = len(meta.shape)
    taken, along = _whole(apart, "dim") % rank, _whole(join, "dim") % (rank - 1)
    order = [dim for dim in range(rank) if dim != taken]
    order.insert(along, taken)
    turned = dataclasses.replace(
        meta, shape=tuple(meta.shape[d] for d in order), strides=tuple(meta.strides[d] for d in order)
    )
    permuted = dataclasses.replace(
        apart,
        operator="aten.permute",
        overload="default",
        arguments=(Reference(name=source), tuple(order)),
        argument_names=("self", "dims"),
        keywords={},
        outputs=(turned,),
    )
    reshaped = dataclasses.replace(
        join,
        operator="aten.reshape",
        overload="default",
        arguments=(Reference(name=permuted.output_name()), join.outputs[0].shape),
        argument_names=("self", "shape"),
        keywords={},
    )
    return permuted, reshaped


def _whole(node: Node, name: str) -> int:
    found = node.argument(name, 0)
    assert isinstance(found, int)
    return found
