"""Translates a graph of torch operators to a `Program` by rules. Operators without a rule are left to torch."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.alignment import AlignedGraph, AlignedNode
from triton_agent.policy.author.ir.program import DTYPES, FLOATS, VIEWS, Operand, Program
from triton_agent.policy.author.ir.torch_calls import TorchCall, schema_of
from triton_agent.policy.author.ir.viewing import lies_in_order
from triton_agent.policy.author.rules.attention import join_softmaxes
from triton_agent.policy.author.rules.building import Builder, Call
from triton_agent.policy.author.rules.complex_pairs import as_one
from triton_agent.policy.author.rules.registry import rule_for
from triton_agent.tools.graph.graph import Reference

_MAY_NOT_BE_LEFT_OUT = frozenset({"bias", "weight", "running_mean", "running_var"})
"""Arguments without a default that may be None."""
NOTHING_LEFT: Mapping[int, str] = types.MappingProxyType({})


def lower(
    graph: AlignedGraph,
    left_to_torch: Mapping[int, str] = NOTHING_LEFT,
    *,
    exact: bool = False,
    on_cpu: bool = False,
    library: bool = False,
    tf32_convolutions: bool = False,
    apart: Collection[int] | None = (),
) -> Program:
    """Lower a graph. Operators at the positions in `left_to_torch` are left to torch, for the reasons given there.

    With `exact`, intermediate values of an operator are not rounded to half precision for the matrix unit. With
    `on_cpu`, the reference runs on a CPU, which decides cases that torch leaves open. With `library`, operators that
    torch computes far faster are left to it. With `tf32_convolutions`, float32 convolutions are multiplied as TF32.
    Operators at the positions in `apart` keep softmax and product separate; None means all operators.
    """
    builder = Builder(
        graph, exact=exact, on_cpu=on_cpu, library=library, tf32_convolutions=tf32_convolutions, apart=apart
    )
    for node in graph.nodes:
        _lower_node(builder, node, left_to_torch)
    program = builder.program
    program.outputs = _outputs(builder)
    program.updates = {
        builder.named(source): as_one(builder, builder.named(value)) for source, value in graph.main.updates.items()
    }
    # an input that nothing is computed from may still determine the size and device of a result
    for name in graph.main.inputs:
        builder.named(name)
    if graph.left_out:
        program.limits.append(
            f"the model runs other operators at {graph.left_out} of the other sizes, for which nothing was written"
        )
    if apart is not None:
        join_softmaxes(program, apart)
    return program


def _outputs(builder: Builder) -> tuple[str, ...]:
    """Return the outputs. An output that the reference computes twice gets a copy, although it is computed once."""
    names = builder.graph.main.outputs
    made: dict[str, str] = {}
    for name in dict.fromkeys(names):
        value = _own(builder, name)
        known = value in made.values() and name in builder.graph.main.producers()
        made[name] = builder.copied(value, len(made)) if known and builder.get(value).dtype in DTYPES else value
    builder.program.results.update(made.values())
    return tuple(made[name] for name in names)


def _own(builder: Builder, name: str) -> str:
    """Return an output in memory of its own and contiguous, where the reference's output is.

    A rule may have made the output a view of an input, or given it another layout. The reference's caller could notice
    both.
    """
    made = as_one(builder, builder.named(name))
    base = builder.get(made)
    while base.operation in VIEWS:
        base = builder.get(base.inputs[0])
    producers = builder.graph.main.producers()
    root: str | None = name
    while root in producers:
        root = producers[root].view_of
    foreign = base.operation == "source" and base.function != root
    in_order = all(graph.values()[name].is_contiguous for graph in builder.graph.graphs)
    if foreign or (in_order and builder.get(made).dtype in DTYPES and not lies_in_order(builder.program, made)):
        return builder.copied(made)
    return made


def _lower_node(builder: Builder, aligned: AlignedNode, left_to_torch: Mapping[int, str]) -> None:
    """Lower a node by its rule. If there is no rule, or the rule does not cover this form, leave the node to torch."""
    node, call = aligned.node, Call(builder, aligned)
    known = dict(builder.program.values)
    try:
        rule = rule_for(builder, call)
        if rule is None:
            raise BeyondAuthor("no rule")
        if node.index in left_to_torch:
            raise BeyondAuthor(left_to_torch[node.index])
        made = rule(builder, call)
        names = [made] if isinstance(made, str) else list(made)
        names += [None] * (len(node.outputs) - len(names))
        if any(name is None and node.output_name(k) in builder.used for k, name in enumerate(names)):
            raise BeyondAuthor("the rule does not return every result that is used")
        _check(builder, aligned, names)
    except BeyondAuthor as reason:
        builder.forget(known)
        names = list(_left_to_torch(builder, aligned, str(reason)))
    for fresh in builder.program.values.keys() - known.keys():
        builder.program.origins[fresh] = (node.index, aligned.operator)
    for position, name in enumerate(names[: len(node.outputs)]):
        # an unused result is not stored, so its dtype does not round it
        if name is not None and node.output_name(position) in builder.used:
            builder.bind(node.output_name(position), name)


def _check(builder: Builder, aligned: AlignedNode, names: Sequence[str | None]) -> None:
    """Refuse the result of a rule with another shape or dtype than torch's: the rule misread the call."""
    for name, shape, dtype in zip(names, aligned.shapes, aligned.dtypes):
        if name is None:
            continue
        if builder.get(name).shape != shape or builder.get(name).dtype != dtype:
            raise BeyondAuthor("the rule returned another shape or dtype than torch")


def _left_to_torch(builder: Builder, aligned: AlignedNode, reason: str) -> tuple[str, ...]:
    """Add the call as an operator of torch; return one value for each of its outputs."""
    node = aligned.node
    operands: list[Operand] = []

    def slot(argument: Any) -> Any:
        """Replace references by positions among the operands."""
        if isinstance(argument, Reference):
            name = as_one(builder, builder.named(argument.name))
            if name not in operands:
                operands.append(name)
            return ("operand", operands.index(name))
        if isinstance(argument, tuple):
            return ("tuple", tuple(slot(item) for item in argument))
        return argument

    schema = schema_of(node.operator, node.overload)
    declared = schema.arguments if schema is not None else ()
    tensors = {argument.name for argument in declared if str(argument.type) in ("Tensor", "Optional[Tensor]")}

    def passed(name: str, value: Any) -> Any:
        """Replace a number by a tensor where torch expects one: the graph holds tensors of one element as numbers."""
        if name not in tensors or not isinstance(value, (bool, int, float)):
            return slot(value)
        dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
        dtypes = [builder.get(operand).dtype for operand in operands if isinstance(operand, str)]
        operands.append(builder.full(value, (), next((d for d in dtypes if {d, dtype} <= FLOATS), dtype)))
        return ("operand", len(operands) - 1)

    arguments = [(name, passed(name, value)) for name, value in aligned.arguments.items()]
    needed = [argument.name for argument in declared if not argument.has_default_value()]
    arguments += [(name, None) for name in needed if name not in aligned.arguments]
    returns = len(schema.returns) if schema is not None else 1
    # The graph replaces in-place operators by the ones that return a new tensor. Other tensors that they overwrite are
    # further results.
    writes = any(argument.alias_info is not None and argument.alias_info.is_write for argument in declared)
    writes = writes or len(node.outputs) > len(node.writes)
    overwritten = [builder.named(name) for name in node.writes] if writes else []
    own = len(node.outputs) - len(overwritten)
    is_list = schema is not None and any("List" in str(item.type) for item in schema.returns)
    detail = TorchCall(
        arguments=tuple(arguments),
        overload=node.overload,
        place=node.index,
        named=frozenset(needed) | _MAY_NOT_BE_LEFT_OUT,
        listed=is_list or max(own, returns) > 1,
        gaps=tuple(not meta.is_contiguous for meta in node.outputs),
        on_device=not operands and any(argument.name == "device" for argument in declared),
        overwritten=tuple(operands.index(name) for name in overwritten),
    )
    first = builder.emit(
        "torch",
        *operands,
        shape=aligned.shapes[0] if aligned.shapes else (),
        dtype=aligned.dtypes[0] if aligned.dtypes else "",
        function=node.operator,
        detail=detail,
        hint=node.operator.split(".")[-1].strip("_"),
    )
    names = [first]
    for k in range(1, len(node.outputs)):
        names.append(
            builder.emit(
                "torch",
                first,
                shape=aligned.shapes[k],
                dtype=aligned.dtypes[k],
                function="output",
                detail=k,
                hint=builder.get(first).hint,
            )
        )
    if reason != "no rule" or node.kind not in ("view", "allocation", "metadata"):
        told = "" if reason == "no rule" else f" ({reason})"
        builder.program.limits.append(f"{node.operator} stays an operator of torch{told}")
    return tuple(names)
