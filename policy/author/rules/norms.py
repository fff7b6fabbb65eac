"""Rules for norms: statistics of a row, a group or a channel, and the values normalized by them."""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.author.ir.sizes import Shape, product
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.reductions import dims_of_parts, moments


def _affine(builder: Builder, name: str, weight: str | None, bias: str | None, shape: Shape, dtype: str) -> str:
    """Multiply by a weight and add a bias, each reshaped to broadcast."""
    if weight is not None:
        name = builder.point("mul", name, builder.reshape(weight, shape), dtype=dtype, hint="scaled")
    if bias is not None:
        name = builder.point("add", name, builder.reshape(bias, shape), dtype=dtype, hint="normed")
    return name


def _optional(call: Call, name: str) -> str | None:
    return call.tensor(name) if call.has(name) else None


def _normed(builder: Builder, name: str, dims: Sequence[int], eps: float, dtype: str) -> tuple[str, str, str]:
    """Return (x - mean) * scale, the mean, and the scale."""
    mean, variance = moments(builder, name, dims, dtype=dtype)
    scale = _inverse_root(builder, variance, eps, dtype)
    centred = builder.point("sub", name, mean, dtype=dtype, hint="centred")
    return builder.point("mul", centred, scale, dtype=dtype, hint="normed"), mean, scale


def _inverse_root(builder: Builder, variance: str, eps: float, dtype: str) -> str:
    return builder.point("rsqrt", builder.point("add", variance, builder.number(float(eps)), dtype=dtype), dtype=dtype)


@lowers("native_layer_norm", "layer_norm")
def _layer_norm(builder: Builder, call: Call) -> list[str]:
    name = call.tensor("input")
    shape, own = builder.shape(name), call.sizes("normalized_shape")
    dims = tuple(range(len(shape) - len(own), len(shape)))
    normed, mean, scale = _normed(builder, name, dims, call.plain("eps", 1e-5), call.dtype)
    made = _affine(builder, normed, _optional(call, "weight"), _optional(call, "bias"), own, call.dtype)
    dtypes = call.aligned.dtypes
    return [made, *(builder.cast(stat, dtype) for stat, dtype in zip((mean, scale), dtypes[1:]))]


@lowers("native_group_norm", "group_norm")
def _group_norm(builder: Builder, call: Call) -> list[str]:
    name = call.tensor("input")
    shape = builder.shape(name)
    groups = builder.size(call.aligned.arguments["group"])
    own = tuple(c // max(1, g) for c, g in zip(shape[1], groups))
    split = (shape[0], groups, own, *shape[2:])
    dims = tuple(range(2, len(split)))
    if dims_of_parts(split, dims) is None:
        split, dims = (shape[0], groups, product(split[2:], builder.width)), (2,)
    folded = builder.reshape(name, split)
    normed, mean, scale = _normed(builder, folded, dims, call.plain("eps", 1e-5), call.dtype)
    made = _per_channel(builder, builder.reshape(normed, shape), call)
    flat = (shape[0], groups)
    dtypes = call.aligned.dtypes
    stats = (builder.reshape(mean, flat), builder.reshape(scale, flat))
    return [made, *(builder.cast(stat, dtype) for stat, dtype in zip(stats, dtypes[1:]))]


def _per_channel(builder: Builder, name: str, call: Call) -> str:
    shape = builder.shape(name)
    channels = _channel_shape(builder, shape)
    return _affine(builder, name, _optional(call, "weight"), _optional(call, "bias"), channels, call.dtype)


def _channel_shape(builder: Builder, shape: Shape) -> Shape:
    return tuple(size if i == 1 else builder.one() for i, size in enumerate(shape))


@lowers("batch_norm")
def _batch_norm(builder: Builder, call: Call) -> list[str]:
    name, eps = call.tensor("input"), float(call.plain("eps"))
    shape = builder.shape(name)
    channels = _channel_shape(builder, shape)
    if not call.plain("training"):
        mean = builder.reshape(call.tensor("running_mean"), channels)
        scale = _inverse_root(builder, builder.reshape(call.tensor("running_var"), channels), eps, "float32")
        centred = builder.point("sub", name, mean, dtype=call.dtype, hint="centred")
        normed = builder.point("mul", centred, scale, dtype=call.dtype, hint="normed")
        return [_per_channel(builder, normed, call)]
    dims = tuple(i for i in range(len(shape)) if i != 1)
    normed, mean, _ = _normed(builder, name, dims, eps, call.dtype)
    made = [_per_channel(builder, normed, call)]
    if len(call.aligned.node.writes) == 2:
        made += _running(builder, call, name, dims, mean)
    return made


def _running(builder: Builder, call: Call, name: str, dims: Sequence[int], mean: str) -> list[str]:
    """Return the running statistics, updated with those of this batch; the variance is the unbiased one."""
    _, variance = moments(builder, name, dims, correction=1.0, dtype="float32")
    momentum = float(call.plain("momentum"))
    made = []
    for source, fresh in (("running_mean", mean), ("running_var", variance)):
        old = call.tensor(source)
        kept = builder.point("mul", old, builder.number(1.0 - momentum), dtype="float32", hint="kept")
        fresh = builder.reshape(fresh, builder.shape(old))
        moved = builder.point("mul", fresh, builder.number(momentum), dtype="float32", hint="moved")
        made.append(builder.cast(builder.point("add", kept, moved, dtype="float32"), builder.get(old).dtype))
    return made


@lowers("rms_norm", "_fused_rms_norm")
def _rms_norm(builder: Builder, call: Call) -> str:
    name, own, dtype = call.tensor("input"), call.sizes("normalized_shape"), call.dtype
    shape = builder.shape(name)
    dims = tuple(range(len(shape) - len(own), len(shape)))
    eps = call.plain("eps", None)
    if eps is None:
        eps = 2**-52 if dtype == "float64" else 2**-23  # half precision is computed in float32
    square = builder.point("square", name, dtype=dtype)
    scale = _inverse_root(builder, builder.mean(square, dims, keep=True, dtype=dtype), float(eps), dtype)
    normed = builder.point("mul", name, scale, dtype=dtype, hint="normed")
    return _affine(builder, normed, _optional(call, "weight"), None, own, dtype)


@lowers("cosine_similarity")
def _cosine_similarity(builder: Builder, call: Call) -> str:
    a, b, dtype = call.tensor("x1"), call.tensor("x2"), call.dtype
    eps = builder.number(float(call.plain("eps", 1e-8)))
    dims = call.dims("dim", len(builder.shape(a))) if call.has("dim") else (1,)
    lengths = []
    for name in (a, b):
        total = builder.reduce("sum", builder.point("square", name, dtype=dtype), dims)
        length = builder.point("sqrt", total, dtype=dtype, hint="length")
        lengths.append(builder.point("clamp_min", length, eps, dtype=dtype, hint="length"))
    inner = builder.reduce("sum", builder.point("mul", a, b, dtype=dtype), dims)
    return builder.point("div", inner, builder.point("mul", *lengths, dtype=dtype), dtype=dtype, hint="similarity")
