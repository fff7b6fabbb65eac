"""Canonical text of a graph's structure: equal texts mean equal structure.

Nodes are written in the order in which the outputs need them, and sources are numbered as they are met, so names and
the order of independent nodes do not matter. Without `exact`, sizes are left out: arguments that are sizes, and the
bounds of slices except for their sign. Graphs that compute the same values in different ways have different texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.values import Argument, Reference, TensorMeta

_SIZES = frozenset({"size", "split_size", "split_sizes", "normalized_shape", "length", "N", "C", "HxW", "self_size"})
"""Arguments that are sizes in every operator."""
_LAYOUT = frozenset({"stride", "storage_offset"})
"""Arguments that are sizes only in operators that describe a layout; the `stride` of a convolution is structure."""
_BOUNDS = frozenset({"start", "end"})


def fingerprint(graph: OperatorGraph) -> str:
    """Return a hash that is equal for graphs of the same structure.

    It depends on operators, wiring, constants, dtypes and ranks, but not on sizes, strides, names of parameters or
    the order of independent nodes. A number computed from a size (`x / math.sqrt(d)`) counts as a constant.
    """
    return _hash_of(graph, exact=False)


def signature(graph: OperatorGraph) -> str:
    """Return a hash that is equal for graphs of the same structure, shapes and strides."""
    return _hash_of(graph, exact=True)


def _hash_of(graph: OperatorGraph, *, exact: bool) -> str:
    return hashlib.sha256(_Writer(graph, exact).text().encode()).hexdigest()[:32]


def _in_order_of_need(graph: OperatorGraph) -> Iterator[Node]:
    """Yield nodes depth first from outputs and updates. Not recursive: an unrolled loop exceeds Python's stack."""
    producers = graph.producers()
    roots = [producers[name] for name in (*graph.outputs, *graph.updates.values()) if name in producers]
    roots += [node for node in graph.nodes if not node.outputs]
    done: set[int] = set()
    for root in roots:
        stack = [(root, root.references())]
        while stack:
            node, references = stack[-1]
            needed = next((producers[name] for name in references if name in producers), None)
            if needed is None:
                stack.pop()
                if node.index not in done:
                    done.add(node.index)
                    yield node
            elif needed.index not in done:
                stack.append((needed, needed.references()))


class _Writer:
    """Gives every value a canonical label."""

    def __init__(self, graph: OperatorGraph, exact: bool) -> None:
        self._graph = graph
        self._exact = exact
        self._sources = graph.sources()
        self._labels: dict[str, str] = {}
        self._met = {"p": 0, "b": 0, "c": 0}

    def text(self) -> str:
        """Return one line per node, then the outputs and the updates."""
        lines: list[str] = []
        for node in _in_order_of_need(self._graph):
            arguments = [self._argument(node, *pair) for pair in zip(node.argument_names, node.arguments)]
            arguments += [f"{name}={self._argument(node, name, arg)}" for name, arg in sorted(node.keywords.items())]
            outputs = ",".join(map(self._meta, node.outputs))
            for position in range(len(node.outputs)):
                self._labels[node.output_name(position)] = f"{len(lines)}.{position}"
            lines.append(f"{node.operator}({','.join(arguments)}):{outputs}")
        outputs = ",".join(map(self._label, self._graph.outputs))
        updates = [f"{self._label(source)}<{self._label(value)}" for source, value in self._graph.updates.items()]
        return "\n".join([*lines, f"return {self._graph.output_structure} {outputs}", *sorted(updates)])

    def _label(self, name: str) -> str:
        """Return a value's label. Inputs keep their position in the call; other sources are numbered as met."""
        if name not in self._labels:
            kind = name[0]
            label = name if kind == "x" else f"{kind}{self._met[kind]}"
            if kind in self._met:
                self._met[kind] += 1
            self._labels[name] = f"{label}:{self._meta(self._sources[name])}"
        return self._labels[name]

    def _meta(self, meta: TensorMeta) -> str:
        return f"{meta.dtype}{meta.shape}{meta.strides}" if self._exact else f"{meta.dtype}^{len(meta.shape)}"

    def _argument(self, node: Node, name: str, argument: Argument) -> str:
        if isinstance(argument, Reference):
            return self._label(argument.name)
        if not self._exact and _is_size(node, name, argument):
            return f"#{len(argument)}" if isinstance(argument, tuple) else "#"
        if not self._exact and name in _BOUNDS and isinstance(argument, int):
            return "0" if argument == 0 else "+" if argument > 0 else "-"
        if isinstance(argument, tuple):
            return f"[{','.join(self._argument(node, '', item) for item in argument)}]"
        return repr(argument)


def _is_size(node: Node, name: str, argument: Argument) -> bool:
    if argument is None:
        return False
    if name == "output_size":  # pooling down to 1 is structure, any other size is a size
        return not (isinstance(argument, tuple) and all(size == 1 for size in argument))
    return name in _SIZES or (name in _LAYOUT and "strided" in node.operator)
