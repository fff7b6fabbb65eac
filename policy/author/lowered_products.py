"""Rules for matrix products, and what can be written as one: convolutions.

A product with a single row or column is a sum of products: memory decides how long it takes, not the matrix unit.
"""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.lowered_reductions import _reach, padded, shares, spatial, windows
from triton_agent.policy.author.lowering import Builder, Call, lowers
from triton_agent.policy.author.program import FLOATS, Number
from triton_agent.policy.author.sizes import Shape, Size, constant, divides, is_constant, product, quotient


def multiply(builder: Builder, a: str, b: str, dtype: str) -> str:
    """[..., m, k] x [..., k, n], the leading dimensions alike."""
    left, right = builder.shape(a), builder.shape(b)
    if dtype not in FLOATS or left[-1] != right[-2] or left[:-2] != right[:-2]:
        raise BeyondAuthor("a product of this form")
    a, b = builder.cast(a, dtype), builder.cast(b, dtype)
    if is_constant(left[-2], 1) or is_constant(right[-1], 1) or dtype == "float64":
        return _summed(builder, a, b, dtype)
    return builder.emit("dot", a, b, shape=(*left[:-1], right[-1]), dtype=dtype, hint="product")


def _summed(builder: Builder, a: str, b: str, dtype: str) -> str:
    """As products and a sum over the inner dimension, which is made the last one."""
    columns = builder.swap(b, -2, -1)
    rank = len(builder.shape(a))
    spread = builder.unsqueeze(a, rank - 1)
    pairs = builder.point("mul", spread, builder.unsqueeze(columns, rank - 2), dtype=dtype)
    return builder.reduce("sum", pairs, (rank,), dtype=dtype, hint="product")


@lowers("mm", "bmm")
def _mm(builder: Builder, call: Call) -> str:
    return multiply(builder, call.tensor("self"), call.tensor("mat2"), call.dtype)


@lowers("mv")
def _mv(builder: Builder, call: Call) -> str:
    vector = builder.unsqueeze(call.tensor("vec"), 1)
    return builder.reshape(multiply(builder, call.tensor("self"), vector, call.dtype), call.shape)


@lowers("dot", "vdot")
def _dot(builder: Builder, call: Call) -> str:
    other = call.tensor("tensor" if call.has("tensor") else "other")
    pairs = builder.point("mul", call.tensor("self"), other, dtype=call.dtype)
    return builder.reduce("sum", pairs, (0,))


@lowers("addmm", "baddbmm", "addmv", "_addmm_activation")
def _addmm(builder: Builder, call: Call) -> str:
    if call.aligned.operator == "aten.addmv":
        column = builder.unsqueeze(call.tensor("vec"), 1)
        made = builder.reshape(multiply(builder, call.tensor("mat"), column, call.dtype), call.shape)
    else:
        first, second = ("batch1", "batch2") if call.has("batch1") else ("mat1", "mat2")
        made = multiply(builder, call.tensor(first), call.tensor(second), call.dtype)
    alpha, beta, added = call.operand("alpha", 1), call.operand("beta", 1), call.tensor("self")
    if not _is_one(alpha):
        made = builder.point("mul", made, alpha, dtype=call.dtype)
    if beta == builder.number(0):
        return made
    if not _is_one(beta):
        added = builder.point("mul", added, beta, dtype=call.dtype)
    made = builder.point("add", made, added, dtype=call.dtype, hint="biased")
    if call.aligned.operator == "aten._addmm_activation":
        made = builder.point("gelu" if call.plain("use_gelu", False) else "relu", made, dtype=call.dtype)
    return made


def _is_one(number: object) -> bool:
    return isinstance(number, Number) and number.fixed and number.values[0] == 1


@lowers("linear")
def _linear(builder: Builder, call: Call) -> str:
    name, weight = call.tensor("input"), builder.swap(call.tensor("weight"), 0, 1)
    shape = builder.shape(name)
    flat = builder.reshape(name, (product(shape[:-1], builder.width), shape[-1]))
    made = builder.reshape(multiply(builder, flat, weight, call.dtype), call.shape)
    return builder.point("add", made, call.tensor("bias"), dtype=call.dtype) if call.has("bias") else made


@lowers("matmul")
def _matmul(builder: Builder, call: Call) -> str:
    a, b = call.tensor("self"), call.tensor("other")
    if len(builder.shape(a)) < 2 or len(builder.shape(b)) < 2:
        raise BeyondAuthor("vectors")
    lead = call.shape[:-2]
    a, b = (builder.expand(x, (*lead, *builder.shape(x)[-2:])) for x in (a, b))
    return multiply(builder, a, b, call.dtype)


@lowers("convolution")
def _convolution(builder: Builder, call: Call) -> str:
    """The taps of all channels in a row, times the weight; with one channel a group, a plain sum over the taps."""
    name, weight = call.tensor("input"), call.tensor("weight")
    shape, taps = builder.shape(name), builder.shape(weight)
    rank = len(shape) - 2
    groups = builder.size(call.aligned.arguments.get("groups") or 1)
    if call.plain("transposed", False) or rank < 1 or len(taps) != rank + 2:
        raise BeyondAuthor("a transposed convolution")
    if not all(is_constant(size) for size in taps[2:]):
        raise BeyondAuthor("taps that change with the sizes")
    sizes = tuple(size[0] for size in taps[2:])
    steps, amounts = spatial(call, "stride", rank), spatial(call, "padding", rank)
    spread, counts = spatial(call, "dilation", rank), call.shape[2:]
    reach = _reach(counts, sizes, steps, spread)
    name = padded(builder, name, amounts, reach, builder.number(0.0))
    seen = windows(builder, name, sizes, steps, spread, counts)
    if is_constant(groups, 1):
        made = _as_product(builder, seen, weight, rank, call)
    elif is_constant(taps[1], 1) and taps[0] == shape[1]:
        made = _per_channel(builder, seen, weight, rank, call)
    else:
        raise BeyondAuthor("groups of several channels")
    if call.has("bias"):
        channels = (builder.shape(call.tensor("bias"))[0], *(builder.one() for _ in range(rank)))
        made = builder.point("add", made, builder.reshape(call.tensor("bias"), channels), dtype=call.dtype)
    return made


def _as_product(builder: Builder, seen: str, weight: str, rank: int, call: Call) -> str:
    shape, taps = builder.shape(seen), builder.shape(weight)
    positions, tap_dims = range(2, 2 + rank), range(2 + rank, 2 + 2 * rank)
    rows = builder.permute(seen, (0, *positions, 1, *tap_dims))
    inner = product(taps[1:], builder.width)
    rows = builder.reshape(rows, (product((shape[0], *call.shape[2:]), builder.width), inner))
    columns = builder.swap(builder.reshape(weight, (taps[0], inner)), 0, 1)
    made = multiply(builder, rows, columns, call.dtype)
    made = builder.reshape(made, (shape[0], *call.shape[2:], taps[0]))
    return builder.permute(made, (0, rank + 1, *range(1, rank + 1)))


def _per_channel(builder: Builder, seen: str, weight: str, rank: int, call: Call) -> str:
    taps = builder.shape(weight)
    ones = tuple(builder.one() for _ in range(rank))
    weighted = builder.point(
        "mul", seen, builder.reshape(weight, (taps[0], *ones, *taps[2:])), dtype=call.dtype, hint="weighted"
    )
    dims = tuple(range(2 + rank, 2 + 2 * rank))
    return builder.reduce("sum", weighted, dims, dtype=call.dtype)


def ones(builder: Builder, count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(constant(1, builder.width) for _ in range(count))


@lowers("scaled_dot_product_attention")
def _attention(builder: Builder, call: Call) -> str:
    """Written out: scores, their softmax, the values weighted by it."""
    query, key, value = call.tensor("query"), call.tensor("key"), call.tensor("value")
    shape, dtype = builder.shape(query), call.dtype
    if call.plain("dropout_p", 0.0):
        raise BeyondAuthor("dropout in attention")
    lead = shape[:-2]
    key, value = (_for_all_heads(builder, name, lead) for name in (key, value))
    scale = call.operand("scale") if call.has("scale") else _default_scale(shape[-1])
    scores = multiply(builder, query, builder.swap(key, -2, -1), dtype)
    scores = builder.point("mul", scores, scale, dtype=dtype, hint="scores")
    scores = _masked(builder, call, scores)
    _, power, total = shares(builder, scores, len(shape) - 1, dtype)
    weights = builder.point("div", power, total, dtype=dtype, hint="weights")
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
