"""Rules for losses: a value per element, then a sum or a mean."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import gather, take

_NONE, _MEAN, _SUM = 0, 1, 2


def _reduced(builder: Builder, name: str, call: Call) -> str:
    how, dims = call.plain("reduction", _MEAN), range(len(builder.shape(name)))
    if how == _NONE:
        return name
    if how == _SUM:
        return builder.reduce("sum", name, tuple(dims))
    return builder.mean(name, tuple(dims), dtype=call.dtype, hint="loss")


@lowers("mse_loss", "l1_loss")
def _difference(builder: Builder, call: Call) -> str:
    apart = builder.point("sub", call.tensor("self"), call.tensor("target"), dtype=call.dtype, hint="difference")
    function = "square" if call.aligned.operator == "aten.mse_loss" else "abs"
    return _reduced(builder, builder.point(function, apart, dtype=call.dtype), call)


@lowers("smooth_l1_loss", "huber_loss")
def _smooth(builder: Builder, call: Call) -> str:
    dtype, huber = call.dtype, call.aligned.operator == "aten.huber_loss"
    bend = float(call.plain("delta" if huber else "beta", 1.0))
    if bend == 0:
        raise BeyondAuthor("a transition point of zero")
    apart = builder.point("sub", call.tensor("self"), call.tensor("target"), dtype=dtype, hint="difference")
    far = builder.point("abs", apart, dtype=dtype, hint="distance")
    near = builder.point("mul", builder.point("square", far, dtype=dtype), builder.number(0.5), dtype=dtype)
    if not huber and bend != 1:
        near = builder.point("div", near, builder.number(bend), dtype=dtype)
    linear = builder.point("sub", far, builder.number(0.5 * bend), dtype=dtype)
    if huber and bend != 1:
        linear = builder.point("mul", linear, builder.number(bend), dtype=dtype)
    close = builder.point("le" if huber else "lt", far, builder.number(bend), dtype="bool", compute=dtype)
    return _reduced(builder, builder.where(close, near, linear, dtype, "loss"), call)


@lowers("binary_cross_entropy")
def _binary(builder: Builder, call: Call) -> str:
    """Clamp the logarithms at -100, as torch does."""
    p, target, dtype = call.tensor("self"), call.tensor("target"), call.dtype
    rest = builder.point("sub", builder.number(1.0), p, dtype=dtype, hint="rest")
    limit = builder.number(-100.0)
    logs = []
    for log in (builder.point("log", p, dtype=dtype), builder.point("log", rest, dtype=dtype)):
        logs.append(builder.point("clamp_min", log, limit, dtype=dtype, hint="logarithm"))
    other = builder.point("sub", target, builder.number(1.0), dtype=dtype)
    loss = builder.point(
        "sub",
        builder.point("mul", other, logs[1], dtype=dtype),
        builder.point("mul", target, logs[0], dtype=dtype),
        dtype=dtype,
        hint="loss",
    )
    return _reduced(builder, _weighted(builder, loss, call), call)


@lowers("binary_cross_entropy_with_logits")
def _binary_logits(builder: Builder, call: Call) -> str:
    """Compute (1 - t) x - w log sigmoid(x), where w is 1 + (p - 1) t for a weight p of the positives."""
    x, target, dtype = call.tensor("self"), call.tensor("target"), call.dtype
    rest = builder.point("sub", builder.number(1.0), target, dtype=dtype)
    pulled = builder.point("mul", rest, x, dtype=dtype)
    log = builder.point("log_sigmoid", x, dtype=dtype)
    if call.has("pos_weight"):
        more = builder.point("sub", call.tensor("pos_weight"), builder.number(1.0), dtype=dtype)
        more = builder.point("mul", more, target, dtype=dtype)
        more = builder.point("add", more, builder.number(1.0), dtype=dtype)
        log = builder.point("mul", more, log, dtype=dtype)
    loss = builder.point("sub", pulled, log, dtype=dtype, hint="loss")
    return _reduced(builder, _weighted(builder, loss, call), call)


def _weighted(builder: Builder, loss: str, call: Call) -> str:
    return builder.point("mul", loss, call.tensor("weight"), dtype=call.dtype) if call.has("weight") else loss


@lowers("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss_nd")
def _nll(builder: Builder, call: Call) -> list[str]:
    """Return the negative log-probability of the right class; ignored classes count neither in the sum nor in the
    mean.
    """
    logs, target, dtype = call.tensor("self"), call.tensor("target"), call.dtype
    rank = len(builder.shape(logs))
    if rank == 1:
        raise BeyondAuthor("one sample without a batch")
    ignored = builder.number(int(call.plain("ignore_index", -100)))
    counts = builder.point("ne", target, ignored, dtype="bool", compute="int64", hint="counts")
    safe = builder.where(counts, target, builder.number(0), "int64", "target")
    picked = gather(builder, logs, builder.unsqueeze(safe, 1), 1)
    picked = builder.reshape(picked, builder.shape(target))
    loss = builder.point("neg", picked, dtype=dtype, hint="loss")
    weight = None
    if call.has("weight"):
        weight = take(builder, call.tensor("weight"), safe, 0)
        loss = builder.point("mul", loss, weight, dtype=dtype, hint="loss")
    loss = builder.where(counts, loss, builder.number(0.0), dtype, "loss")
    how, dims = call.plain("reduction", _MEAN), tuple(range(len(builder.shape(loss))))
    share = weight if weight is not None else builder.cast(counts, "float32")
    share = builder.where(counts, share, builder.number(0.0), "float32", "share")
    total = builder.cast(builder.reduce("sum", share, dims, dtype="float32", hint="shares"), dtype)
    if how == _NONE:
        return [loss, builder.full(0.0, (), dtype)]
    made = builder.reduce("sum", loss, dims, dtype=dtype)
    if how == _MEAN:
        made = builder.point("div", made, total, dtype=dtype, hint="loss")
    return [made, total]


@lowers("soft_margin_loss")
def _soft_margin(builder: Builder, call: Call) -> str:
    both = builder.point("mul", call.tensor("self"), call.tensor("target"), dtype=call.dtype)
    loss = builder.point("neg", builder.point("log_sigmoid", both, dtype=call.dtype), dtype=call.dtype, hint="loss")
    return _reduced(builder, loss, call)


@lowers("multi_margin_loss")
def _margins(builder: Builder, call: Call) -> str:
    """Return by how much every other class violates the margin, averaged over all classes."""
    x, target, dtype = call.tensor("self"), call.tensor("target"), call.dtype
    shape = builder.shape(x)
    if len(shape) != 2:
        raise BeyondAuthor("one sample without a batch")
    column = builder.unsqueeze(target, 1)
    right = gather(builder, x, column, 1)
    apart = builder.point("sub", x, right, dtype=dtype, hint="apart")
    missing = builder.point("relu", builder.point("add", apart, call.operand("margin", 1.0), dtype=dtype), dtype=dtype)
    if call.plain("p", 1) == 2:
        missing = builder.point("square", missing, dtype=dtype, hint="missing")
    if call.has("weight"):
        weight = take(builder, call.tensor("weight"), column, 0)
        missing = builder.point("mul", missing, weight, dtype=dtype, hint="missing")
    other = builder.point("ne", builder.iota(shape[1]), column, dtype="bool", compute="int64", hint="is_other")
    missing = builder.where(other, missing, builder.number(0.0), dtype, "missing")
    return _reduced(builder, builder.mean(missing, (1,), dtype=dtype, hint="loss"), call)
