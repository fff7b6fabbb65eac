"""A kernel's nodes under other numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triton_agent.policy.author.ir.sizes import Size
from triton_agent.policy.author.plan.indexing import Base, Index, Lookup, Piece
from triton_agent.policy.author.plan.kernel_graph import Guard, Node


def renumbered(node: Node, places: Mapping[int, int]) -> Node:
    """The node, with what it is made of where that is now."""
    arguments = tuple(places[a] if isinstance(a, int) else a for a in node.arguments)
    index = None if node.index is None else index_renumbered(node.index, places)
    guards = tuple(Guard(index_renumbered(g.index, places), g.size, g.below, g.above) for g in node.guards)
    return dataclasses.replace(node, arguments=arguments, index=index, guards=guards)


def index_renumbered(index: Index, places: Mapping[int, int]) -> Index:
    """The same for the nodes that it looks up."""
    terms: list[tuple[Base, Size]] = []
    for base, coefficient in index.terms:
        if isinstance(base, Lookup):
            base = Lookup(places[base.node], base.size)
        elif isinstance(base, Piece):
            base = Piece(index_renumbered(base.index, places), base.divisor, base.modulus, base.size)
        terms.append((base, coefficient))
    return Index(tuple(terms), index.offset)
