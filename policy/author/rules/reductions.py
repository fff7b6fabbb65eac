"""Rules for reductions and softmaxes, in terms of sums, extrema and point functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS, Number, Softmax
from triton_agent.policy.author.ir.sizes import Shape, product
from triton_agent.policy.author.rules.building import Builder, Call, lowers

FEW_ROWS, ENOUGH_PARTS = 256, 1024
"""Up to so many rows are too few programs for a large GPU, and so many parts of rows are enough."""
LEAST_PART, WORTH_PARTS = 1024, 1 << 26
"""Fewest elements in a part, and fewest elements of all rows: fewer are read again from the cache."""


def _dims(builder: Builder, call: Call, name: str) -> tuple[int, ...]:
    return call.dims("dim", len(builder.shape(name)))


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


@lowers("aminmax")
def _extrema(builder: Builder, call: Call) -> list[str]:
    name, keep = call.tensor("self"), call.plain("keepdim", False)
    dims = _dims(builder, call, name)
    return [builder.reduce(function, name, dims, keep=keep) for function in ("min", "max")]


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
        raise BeyondAuthor("integers")
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
    """Return mean and variance, with the reduced dimensions kept."""
    shape = builder.shape(name)
    parts = dims_of_parts(shape, dims)
    if parts is None:
        mean, total = _mean_and_squares(builder, name, dims, dtype)
    else:
        outer, inner = parts
        means, squares = _mean_and_squares(builder, name, inner, dtype)
        mean, apart = _mean_and_squares(builder, means, outer, dtype)
        within = builder.reduce("sum", squares, outer, keep=True, dtype=dtype, hint="within")
        between = builder.point("mul", apart, builder.count([shape[i] for i in inner]), dtype=dtype, hint="between")
        total = builder.point("add", within, between, dtype=dtype, hint="squares")
    count = builder.count([shape[i] for i in dims])
    if correction:
        count = Number(tuple(max(0.0, value - correction) for value in count.values))
    return mean, builder.point("div", total, count, dtype=dtype, hint="variance")


def _mean_and_squares(builder: Builder, name: str, dims: Sequence[int], dtype: str) -> tuple[str, str]:
    """Return the mean and the sum of squared distances to it."""
    mean = builder.mean(name, dims, keep=True, dtype=dtype)
    centred = builder.point("sub", name, mean, dtype=dtype, hint="centred")
    squares = builder.point("square", centred, dtype=dtype)
    return mean, builder.reduce("sum", squares, dims, keep=True, dtype=dtype, hint="squares")


def dims_of_parts(shape: Shape, dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Split the reduced dimensions into those that count parts of a row and those of one part; None to keep rows whole.

    A few long rows are too few programs for a GPU. Parts that are contiguous need one pass over the tensor.
    """
    rows = math.prod(size[0] for i, size in enumerate(shape) if i not in dims)
    if rows > FEW_ROWS or rows * math.prod(shape[i][0] for i in dims) < WORTH_PARTS:
        return None
    last = len(shape)
    while last - 1 in dims:
        last -= 1
    for first in range(last, len(shape)):
        inner = tuple(range(first, len(shape)))
        outer = tuple(i for i in dims if i not in inner)
        if outer and rows * math.prod(shape[i][0] for i in outer) >= ENOUGH_PARTS:
            return (outer, inner) if math.prod(shape[i][0] for i in inner) >= LEAST_PART else None
    return None


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
    """Return the parts of a softmax: distance to the maximum, its exponential, and the sum of exponentials."""
    largest = builder.reduce("max", name, (dim,), keep=True, dtype=dtype)
    below = builder.point("sub", name, largest, dtype=dtype, hint="below")
    power = builder.point("exp", below, dtype=dtype)
    return below, power, builder.reduce("sum", power, (dim,), keep=True)


def softmax(builder: Builder, name: str, dim: int, dtype: str, *, safe: bool = False) -> str:
    """Return the softmax. A row that is all minus infinity gives NaN, or zero if `safe`."""
    _, power, total = shares(builder, name, dim, dtype)
    share = builder.point("div", power, total, dtype=dtype, hint="share")
    if safe:
        largest = builder.reduce("max", name, (dim,), keep=True, dtype=dtype)
        is_empty = builder.point("eq", largest, builder.number(-math.inf), dtype="bool", compute=dtype, hint="empty")
        share = builder.where(is_empty, builder.number(0.0), share, dtype, "share")
    if dim == len(builder.shape(name)) - 1:
        builder.program.softmaxes[share] = Softmax(name, builder.number(0.0 if safe else math.nan))
    return share


@lowers("_softmax", "softmax", "_safe_softmax")
def _softmax(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    if not builder.shape(name):
        return builder.full(1.0, (), call.dtype)
    (dim,) = _dims(builder, call, name)
    safe = call.aligned.operator == "aten._safe_softmax"
    return softmax(builder, name, dim, call.dtype, safe=safe)


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
    # For a row that is all minus infinity, subtract zero: the distance to its maximum would be NaN.
    finite = builder.point("isinf", largest, dtype="bool", compute=call.dtype)
    anchor = builder.where(finite, builder.number(0.0), largest, call.dtype, "anchor")
    power = builder.point("exp", builder.point("sub", name, anchor, dtype=call.dtype), dtype=call.dtype)
    total = builder.point("log", builder.reduce("sum", power, dims, keep=True), dtype=call.dtype)
    return builder.reshape(builder.point("add", total, anchor, dtype=call.dtype), call.shape)
