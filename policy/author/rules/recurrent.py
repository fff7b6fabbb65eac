"""Rules for whole layers that are made of products: attention and recurrent cells."""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import HALF, Number
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, divides, is_constant, product, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.products import multiply
from triton_agent.policy.author.rules.reductions import shares

MANY_SCORES = 1 << 24
"""More of them, written to memory and read again, take longer than torch's fused attention, where that may be used."""
MOST_SCORES = 1 << 31
"""More of them are gigabytes in each of several kernels."""


@lowers("scaled_dot_product_attention")
def _attention(builder: Builder, call: Call) -> str:
    """Written out: scores, their softmax, the values weighted by it."""
    query, key, value = call.tensor("query"), call.tensor("key"), call.tensor("value")
    shape, dtype = builder.shape(query), call.dtype
    if call.plain("dropout_p", 0.0):
        raise BeyondAuthor("dropout in attention")
    lead = shape[:-2]
    scores_count = max(
        math.prod(size[at] for size in (*shape[:-1], builder.shape(key)[-2])) for at in range(builder.width)
    )
    if scores_count > (MANY_SCORES if builder.library else MOST_SCORES):
        raise BeyondAuthor(f"{scores_count:,} scores would be written to memory, which torch's attention does not do")
    key, value = (_for_all_heads(builder, name, lead) for name in (key, value))
    scale = call.operand("scale") if call.has("scale") else _default_scale(shape[-1])
    scores = multiply(builder, query, builder.swap(key, -2, -1), dtype)
    scores = builder.point("mul", scores, scale, dtype=dtype, hint="scores")
    scores = _masked(builder, call, scores)
    _, power, total = shares(builder, scores, len(shape) - 1, dtype)
    weights = builder.point("div", power, total, dtype=dtype, hint="weights")
    if builder.exact and dtype in HALF:
        weights, value = (builder.cast(name, "float32") for name in (weights, value))
        return builder.cast(multiply(builder, weights, value, "float32"), dtype)
    return multiply(builder, weights, value, dtype)


def _default_scale(width: Size) -> Number:
    return Number(tuple(1.0 / math.sqrt(entry) for entry in width))


def _for_all_heads(builder: Builder, name: str, lead: Shape) -> str:
    """Keys and values shared by groups of query heads, repeated for each of them."""
    shape = builder.shape(name)
    if len(shape) != len(lead) + 2:
        raise BeyondAuthor("keys of another rank than the queries")
    if shape[:-2] == lead:
        return name
    if len(lead) == 2 and shape[0] == lead[0] and divides(shape[1], lead[1]):
        times = quotient(lead[1], shape[1])
        apart = builder.unsqueeze(name, 2)
        spread = builder.expand(apart, (shape[0], shape[1], times, *shape[2:]))
        return builder.reshape(spread, (*lead, *shape[2:]))
    return builder.expand(name, (*lead, *shape[-2:]))


def _masked(builder: Builder, call: Call, scores: str) -> str:
    dtype, shape = call.dtype, builder.shape(scores)
    never = builder.number(-math.inf)
    if call.plain("is_causal", False):
        row, column = builder.unsqueeze(builder.iota(shape[-2]), 1), builder.iota(shape[-1])
        seen = builder.point("le", column, row, dtype="bool", compute="int64", hint="seen")
        scores = builder.where(seen, scores, never, dtype, "scores")
    if call.has("attn_mask"):
        mask = call.tensor("attn_mask")
        if builder.get(mask).dtype == "bool":
            return builder.where(mask, scores, never, dtype, "scores")
        scores = builder.point("add", scores, mask, dtype=dtype, hint="scores")
    return scores


@lowers("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(builder: Builder, call: Call) -> list[str]:
    """One step of a recurrent cell: two products and what its gates make of them."""
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
    if whole is not None:  # the products of all steps are one, which does not wait for the state
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
    """Return the input of the model that a value is one step of, along which dimension, and which step."""
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
