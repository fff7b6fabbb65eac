"""Rules for reductions, norms, scans and pools, in terms of sums, extrema and single elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.lowered_movement import pad
from triton_agent.policy.author.lowering import Builder, Call, lowers
from triton_agent.policy.author.program import FLOATS, Number, Operand
from triton_agent.policy.author.sizes import Shape, Size, constant, is_constant, product


def _dims(builder: Builder, call: Call, name: str, argument: str = "dim") -> tuple[int, ...]:
    return call.dims(argument, len(builder.shape(name)))


@lowers("sum", "nansum")
def _sum(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    if call.aligned.operator == "aten.nansum":
        name = builder.where(
            builder.point("isnan", name, dtype="bool", compute=call.dtype), builder.number(0.0), name, call.dtype
        )
    return builder.reduce("sum", name, _dims(builder, call, name), keep=call.plain("keepdim", False), dtype=call.dtype)


@lowers("mean")
def _mean(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    return builder.mean(name, _dims(builder, call, name), keep=call.plain("keepdim", False), dtype=call.dtype)


@lowers("prod")
def _prod(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    return builder.reduce("prod", name, _dims(builder, call, name), keep=call.plain("keepdim", False))


@lowers("amax", "amin")
def _extremum(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    function = "max" if call.aligned.operator == "aten.amax" else "min"
    return builder.reduce(function, name, _dims(builder, call, name), keep=call.plain("keepdim", False))


@lowers("max", "min")
def _extremum_and_place(builder: Builder, call: Call) -> list[str] | str:
    name = call.tensor("self")
    function = call.aligned.operator.removeprefix("aten.")
    if call.has("other"):
        return builder.point(f"{function}imum", name, call.operand("other"), dtype=call.dtype)
    rank = len(builder.shape(name))
    if not call.has("dim"):
        return builder.reduce(function, name, range(rank))
    dims, keep = call.dims("dim", rank), call.plain("keepdim", False)
    return [
        builder.reduce(function, name, dims, keep=keep),
        builder.reduce(f"arg{function}", name, dims, keep=keep, dtype="int64"),
    ]


@lowers("argmax", "argmin")
def _place(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    function = call.aligned.operator.removeprefix("aten.")
    dims = _dims(builder, call, name)
    if len(dims) > 1:
        shape = builder.shape(name)
        name, dims = builder.reshape(name, (product(shape, builder.width),)), (0,)
    return builder.reshape(builder.reduce(function, name, dims, dtype="int64"), call.shape)


@lowers("any", "all")
def _truth(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), "bool")
    function = call.aligned.operator.removeprefix("aten.")
    made = builder.reduce(function, name, _dims(builder, call, name), keep=call.plain("keepdim", False))
    return builder.cast(made, call.dtype)


@lowers("count_nonzero")
def _count_nonzero(builder: Builder, call: Call) -> str:
    name = builder.cast(builder.cast(call.tensor("self"), "bool"), "int64")
    return builder.reduce("sum", name, _dims(builder, call, name))


@lowers("var", "std", "var_mean", "std_mean")
def _variance(builder: Builder, call: Call) -> list[str] | str:
    name, keep = call.tensor("self"), call.plain("keepdim", False)
    if builder.get(name).dtype not in FLOATS:
        raise BeyondAuthor("whole numbers")
    dims = _dims(builder, call, name)
    correction = call.plain("correction", None)
    if correction is None:
        correction = 1 if call.plain("unbiased", True) else 0
    mean, variance = moments(builder, name, dims, correction=float(correction), dtype=call.dtype)
    operator = call.aligned.operator.removeprefix("aten.")
    if operator.startswith("std"):
        variance = builder.point("sqrt", variance, dtype=call.dtype, hint="deviation")
    if not keep:
        kept = tuple(size for i, size in enumerate(builder.shape(name)) if i not in dims)
        variance, mean = builder.reshape(variance, kept), builder.reshape(mean, kept)
    return [variance, mean] if operator.endswith("_mean") else variance


def moments(
    builder: Builder, name: str, dims: Sequence[int], *, correction: float = 0.0, dtype: str
) -> tuple[str, str]:
    """Mean and variance, with the reduced dimensions kept."""
    mean = builder.mean(name, dims, keep=True, dtype=dtype)
    centred = builder.point("sub", name, mean, dtype=dtype, hint="centred")
    squares = builder.point("square", centred, dtype=dtype)
    total = builder.reduce("sum", squares, dims, keep=True, dtype=dtype, hint="squares")
    shape = builder.shape(name)
    count = builder.count([shape[i] for i in dims])
    if correction:
        count = Number(tuple(max(0.0, value - correction) for value in count.values))
    return mean, builder.point("div", total, count, dtype=dtype, hint="variance")


@lowers("linalg_vector_norm", "norm")
def _norm(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    order = call.plain("ord" if call.has("ord") else "p", 2.0)
    dims, keep, dtype = _dims(builder, call, name), call.plain("keepdim", False), call.dtype
    if order == 2:
        total = builder.reduce("sum", builder.point("square", name, dtype=dtype), dims, keep=keep)
        return builder.point("sqrt", total, dtype=dtype, hint="length")
    magnitude = builder.point("abs", name, dtype=dtype)
    if order == 1:
        return builder.reduce("sum", magnitude, dims, keep=keep)
    if order in (math.inf, -math.inf):
        return builder.reduce("max" if order > 0 else "min", magnitude, dims, keep=keep)
    if order == 0:
        some = builder.cast(builder.point("ne", name, builder.number(0.0), dtype="bool", compute=dtype), dtype)
        return builder.reduce("sum", some, dims, keep=keep)
    powers = builder.point("pow", magnitude, builder.number(float(order)), dtype=dtype)
    total = builder.reduce("sum", powers, dims, keep=keep)
    return builder.point("pow", total, builder.number(1.0 / float(order)), dtype=dtype, hint="length")


def shares(builder: Builder, name: str, dim: int, dtype: str) -> tuple[str, str, str]:
    """Of a softmax: distance to the maximum, its exponential, and the sum of those."""
    largest = builder.reduce("max", name, (dim,), keep=True, dtype=dtype)
    below = builder.point("sub", name, largest, dtype=dtype, hint="below")
    power = builder.point("exp", below, dtype=dtype)
    return below, power, builder.reduce("sum", power, (dim,), keep=True)


@lowers("_softmax", "softmax", "_safe_softmax")
def _softmax(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    if not builder.shape(name):
        return builder.full(1.0, (), call.dtype)
    (dim,) = _dims(builder, call, name)
    _, power, total = shares(builder, name, dim, call.dtype)
    return builder.point("div", power, total, dtype=call.dtype, hint="share")


@lowers("_log_softmax", "log_softmax")
def _log_softmax(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    (dim,) = _dims(builder, call, name)
    below, _, total = shares(builder, name, dim, call.dtype)
    return builder.point("sub", below, builder.point("log", total, dtype=call.dtype), dtype=call.dtype)


@lowers("logsumexp")
def _logsumexp(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    dims = _dims(builder, call, name)
    largest = builder.reduce("max", name, dims, keep=True)
    # A row of nothing but minus infinity has no distance to its maximum.
    finite = builder.point("isinf", largest, dtype="bool", compute=call.dtype)
    anchor = builder.where(finite, builder.number(0.0), largest, call.dtype, "anchor")
    power = builder.point("exp", builder.point("sub", name, anchor, dtype=call.dtype), dtype=call.dtype)
    total = builder.point("log", builder.reduce("sum", power, dims, keep=True), dtype=call.dtype)
    return builder.reshape(builder.point("add", total, anchor, dtype=call.dtype), call.shape)


# -- norms ---------------------------------------------------------------------------------------------------------


def _affine(builder: Builder, name: str, weight: str | None, bias: str | None, shape: Shape, dtype: str) -> str:
    """Times a weight, plus a bias, each seen in a shape that broadcasts."""
    if weight is not None:
        name = builder.point("mul", name, builder.reshape(weight, shape), dtype=dtype, hint="scaled")
    if bias is not None:
        name = builder.point("add", name, builder.reshape(bias, shape), dtype=dtype, hint="normed")
    return name


def _optional(call: Call, name: str) -> str | None:
    return call.tensor(name) if call.has(name) else None


def _normed(builder: Builder, name: str, dims: Sequence[int], eps: float, dtype: str) -> tuple[str, str, str]:
    """(x - mean) * scale, the mean, and the scale."""
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
    rest = product(shape[1:], builder.width)
    folded = builder.reshape(name, (shape[0], groups, tuple(r // max(1, g) for r, g in zip(rest, groups))))
    normed, mean, scale = _normed(builder, folded, (2,), call.plain("eps", 1e-5), call.dtype)
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
    """Running statistics, moved towards those of this batch; the variance is the unbiased one."""
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
        eps = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}[dtype]
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


# -- scans ---------------------------------------------------------------------------------------------------------


@lowers("cumsum", "cumprod")
def _scan(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    shape = builder.shape(name)
    if not shape:
        return name
    function = call.aligned.operator.removeprefix("aten.cum")
    dim = int(call.plain("dim")) % len(shape)
    return builder.emit(
        "scan", name, shape=shape, dtype=call.dtype, function=function, detail=dim, hint="running_total"
    )


# -- windows -------------------------------------------------------------------------------------------------------


def windows(
    builder: Builder, name: str, sizes: Sequence[int], steps: Sequence[int], spread: Sequence[int], counts: Shape
) -> str:
    """The last dimensions of `name` as windows: [..., positions per dimension, taps per dimension]."""
    shape = builder.shape(name)
    lead = len(shape) - len(sizes)
    words = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}.get(len(sizes), ())
    for count, length, step, gap, word in zip(counts, sizes, steps, spread, words):
        known = shape[lead + words.index(word)]
        _count_formula(builder, known, count, gap * (length - 1) + 1, step, f"out_{word}")
    taps = tuple(constant(size, builder.width) for size in sizes)
    detail = (lead, tuple(steps), tuple(spread))
    return builder.emit(
        "window",
        name,
        shape=(*shape[:lead], *counts, *taps),
        dtype=builder.get(name).dtype,
        detail=detail,
        hint=builder.get(name).hint,
    )


def _count_formula(builder: Builder, size: Size, count: Size, reach: int, step: int, name: str) -> None:
    """How many windows of this reach fit, as the host can compute it."""
    if any((s - reach) // step + 1 != c for s, c in zip(size, count)):
        return
    less = reach - 1
    if step == 1:
        builder.formula(count, f"{{0}} - {less}" if less else "{0}", size, name=name)
    else:
        builder.formula(count, f"({{0}} - {reach}) // {step} + 1", size, name=name)


@lowers("unfold")
def _unfold(builder: Builder, call: Call) -> str:
    """Windows along one dimension; their elements become the last one."""
    name, dim = call.tensor("self"), int(call.plain("dimension"))
    rank = len(builder.shape(name))
    dim %= rank
    order = [*(i for i in range(rank) if i != dim), dim]
    size, step = int(call.plain("size")), int(call.plain("step"))
    seen = windows(builder, builder.permute(name, order), (size,), (step,), (1,), (call.shape[dim],))
    back = list(range(rank - 1))
    back.insert(dim, rank - 1)
    return builder.permute(seen, [*back, rank])


def spatial(call: Call, name: str, rank: int, default: int | None = None) -> tuple[int, ...]:
    """One number per spatial dimension."""
    found = call.plain(name, ())
    found = found if isinstance(found, tuple) else (found,)
    if not found:
        found = (default,)
    if any(item is None for item in found):
        raise BeyondAuthor(f"no {name}")
    return tuple(int(item) for item in found) * (rank if len(found) == 1 else 1)


def padded(builder: Builder, name: str, amounts: Sequence[int], extra: Shape, value: Operand) -> str:
    """The last dimensions with `amounts` on both sides, and as much more behind as `extra` says the windows reach."""
    shape = builder.shape(name)
    lead = len(shape) - len(amounts)
    if not any(amounts) and all(need == size for need, size in zip(extra, shape[lead:])):
        return name
    sizes: list[Size] = []
    for amount, size, need in zip(amounts, shape[lead:], extra):
        sizes.append(tuple(max(s + 2 * amount, n) for s, n in zip(size, need)))
    both: list[Size] = []
    for amount in reversed(amounts):
        both += [constant(amount, builder.width)] * 2
    return pad(builder, name, tuple(both), value, (*shape[:lead], *sizes))


def _reach(counts: Shape, sizes: Sequence[int], steps: Sequence[int], spread: Sequence[int]) -> Shape:
    """How far the last window goes."""
    return tuple(
        tuple((c - 1) * step + (size - 1) * gap + 1 for c in count)
        for count, size, step, gap in zip(counts, sizes, steps, spread)
    )


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(builder: Builder, call: Call) -> list[str]:
    name = call.tensor("self")
    sizes, _, pooled = _pool(builder, call, name, builder.number(-math.inf))
    rank = len(builder.shape(pooled))
    return [builder.reduce("max", pooled, range(rank - len(sizes), rank))]


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    sizes, amounts, pooled = _pool(builder, call, name, builder.number(0.0))
    rank = len(builder.shape(pooled))
    dims = tuple(range(rank - len(sizes), rank))
    total = builder.reduce("sum", pooled, dims, dtype=call.dtype)
    if call.plain("divisor_override", None):
        divisor = call.operand("divisor_override")
        return builder.point("div", total, divisor, dtype=call.dtype, hint="mean")
    if not any(amounts) and not call.plain("ceil_mode", False):
        return builder.point("div", total, builder.number(float(math.prod(sizes))), dtype=call.dtype, hint="mean")
    if call.plain("count_include_pad", True) and not call.plain("ceil_mode", False):
        return builder.point("div", total, builder.number(float(math.prod(sizes))), dtype=call.dtype, hint="mean")
    raise BeyondAuthor("windows of different sizes")


def _pool(builder: Builder, call: Call, name: str, outside: Operand) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    shape = builder.shape(name)
    rank = {"1": 1, "2": 2, "3": 3}[call.aligned.operator.split("pool")[1][0]]
    sizes = spatial(call, "kernel_size", rank)
    steps = spatial(call, "stride", rank) if call.plain("stride", ()) else sizes
    amounts, spread = spatial(call, "padding", rank, 0), spatial(call, "dilation", rank, 1)
    counts = call.shape[len(shape) - rank :]
    if builder.get(name).dtype not in FLOATS:
        raise BeyondAuthor("pools of whole numbers")
    name = padded(builder, name, amounts, _reach(counts, sizes, steps, spread), outside)
    return sizes, amounts, windows(builder, name, sizes, steps, spread, counts)


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_avg_pool(builder: Builder, call: Call) -> str:
    """Windows of equal size, where the sizes divide."""
    name = call.tensor("self")
    shape = builder.shape(name)
    counts = call.shape
    rank = 3 if "3d" in call.aligned.operator else 1 if "1d" in call.aligned.operator else 2
    folded: list[Size] = list(shape[: len(shape) - rank])
    dims = []
    for size, count in zip(shape[len(shape) - rank :], counts[len(counts) - rank :]):
        if any(s % c for s, c in zip(size, count)):
            raise BeyondAuthor("windows of different sizes")
        folded += [count, tuple(s // c for s, c in zip(size, count))]
        dims.append(len(folded) - 1)
    return builder.mean(builder.reshape(name, tuple(folded)), dims, dtype=call.dtype)


def is_one(size: Size) -> bool:
    return is_constant(size, 1)
