"""Finds variances that a reference writes out: `centred = x - x.mean(...)`, and the square of that."""

from __future__ import annotations

from collections.abc import Iterable

from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.operators import bare_name, words
from triton_agent.tools.graph.values import Reference

VARIANCE = "var"
"""The operator that such nodes count as."""
SQUARES = words("mul pow square linalg_vector_norm norm")


def operators_of(graph: OperatorGraph, nodes: Iterable[Node] | None = None) -> frozenset[str]:
    """Return the names of the nodes' operators, by default of all nodes; variances that are written out count."""
    chosen = list(graph.nodes if nodes is None else nodes)
    names = frozenset(bare_name(node.operator) for node in chosen)
    if names >= {"sub", "mean"} and any(is_centring(graph, node) for node in chosen):
        return names | {VARIANCE}
    return names


def is_centring(graph: OperatorGraph, node: Node) -> bool:
    """Return True if the node subtracts the mean of a tensor from the tensor, and the difference is squared."""
    if not _subtracts_own_mean(graph, node):
        return False
    centred = {it.output_name() for it in graph.nodes if _subtracts_own_mean(graph, it)}
    squares = (set(it.references()) for it in graph.nodes if bare_name(it.operator) in SQUARES)
    return any(node.output_name() in operands and operands <= centred for operands in squares)


def _subtracts_own_mean(graph: OperatorGraph, node: Node) -> bool:
    operands = [it.name for it in node.arguments[:2] if isinstance(it, Reference)]
    if bare_name(node.operator) != "sub" or len(operands) < 2:
        return False
    mean = graph.producers().get(graph.origin(operands[1]))
    if mean is None or bare_name(mean.operator) != "mean":
        return False
    taken, values = next(iter(mean.references())), graph.values()
    return graph.origin(taken) == graph.origin(operands[0]) and values[taken].numel == values[operands[0]].numel
