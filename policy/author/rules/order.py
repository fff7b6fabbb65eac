"""Rules for operators that depend on the order along one dimension: scans, sorts, top-k, medians.

Elements are sorted together with their positions: the number's bits, transformed so that they sort like the number, and
its position below them form one 64-bit integer. Equal elements keep their order, and NaN comes last.
"""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS, INTEGERS, Number
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, is_constant
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import concat

MOST_OF_TOP = 4
"""Most elements of a top-k that are found one after another, each by a reduction."""
MOST_SORTED = 1024
"""Longest row that one program sorts together with positions; without positions, twice as long."""
_PLACE_BITS = 32
_NO_NUMBER = 0x7FC00000
"""The bits of NaN, which are above those of infinity."""
_ALL_BUT_SIGN = 0x7FFFFFFF


# -- scans ---------------------------------------------------------------------------------------------------------


@lowers("cumsum", "cumprod", "logcumsumexp")
def _running(builder: Builder, call: Call) -> str:
    name = builder.cast(call.tensor("self"), call.dtype)
    function = {"logcumsumexp": "logs"}.get(call.aligned.operator[5:], call.aligned.operator[8:])
    return _scanned(builder, name, call, function, "running_total") if builder.shape(name) else name


@lowers("cummax", "cummin")
def _running_extremum(builder: Builder, call: Call) -> list[str | None]:
    if not call.shape:
        raise BeyondAuthor("a tensor without dimensions")
    if call.aligned.node.output_name(1) in builder.used or call.dtype not in FLOATS:
        return _running_place(builder, call)
    return [_scanned(builder, call.tensor("self"), call, call.aligned.operator[8:], "so_far"), None]


def _running_place(builder: Builder, call: Call) -> list[str | None]:
    """Scan keys for the largest so far. The last of equal elements counts; a minimum is the maximum of the
    negatives.
    """
    name, smallest = call.tensor("self"), call.aligned.operator.endswith("min")
    if call.dtype not in FLOATS and smallest:
        raise BeyondAuthor("a cummin of integers with its indices")
    keys = _with_places(builder, builder.point("neg", name, dtype=call.dtype) if smallest else name, call)
    so_far = _scanned(builder, keys, call, "max", "so_far", dtype="int64")
    number = _number_of(builder, so_far, call.dtype, descending=False)
    return [builder.point("neg", number, dtype=call.dtype) if smallest else number, _place_of(builder, so_far)]


def _with_places(builder: Builder, name: str, call: Call) -> str:
    shape = builder.shape(name)
    key = builder.cast(_key(builder, name, descending=False), "int64")
    upper = builder.point("shift_left", key, builder.number(_PLACE_BITS), dtype="int64")
    place = _line(builder, shape, int(call.plain("dim")) % len(shape))
    return builder.point("or", upper, place, dtype="int64", hint="key")


def _scanned(builder: Builder, name: str, call: Call, function: str, hint: str, dtype: str = "") -> str:
    shape = builder.shape(name)
    dim = int(call.plain("dim")) % len(shape)
    if function == "logs" and call.dtype not in FLOATS:
        raise BeyondAuthor("a logcumsumexp of integers")
    dtype = dtype or call.dtype
    return builder.emit("scan", name, shape=shape, dtype=dtype, function=function, detail=dim, hint=hint)


# -- sorted --------------------------------------------------------------------------------------------------------


@lowers("sort")
def _sort(builder: Builder, call: Call) -> list[str | None]:
    name, descending = call.tensor("self"), bool(call.plain("descending", False))
    shape = builder.shape(name)
    if not shape:
        raise BeyondAuthor("a tensor without dimensions")
    dim = int(call.plain("dim", -1)) % len(shape)
    if call.dtype in INTEGERS and not descending and call.aligned.node.output_name(1) not in builder.used:
        _require_short(shape[dim])
        ordered = builder.emit("scan", name, shape=shape, dtype=call.dtype, function="sort", detail=dim, hint="ordered")
        return [ordered, None]
    if builder.on_cpu and call.aligned.node.output_name(1) in builder.used and not call.plain("stable", False):
        raise BeyondAuthor("on a CPU torch's order of equal elements is not defined")
    if call.aligned.node.output_name(1) not in builder.used and call.dtype != "int64":
        return [_alone(builder, name, dim, descending=descending), None]
    keys = _ordered(builder, name, dim, descending=descending)
    return [_number_of(builder, keys, call.dtype, descending=descending), _place_of(builder, keys)]


def _alone(builder: Builder, name: str, dim: int, *, descending: bool) -> str:
    """Sort numbers without positions, which takes half as many bits."""
    value = builder.get(name)
    _require_short(value.shape[dim], 2 * MOST_SORTED)
    key = _key(builder, name, descending=descending)
    ordered = builder.emit("scan", key, shape=value.shape, dtype="int32", function="sort", detail=dim, hint="ordered")
    return _of_key(builder, ordered, value.dtype, descending=descending)


def _require_short(size: Size, most: int = MOST_SORTED) -> None:
    if size[0] > most or max(size) > 4 * most + 1:  # four times the size is only judged, where it is slow but compiles
        raise BeyondAuthor("rows too long to sort in one program")


def _ordered(builder: Builder, name: str, dim: int, *, descending: bool) -> str:
    """Return sorted 64-bit keys: the number in the upper half, its position in the lower."""
    value = builder.get(name)
    _require_short(value.shape[dim])
    key = _key(builder, name, descending=descending)
    upper = builder.point("shift_left", builder.cast(key, "int64"), builder.number(_PLACE_BITS), dtype="int64")
    place = _line(builder, value.shape, dim)
    key = builder.point("or", upper, place, dtype="int64", hint="key")
    return builder.emit("scan", key, shape=value.shape, dtype="int64", function="sort", detail=dim, hint="ordered")


def _key(builder: Builder, name: str, *, descending: bool) -> str:
    dtype = builder.get(name).dtype
    if dtype == "int64" or dtype == "float64" or dtype not in FLOATS | INTEGERS:
        raise BeyondAuthor("sorting 64-bit numbers")
    key = _sorting_bits(builder, name) if dtype in FLOATS else builder.cast(name, "int32")
    return builder.point("not", key, dtype="int32", hint="key") if descending else key


def _line(builder: Builder, shape: Shape, dim: int) -> str:
    sizes = tuple(size if i == dim else builder.one() for i, size in enumerate(shape))
    return builder.reshape(builder.iota(shape[dim]), sizes)


def _sorting_bits(builder: Builder, name: str) -> str:
    """Return an integer that compares as the floating-point number does; both zeros are equal."""
    bits = builder.point("bits", name, dtype="int32", compute="float32", hint="bits")
    no_number = builder.point("isnan", name, dtype="bool", compute="float32")
    bits = builder.where(no_number, builder.number(_NO_NUMBER), bits, "int32", "bits")
    return _turned(builder, bits)


def _turned(builder: Builder, bits: str) -> str:
    """Reverse the order of negative numbers, whose larger bits mean smaller numbers. Applied twice, it is the
    identity.
    """
    negative = builder.point("lt", bits, builder.number(0), dtype="bool", compute="int32")
    turned = builder.point("xor", bits, builder.number(_ALL_BUT_SIGN), dtype="int32")
    return builder.where(negative, turned, bits, "int32", "key")


def _number_of(builder: Builder, keys: str, dtype: str, *, descending: bool) -> str:
    upper = builder.point("shift_right", keys, builder.number(_PLACE_BITS), dtype="int64")
    return _of_key(builder, builder.cast(upper, "int32"), dtype, descending=descending)


def _of_key(builder: Builder, key: str, dtype: str, *, descending: bool) -> str:
    if descending:
        key = builder.point("not", key, dtype="int32", hint="key")
    if dtype not in FLOATS:
        return builder.cast(key, dtype)
    made = builder.point("from_bits", _turned(builder, key), dtype="float32", compute="int32", hint="ordered")
    return builder.cast(made, dtype)


def _place_of(builder: Builder, keys: str) -> str:
    return builder.point("and", keys, builder.number((1 << _PLACE_BITS) - 1), dtype="int64", hint="place")


@lowers("kthvalue")
def _kth(builder: Builder, call: Call) -> list[str]:
    name, count = call.tensor("self"), builder.size(call.aligned.arguments["k"])
    keys = _ordered(builder, name, _dim(builder, name, call), descending=False)
    return _picked(builder, keys, tuple(k - 1 for k in count), call)


@lowers("median", "nanmedian")
def _median(builder: Builder, call: Call) -> list[str] | str:
    """Return the lower of the two middle elements; NaN if there is any."""
    name, whole = call.tensor("self"), not call.has("dim")
    if whole:
        shape = builder.shape(name)
        name = builder.reshape(name, (builder.count_of(shape),))
    if call.aligned.operator.endswith("nanmedian"):
        raise BeyondAuthor("a median that ignores NaN")
    dim = 0 if whole else _dim(builder, name, call)
    length, dtype = builder.shape(name)[dim], call.dtype
    half, end = tuple((n - 1) // 2 for n in length), tuple(n - 1 for n in length)
    builder.formula(half, "({0} - 1) // 2", length, name="middle")
    builder.formula(end, "{0} - 1", length, name="last")
    keys = _ordered(builder, name, dim, descending=False)
    middle = _picked(builder, keys, half, call, dim=dim)
    if dtype in FLOATS:
        last = _picked(builder, keys, end, call, dim=dim)
        none = builder.point("isnan", last[0], dtype="bool", compute=dtype)
        middle = [builder.where(none, b, a, d) for a, b, d in zip(middle, last, (dtype, "int64"))]
    return middle[0] if whole else middle


def _dim(builder: Builder, name: str, call: Call) -> int:
    rank = len(builder.shape(name))
    if rank == 0:
        raise BeyondAuthor("a tensor without dimensions")
    return int(call.plain("dim", -1)) % rank


def _picked(builder: Builder, keys: str, place: Size, call: Call, *, dim: int | None = None) -> list[str]:
    """Return one of the sorted elements as a sum with all others zero, which the sorting program can compute."""
    dim = _dim(builder, keys, call) if dim is None else dim
    met = builder.point("eq", _line(builder, builder.shape(keys), dim), Number(place), dtype="bool", compute="int64")
    only = builder.where(met, keys, builder.number(0), "int64", "picked")
    piece = builder.reshape(builder.reduce("sum", only, (dim,), dtype="int64", hint="picked"), call.shape)
    return [_number_of(builder, piece, call.dtype, descending=False), _place_of(builder, piece)]


@lowers("topk")
def _topk(builder: Builder, call: Call) -> list[str]:
    """Find a few elements one after another: the largest, then the largest of the rest. Sort for many."""
    name, count = call.tensor("self"), builder.size(call.aligned.arguments["k"])
    shape, dtype = builder.shape(name), call.dtype
    if min(count) < 1 or not shape:
        raise BeyondAuthor("no elements, or a tensor without dimensions")
    dim, largest = int(call.plain("dim", -1)) % len(shape), bool(call.plain("largest", True))
    if not is_constant(count) or count[0] > MOST_OF_TOP or dtype not in FLOATS:
        keys = _ordered(builder, name, dim, descending=largest)
        first = builder.slice(keys, dim, constant(0, builder.width), count)
        return [_number_of(builder, first, dtype, descending=largest), _place_of(builder, first)]
    return _one_after_another(builder, name, dim, count[0], call, largest=largest)


def _one_after_another(builder: Builder, name: str, dim: int, count: int, call: Call, *, largest: bool) -> list[str]:
    shape, dtype = builder.shape(name), call.dtype
    function, none = ("max", -math.inf) if largest else ("min", math.inf)
    column = _line(builder, shape, dim)
    values, places = [], []
    for _ in range(count):
        values.append(builder.reduce(function, name, (dim,), keep=True))
        places.append(builder.reduce(f"arg{function}", name, (dim,), keep=True, dtype="int64"))
        met = builder.point("eq", column, places[-1], dtype="bool", compute="int64")
        name = builder.where(met, builder.number(none), name, dtype, "rest")
    if count == 1:
        return [values[0], places[0]]
    return [concat(builder, values, dim, call.shape), concat(builder, places, dim, call.shape)]


# -- search in sorted numbers --------------------------------------------------------------------------------------


@lowers("bucketize", "searchsorted")
def _bucket(builder: Builder, call: Call) -> str:
    """Count the boundaries below each element. Each element is compared with all of them, which is fast for few."""
    is_bucket = call.aligned.operator == "aten.bucketize"
    bounds = call.tensor("boundaries" if is_bucket else "sorted_sequence")
    own = builder.shape(bounds)
    if len(own) != 1 or max(own[0]) > MOST_SORTED or call.has("sorter") or call.plain("side", "left") == "right":
        raise BeyondAuthor("many boundaries, or different ones for each row")
    x = call.operand("self")
    if not isinstance(x, str):
        raise BeyondAuthor("a number as an operand")
    dtype = max((builder.get(name).dtype for name in (x, bounds)), key=_width_of)
    column = builder.unsqueeze(x, len(builder.shape(x)))
    # NaN counts as above all boundaries, so compare the other way round.
    function = "gt" if call.plain("right", False) else "ge"
    above = builder.point(function, bounds, column, dtype="bool", compute=dtype)
    below = builder.cast(builder.point("not", above, dtype="bool"), "int64")
    count = builder.reduce("sum", below, (len(builder.shape(x)),), dtype="int64", hint="bucket")
    return builder.cast(count, call.dtype)


def _width_of(dtype: str) -> tuple[bool, int]:
    if dtype not in FLOATS | INTEGERS:
        raise BeyondAuthor("boolean boundaries")
    return dtype in FLOATS, int("".join(c for c in dtype.removeprefix("b") if c.isdigit()))
