"""Rules for recurrent cells."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.sizes import Size, constant, is_constant, product, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers
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
    dtype = call.dtype
    if kind == "gru":
        return [_gru(builder, fresh, kept, state[0], dtype)]
    both = builder.point("add", fresh, kept, dtype=dtype)
    if kind == "lstm":
        return _lstm(builder, both, state[1], dtype)
    return [builder.point("tanh" if kind == "rnn_tanh" else "relu", both, dtype=dtype)]


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


def _gru(builder: Builder, fresh: str, kept: str, state: str, dtype: str) -> str:
    new, old = _gates(builder, fresh, 3), _gates(builder, kept, 3)
    reset, update = (
        builder.point("sigmoid", builder.point("add", a, b, dtype=dtype), dtype=dtype, hint=hint)
        for a, b, hint in ((new[0], old[0], "reset"), (new[1], old[1], "update"))
    )
    held = builder.point("mul", reset, old[2], dtype=dtype)
    proposed = builder.point("tanh", builder.point("add", new[2], held, dtype=dtype), dtype=dtype, hint="proposed")
    apart = builder.point("sub", state, proposed, dtype=dtype)
    return builder.point("add", proposed, builder.point("mul", update, apart, dtype=dtype), dtype=dtype)


def _lstm(builder: Builder, both: str, cell: str, dtype: str) -> list[str]:
    parts = _gates(builder, both, 4)
    entry, forget, out = (builder.point("sigmoid", parts[i], dtype=dtype, hint="gate") for i in (0, 1, 3))
    proposed = builder.point("tanh", parts[2], dtype=dtype, hint="proposed")
    kept = builder.point("mul", forget, cell, dtype=dtype, hint="kept")
    cell = builder.point("add", kept, builder.point("mul", entry, proposed, dtype=dtype), dtype=dtype, hint="cell")
    return [builder.point("mul", out, builder.point("tanh", cell, dtype=dtype), dtype=dtype), cell]
