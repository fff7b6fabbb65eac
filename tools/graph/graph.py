"""The operators that one call of a model runs, as a graph of values and nodes.

A graph is plain data about one call with one set of inputs. It is functional: every node makes new values, and a node
that writes in place names the values it overwrites (`writes`). A graph has no control flow: it holds the path that
Python took in this call, and `data_dependent` is set if that path depended on values. Contents of tensors are only kept
for constants: one element becomes a plain number, a few elements are in `contents`.

Values are named `x0` (inputs), `p:weight` (parameters), `b:running_mean` (buffers), `c0` (other tensors), `n3` (the
first output of node 3) and `n3.1` (its second output). Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from triton_agent.tools.graph.operators import Kind, kind_of
from triton_agent.tools.graph.values import (
    Argument,
    Reference,
    TensorMeta,
    argument_from_json,
    argument_text,
    references_in,
    to_json,
)

__all__ = ["Argument", "Kind", "Node", "OperatorGraph", "Reference", "TensorMeta", "kind_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator call."""

    index: int
    operator: str
    """For example `aten.addmm`: without overload and in-place underscore, and the same on CPU and CUDA."""
    overload: str
    """For example `Tensor` or `default`. Empty if several operators share this name, and for calls with `out=`."""
    arguments: tuple[Argument, ...]
    argument_names: tuple[str, ...]
    """Names in the operator's schema; empty strings if it has no schema."""
    keywords: Mapping[str, Argument]
    outputs: tuple[TensorMeta, ...]
    view_of: str | None = None
    """The value whose memory the outputs share; None if they have their own memory."""
    writes: tuple[str, ...] = ()
    """Values that the call overwrites. Their new contents are the last outputs, in the same order."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.operator)

    def argument(self, name: str, default: Argument = None) -> Argument:
        """Return the argument of this name, passed by position or by keyword."""
        for own, value in zip(self.argument_names, self.arguments):
            if own == name:
                return value
        return self.keywords.get(name, default)

    def output_name(self, position: int = 0) -> str:
        return f"n{self.index}.{position}" if position else f"n{self.index}"

    def references(self) -> Iterator[str]:
        yield from references_in(self.arguments)
        yield from references_in(tuple(self.keywords.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """The operators of one call of a model."""

    inputs: Mapping[str, TensorMeta]
    parameters: Mapping[str, TensorMeta]
    buffers: Mapping[str, TensorMeta]
    constants: Mapping[str, TensorMeta]
    nodes: tuple[Node, ...]
    """Only nodes that an output, an update or a read of values depends on."""
    outputs: tuple[str, ...]
    output_structure: str = "*"
    """The nesting of the outputs, with a star for each: `(*, {'hidden': *})`."""
    updates: Mapping[str, str] = field(default_factory=dict)
    """For each source that the call overwrote, the value that holds its new contents."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """For each source that shares memory with an earlier source, that source: `x1` may be a slice of `x0`."""
    held: Mapping[str, str] = field(default_factory=dict)
    """For each constant that a module holds as a plain attribute, its path: `blocks.0.tables[1]`."""
    contents: Mapping[str, tuple[Argument, ...]] = field(default_factory=dict)
    """Elements of the other constants if they are few, for example a list of numbers in the text of `forward`."""
    data_dependent: bool = False
    """Python read values (`.item()`, a boolean mask, `nonzero`), so another input may run another graph."""

    def sources(self) -> dict[str, TensorMeta]:
        """Return every value that existed before the call."""
        return {**self.inputs, **self.parameters, **self.buffers, **self.constants}

    def values(self) -> dict[str, TensorMeta]:
        """Return every source and every output of a node."""
        made = {node.output_name(k): meta for node in self.nodes for k, meta in enumerate(node.outputs)}
        return {**self.sources(), **made}

    def producers(self) -> dict[str, Node]:
        """Return the node that made each value; sources have none."""
        return {node.output_name(k): node for node in self.nodes for k in range(len(node.outputs))}

    def origin(self, name: str) -> str:
        """Return the value that this one is a view or a copy of, as far back as it goes."""
        producers = self.producers()
        while (producer := producers.get(name)) is not None and producer.kind in ("view", "movement"):
            name = next(iter(producer.references()))
        return name

    def dump(self) -> str:
        """Return text for people and prompts: the used sources, then one line per node."""
        used = {name for node in self.nodes for name in node.references()} | {*self.outputs, *self.updates}
        lines = [f"{name}: {meta}" for name, meta in self.sources().items() if name in used or name in self.inputs]
        lines += [_line(node) for node in self.nodes]
        lines += [f"update {name} <- {value}" for name, value in self.updates.items()]
        names = iter(self.outputs)
        lines.append("return " + re.sub(r"\*", lambda star: next(names, ""), self.output_structure))
        if self.data_dependent:
            lines.append("note: Python read values during this call; other values may take another path")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {field.name: to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OperatorGraph:
        groups = ("inputs", "parameters", "buffers", "constants")
        nodes = (
            Node(
                **{
                    **node,
                    "arguments": argument_from_json(node["arguments"]),
                    "argument_names": tuple(node["argument_names"]),
                    "keywords": {name: argument_from_json(argument) for name, argument in node["keywords"].items()},
                    "outputs": tuple(map(TensorMeta.from_json, node["outputs"])),
                    "writes": tuple(node["writes"]),
                }
            )
            for node in data["nodes"]
        )
        return cls(
            **{
                **data,
                **{group: {name: TensorMeta.from_json(meta) for name, meta in data[group].items()} for group in groups},
                "nodes": tuple(nodes),
                "outputs": tuple(data["outputs"]),
                # missing in graphs of earlier versions
                "contents": {name: argument_from_json(items) for name, items in data.get("contents", {}).items()},
            }
        )


def _line(node: Node) -> str:
    arguments = [
        argument_text(value) if isinstance(value, Reference) or not name else f"{name}={argument_text(value)}"
        for name, value in zip(node.argument_names, node.arguments)
    ]
    arguments += [f"{name}={argument_text(value)}" for name, value in node.keywords.items()]
    text = (
        f"n{node.index} = {node.operator}({', '.join(arguments)}) -> {', '.join(map(str, node.outputs)) or 'nothing'}"
    )
    if node.view_of is not None:
        text += f"  # view of {node.view_of}"
    return f"{text}  # in place of {', '.join(node.writes)}" if node.writes else text
