"""Inputs of a graph, the operators that receive them, and everything that depends on one input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch

from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.values import references_in
from triton_agent.tools.graph.written_out import operators_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The values that depend on one source of a graph, and the nodes that receive one of them."""

    values: frozenset[str] = frozenset()
    nodes: tuple[Node, ...] = ()
    operators: frozenset[str] = frozenset()
    """Names of the operators of these nodes, those that the reference writes out included."""

    def is_in(self, node: Node, *arguments: str) -> bool:
        """Return True if one of the node's arguments with these names depends on the source."""
        return not self.values.isdisjoint(references_in(tuple(node.argument(name) for name in arguments)))


def reach_of(graph: OperatorGraph, source: str) -> Reach:
    values, nodes = {source, graph.shared.get(source, source)}, []
    for node in graph.nodes:
        if not values.isdisjoint(node.references()):
            nodes.append(node)
            values |= {node.output_name(k) for k in range(len(node.outputs))}
    return Reach(values=frozenset(values), nodes=tuple(nodes), operators=operators_of(graph, nodes))


def reduced_dims(graph: OperatorGraph, node: Node, shape: Sequence[int]) -> frozenset[int]:
    """Return the dimensions of an input of this shape that a node reduces which receives a view of it.

    Empty if the node reduces none, or if the shapes do not tell which.
    """
    operand = next((graph.values()[name].shape for name in node.references() if name in graph.values()), ())
    normalized, given = node.argument("normalized_shape"), node.argument("dim")
    if isinstance(normalized, (list, tuple)):
        dims = set(range(len(operand) - len(normalized), len(operand)))
    elif given is None:
        dims = set(range(len(operand))) if node.kind == "reduction" else set()
    else:
        listed = given if isinstance(given, (list, tuple)) else (given,)
        dims = {dim % len(operand) for dim in listed if isinstance(dim, int) and operand}
    return frozenset(dim for group, others in _groups(shape, operand) if dims & set(others) for dim in group)


def _groups(shape: Sequence[int], other: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the dimensions of two shapes of one tensor that hold the same elements, as far as they can be told."""
    i = k = 0
    while i < len(shape) and k < len(other):
        here, there = [i], [k]
        one, two = shape[i], other[k]
        while one != two:
            if one < two and here[-1] + 1 < len(shape):
                here.append(here[-1] + 1)
                one *= shape[here[-1]]
            elif two < one and there[-1] + 1 < len(other):
                there.append(there[-1] + 1)
                two *= other[there[-1]]
            else:
                return
        yield here, there
        i, k = here[-1] + 1, there[-1] + 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An input and an operator that receives it, as `scale * input + shift` where these are known."""

    position: int
    node: Node
    scale: float | None = None
    shift: float = 0.0
    exists_beside: frozenset[str] = frozenset()
    """Names of all operators of the graph."""
    reach: Reach = dataclasses.field(default_factory=Reach)
    """Everything that depends on the input."""
    reduced: frozenset[int] = frozenset()
    """Dimensions of the input that the operator reduces; empty if unknown, or if it reduces none."""
    cast_to_whole: bool = False
    """True if the graph casts floats to integers, which cannot hold huge values."""
    squared: bool = False
    """True if two values that depend on the input are multiplied before they reach the operator."""
    picked: bool = False
    """True if an operator that picks elements uses this input as well."""
    boundaries: torch.Tensor | None = None
    """Values at which the operator jumps, with a shape that broadcasts to that of the input."""
    beside: int | None = None
    """Number of the input that holds the boundaries, whose values differ between draws."""
    numbers: tuple[float, ...] = ()
    """Numbers that the input is compared with in the reference's text, or that several elements are set to."""
    may_be_zero: bool = True
    """False if zero is outside of what the reference is known to accept for a whole number."""


Change = Callable[[torch.Tensor, Feed, torch.Generator, int], None]
"""Changes a tensor in place. The last argument counts how often the reference refused: each time, change less."""
