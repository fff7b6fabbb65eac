"""The rule for attention, and the pass that fuses a softmax with the product that uses its result.

Fused, the scores are computed, weighted and dropped block by block (an online softmax: Milakov and Gimelshein, 2018;
FlashAttention, Dao et al., 2022); as separate kernels they go to memory and back several times. The computation of the
scores does not matter: `torch.softmax(scores, -1) @ value` in a model becomes the same operation as torch's operator.

Not covered: dropout; a single query, whose products are reductions and are not fused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import HALF, Number, Program, Softmax, Value, head_fits
from triton_agent.policy.author.ir.sizes import Shape, Size, divides, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.products import multiply
from triton_agent.policy.author.rules.reductions import softmax

MANY_SCORES = 1 << 24
"""Number of scores from which on storing them takes longer than torch's fused attention, where the rules allow that."""
MOST_SCORES = 1 << 31
"""Number of scores that takes gigabytes of memory in each of several kernels."""


@lowers("scaled_dot_product_attention")
def _attention(builder: Builder, call: Call) -> str:
    """Lower attention to scores, their softmax, and the product with the values."""
    query, key, value = call.tensor("query"), call.tensor("key"), call.tensor("value")
    shape, dtype = builder.shape(query), call.dtype
    if call.plain("dropout_p", 0.0):
        raise BeyondAuthor("dropout in attention")
    lead = shape[:-2]
    scores_count = max(
        math.prod(size[at] for size in (*shape[:-1], builder.shape(key)[-2])) for at in range(builder.width)
    )
    most = MANY_SCORES if builder.library else MOST_SCORES
    fits = head_fits(shape[-1]) and head_fits(builder.shape(value)[-1])
    can_join = builder.joins_softmax(call.aligned.node.index) and fits
    if scores_count > most and (builder.library or not can_join):
        raise BeyondAuthor(f"{scores_count:,} scores would be written to memory, which torch's attention avoids")
    key, value = (_for_all_heads(builder, name, lead) for name in (key, value))
    scale = call.operand("scale") if call.has("scale") else _default_scale(shape[-1])
    scores = multiply(builder, query, builder.swap(key, -2, -1), dtype)
    scores = builder.point("mul", scores, scale, dtype=dtype, hint="scores")
    scores = _masked(builder, call, scores)
    weights = softmax(builder, scores, len(shape) - 1, dtype, safe=call.has("attn_mask"))
    if builder.exact and dtype in HALF:
        weights, value = (builder.cast(name, "float32") for name in (weights, value))
        return builder.cast(multiply(builder, weights, value, "float32"), dtype)
    return multiply(builder, weights, value, dtype)


def _default_scale(width: Size) -> Number:
    return Number(tuple(1.0 / math.sqrt(entry) for entry in width))


def _for_all_heads(builder: Builder, name: str, lead: Shape) -> str:
    """Repeat keys or values that groups of query heads share."""
    shape = builder.shape(name)
    if len(shape) != len(lead) + 2:
        raise BeyondAuthor("keys with another rank than the queries")
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


# -- a softmax and the product that uses its result ----------------------------------------------------------------


def join_softmaxes(program: Program, apart: Collection[int]) -> None:
    """Fuse each softmax with the product that uses it into one operation, except at the graph positions in `apart`."""
    users, values = program.users(), dict[str, Value]()
    for value in program.values.values():
        origin = program.origins.get(value.name, (-1, ""))
        joined = _joined(program, users, value) if value.operation == "dot" and origin[0] not in apart else ()
        for one in joined or (value,):
            values[one.name] = one
            program.origins.setdefault(one.name, origin)
    program.values = values


def _joined(program: Program, users: Mapping[str, list[str]], product: Value) -> tuple[Value, ...]:
    """Return the values that replace a product with a softmax: views of the scores, and attention; nothing for
    others.
    """
    (user, (name, weighted)), views = (product.name, product.inputs), list[Value]()
    if not head_fits(program.values[weighted].shape[-1]):
        return ()
    kept = {*program.outputs, *program.updates.values()}
    while users[name] == [user] and name not in kept:
        if name in program.softmaxes:
            softmax = program.softmaxes[name]
            return _replaced(program, softmax, views, product)
        value = program.values[name]
        is_cast = value.operation == "point" and value.function == "cast"
        if not is_cast and not _leaves_rows(program, value):
            break
        views += [] if is_cast else [value]
        user, name = name, value.inputs[0]
    return ()


def _replaced(program: Program, softmax: Softmax, views: list[Value], product: Value) -> tuple[Value, ...]:
    made: list[Value] = []
    scores, dtype = softmax.scores, program.values[softmax.scores].dtype
    for view in reversed(views):
        made.append(dataclasses.replace(view, name=f"{view.name}_of_scores", operands=(scores,), dtype=dtype))
        scores = made[-1].name
    operands = (scores, product.inputs[1], softmax.empty)
    return (*made, dataclasses.replace(product, operation="attention", operands=operands, detail=(), hint="attended"))


def _leaves_rows(program: Program, value: Value) -> bool:
    """Return True if the value is a view that only regroups leading dimensions."""
    if value.operation not in ("reshape", "expand"):
        return False
    return value.shape[-2:] == program.values[value.inputs[0]].shape[-2:]
