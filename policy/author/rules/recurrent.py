"""Rules for recurrent cells and layers.

Not covered: packed sequences, projected states, dropout in training, and double precision.
"""

from __future__ import annotations

import functools

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.cells import gru_state, lstm_state
from triton_agent.policy.author.ir.program import HALF
from triton_agent.policy.author.ir.sizes import Size, constant, is_constant, plus, product, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import concat
from triton_agent.policy.author.rules.products import multiply


@lowers("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(builder: Builder, call: Call) -> list[str]:
    """Lower one step of a recurrent cell: two products and its gates."""
    kind = call.aligned.operator.removeprefix("aten.").removesuffix("_cell")
    state = call.tensors("hx") if kind == "lstm" else (call.tensor("hx"),)
    if len(builder.shape(call.tensor("input"))) != 2:
        raise BeyondAuthor("a cell without a batch")
    fresh = _projected(builder, call, call.tensor("input"), "w_ih", "b_ih")
    kept = _projected(builder, call, state[0], "w_hh", "b_hh")
    return _next_states(builder, kind, fresh, kept, state, call.dtype)


def _next_states(builder: Builder, kind: str, fresh: str, kept: str, state: tuple[str, ...], dtype: str) -> list[str]:
    """Return the state after one step, and an LSTM's cell, from the products of input and state."""
    point = functools.partial(builder.point, dtype=dtype)
    if kind == "gru":
        return [gru_state(_gates(builder, fresh, 3), _gates(builder, kept, 3), state[0], point)]
    both = point("add", fresh, kept)
    if kind == "lstm":
        return [*lstm_state(_gates(builder, both, 4), state[1], point)]
    return [point("tanh" if kind == "rnn_tanh" else "relu", both)]


def _projected(builder: Builder, call: Call, name: str, weight: str, bias: str) -> str:
    whole = _one_step_of(builder, name)
    if whole is not None:  # the input products of all steps are one product, which does not depend on the state
        steps, dim, place = whole
        shape = builder.shape(steps)
        flat = builder.reshape(steps, (product(shape[:-1], builder.width), shape[-1]))
        made = multiply(builder, flat, builder.swap(call.tensor(weight), 0, 1), call.dtype)
        made = builder.reshape(made, (*shape[:-1], builder.shape(made)[-1]))
        if call.has(bias):
            made = builder.point("add", made, call.tensor(bias), dtype=call.dtype, hint="biased")
        made = builder.slice(made, dim, place, builder.one())
        return builder.reshape(made, (builder.shape(name)[0], builder.shape(made)[-1]))
    made = multiply(builder, name, builder.swap(call.tensor(weight), 0, 1), call.dtype)
    return builder.point("add", made, call.tensor(bias), dtype=call.dtype, hint="biased") if call.has(bias) else made


def _one_step_of(builder: Builder, name: str) -> tuple[str, int, Size] | None:
    """Return the model input that this value is one step of, the dimension of the steps, and the step; None if it is
    none.
    """
    value = builder.get(name)
    while value.operation == "reshape":
        value = builder.get(value.inputs[0])
    if value.operation != "slice" or builder.get(value.inputs[0]).operation != "source" or len(value.shape) != 3:
        return None
    dim, start, _ = value.detail
    is_step = dim < 2 and is_constant(value.shape[dim], 1) and value.shape[2] == builder.shape(name)[-1]
    return (value.inputs[0], dim, start) if is_step else None


def _gates(builder: Builder, name: str, count: int) -> list[str]:
    shape = builder.shape(name)
    width = quotient(shape[1], constant(count, builder.width))
    return [builder.slice(name, 1, tuple(i * w for w in width), width) for i in range(count)]


# -- layers --------------------------------------------------------------------------------------------------------


@lowers("lstm", "gru", "rnn_tanh", "rnn_relu")
def _layers(builder: Builder, call: Call) -> list[str]:
    """Lower recurrent layers: the inputs of all steps are one product, and the steps of one direction one operation."""
    kind = call.aligned.operator.removeprefix("aten.")
    if not call.has("input"):
        raise BeyondAuthor("a packed sequence")
    if call.dtype not in ("float32", *HALF):
        raise BeyondAuthor(f"no kernels for recurrent layers in {call.dtype}")
    if call.plain("dropout", 0.0) and call.plain("train", False):
        raise BeyondAuthor("dropout between layers")
    states = call.tensors("hx") if kind == "lstm" else (call.tensor("hx"),)
    layers, directions = call.plain("num_layers"), 1 + bool(call.plain("bidirectional"))
    biased, parameters = bool(call.plain("has_biases")), call.tensors("params")
    each = 4 if biased else 2
    if len(parameters) != layers * directions * each:
        raise BeyondAuthor("projected states")
    layered, ends = call.tensor("input"), list[list[str]]()
    for layer in range(layers):
        outs: list[str] = []
        for backwards in range(directions):
            place = layer * directions + backwards
            weights = parameters[place * each : (place + 1) * each]
            first = [_of_layer(builder, name, place) for name in states]
            fresh, rest = _all_inputs(builder, kind, layered, weights, call.dtype)
            if layer == 0 and call.plain("batch_first"):
                fresh = builder.swap(fresh, 0, 1)
            out, *last = _all_steps(builder, kind, (fresh, weights[1], *first, *rest), call.dtype, bool(backwards))
            outs.append(out)
            ends.append(last)
        layered = _joined(builder, outs, 2)
    out = builder.swap(layered, 0, 1) if call.plain("batch_first") else layered
    return [out, *(_joined(builder, list(parts), 0) for parts in zip(*ends))]


def _of_layer(builder: Builder, states: str, place: int) -> str:
    """Return the first state of one layer and direction."""
    made = builder.slice(states, 0, constant(place, builder.width), builder.one())
    return builder.reshape(made, builder.shape(states)[1:])


def _all_inputs(builder: Builder, kind: str, name: str, weights: tuple[str, ...], dtype: str) -> tuple[str, list[str]]:
    """Return the product of the inputs of all steps, with its biases, and the bias that is left for the steps."""
    shape = builder.shape(name)
    flat = builder.reshape(name, (product(shape[:-1], builder.width), shape[-1]))
    made = multiply(builder, flat, builder.swap(weights[0], 0, 1), dtype)
    made = builder.reshape(made, (*shape[:-1], builder.shape(made)[-1]))
    added = 1 if kind == "gru" else 2  # a GRU's other bias belongs to the state, which the reset gate scales
    for bias in weights[2 : 2 + added]:
        made = builder.point("add", made, bias, dtype=dtype, hint="biased")
    return made, list(weights[2 + added :])


def _only_step(builder: Builder, kind: str, operands: tuple[str, ...], dtype: str) -> list[str]:
    """Return the state after a single step, as in decoding, and an LSTM's cell."""
    fresh, weight, *others = operands
    kept_states = 2 if kind == "lstm" else 1
    states, biases = others[:kept_states], others[kept_states:]
    kept = multiply(builder, states[0], builder.swap(weight, 0, 1), dtype)
    for bias in biases:
        kept = builder.point("add", kept, bias, dtype=dtype, hint="biased")
    fresh = builder.reshape(fresh, builder.shape(fresh)[1:])
    return _next_states(builder, kind, fresh, kept, tuple(states), dtype)


def _all_steps(builder: Builder, kind: str, operands: tuple[str, ...], dtype: str, backwards: bool) -> tuple[str, ...]:
    """Return the states after every step, the last one, and an LSTM's last cell."""
    width, one = builder.width, builder.one()
    steps, batch = builder.shape(operands[0])[:2]
    hidden = builder.shape(operands[1])[1]
    if is_constant(steps, 1):
        shape = (one, batch, hidden)
        only = [builder.reshape(name, shape) for name in _only_step(builder, kind, operands, dtype)]
        # the last state is a tensor of its own, no view of the states after every step
        return only[0], builder.copied(only[0]), *only[1:]
    cells = constant(int(kind == "lstm"), width)
    rows = plus(steps, plus(cells, one))
    builder.formula(rows, f"{{0}} + {1 + cells[0]}", steps, name="states")
    made = builder.emit(
        "recurrence",
        *operands,
        shape=(rows, batch, hidden),
        dtype=dtype,
        function=kind,
        detail=backwards,
        hint="states",
    )
    builder.program.results.add(made)  # stored in its own dtype
    out = builder.slice(made, 0, cells if backwards else plus(cells, one), steps)
    last = builder.slice(made, 0, cells if backwards else plus(cells, steps), one)
    return (out, last, builder.slice(made, 0, constant(0, width), one)) if kind == "lstm" else (out, last)


def _joined(builder: Builder, parts: list[str], dim: int) -> str:
    if len(parts) == 1:
        return parts[0]
    shape = list(builder.shape(parts[0]))
    shape[dim] = tuple(len(parts) * size for size in shape[dim])
    return concat(builder, parts, dim, tuple(shape))
