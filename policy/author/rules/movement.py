"""Rules for operators that move, create or look up elements without computing."""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS, INTEGERS, Number, Operand
from triton_agent.policy.author.ir.sizes import Shape, Size, constant, is_constant, minus, plus, product, quotient
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.loops import folded
from triton_agent.tools.graph.graph import Reference

ADDED_IN_MEMORY = frozenset({"float32", "int32", "int64"})
"""Dtypes that support atomic addition on every GPU."""
MOST_PIECES = 8
"""Most tensors that one kernel concatenates; each element checks for every piece if it belongs to it."""


@lowers("zeros", "zeros_like", "new_zeros", "zero", "empty", "empty_like", "new_empty")
def _zeros(builder: Builder, call: Call) -> str:
    return builder.full(0, call.shape, call.dtype)


@lowers("ones", "ones_like", "new_ones")
def _ones(builder: Builder, call: Call) -> str:
    return builder.full(1, call.shape, call.dtype)


@lowers("full", "full_like", "new_full", "scalar_tensor", "fill")
def _full(builder: Builder, call: Call) -> str:
    names = {"aten.full": "fill_value", "aten.full_like": "fill_value", "aten.new_full": "fill_value"}
    name = names.get(call.aligned.operator, "s" if call.has("s") else "value")
    found = call.operand(name)
    if isinstance(found, str):
        return builder.cast(builder.expand(found, call.shape), call.dtype)
    return builder.full(found, call.shape, call.dtype)


@lowers("arange")
def _arange(builder: Builder, call: Call) -> str:
    return builder.iota(call.shape[0], start=call.operand("start", 0), step=call.operand("step", 1), dtype=call.dtype)


@lowers("linspace")
def _linspace(builder: Builder, call: Call) -> str:
    """Compute values from both ends, so that both ends are exact."""
    start, end = call.operand("start"), call.operand("end")
    steps = builder.size(call.aligned.arguments.get("steps"))
    if call.dtype != "float32" or not isinstance(start, Number) or not isinstance(end, Number):
        raise BeyondAuthor("a linspace that is not float32, or between tensors")
    if any(count < 2 for count in steps):
        raise BeyondAuthor("a linspace with fewer than two steps")
    step = Number(tuple((e - s) / (n - 1) for s, e, n in zip(start.values, end.values, steps)))
    place = builder.iota(steps)
    last = Number(tuple(n - 1 for n in steps))
    left = builder.point("sub", last, place, dtype="int64", hint="left")
    near = builder.point("mul", place, step, dtype=call.dtype)
    far = builder.point("mul", left, step, dtype=call.dtype)
    is_near = builder.point("lt", place, left, dtype="bool", compute="int64", hint="is_near")
    from_start = builder.point("add", near, start, dtype=call.dtype)
    from_end = builder.point("sub", end, far, dtype=call.dtype)
    return builder.where(is_near, from_start, from_end, call.dtype, "spaced")


@lowers("copy")
def _copy(builder: Builder, call: Call) -> str:
    return builder.cast(builder.expand(call.tensor("src"), call.shape), call.dtype)


@lowers("tril", "triu")
def _triangle(builder: Builder, call: Call) -> str:
    name, shift = call.tensor("self"), builder.number(call.plain("diagonal", 0))
    shape = builder.shape(name)
    row = builder.unsqueeze(builder.iota(shape[-2]), 1)
    column = builder.iota(shape[-1])
    if shift.values[0] != 0:
        row = builder.point("add", row, shift, dtype="int64")
    function = "le" if call.aligned.operator.endswith("tril") else "ge"
    inside = builder.point(function, column, row, dtype="bool", compute="int64", hint="kept")
    if call.dtype == "bool":
        value = builder.get(name)
        is_true = value.operation == "full" and value.operands == (builder.number(True),)
        return inside if is_true else builder.point("and", name, inside, dtype="bool")
    return builder.where(inside, name, builder.number(0), call.dtype, "triangle")


@lowers("cat", "concat", "concatenate")
def _cat(builder: Builder, call: Call) -> str:
    names = [builder.cast(name, call.dtype) for name in call.tensors("tensors")]
    # Torch accepts an empty one-dimensional tensor beside tensors of any shape.
    names = [name for name in names if not (len(builder.shape(name)) == 1 != len(call.shape))]
    dim = int(call.plain("dim", 0)) % len(call.shape)
    if len(names) > MOST_PIECES and all(is_constant(builder.shape(name)[dim], 1) for name in names):
        without = (*call.shape[:dim], *call.shape[dim + 1 :])
        stacked = _stacked_by_loop(builder, [builder.reshape(name, without) for name in names], dim)
        if stacked is not None:
            return stacked
    return concat(builder, names, dim, call.shape)


@lowers("stack")
def _stack(builder: Builder, call: Call) -> str:
    dim = int(call.plain("dim", 0)) % len(call.shape)
    pieces = [builder.cast(name, call.dtype) for name in call.tensors("tensors")]
    stacked = _stacked_by_loop(builder, pieces, dim) if len(pieces) > MOST_PIECES else None
    if stacked is not None:
        return stacked
    names = [builder.unsqueeze(name, dim) for name in pieces]
    return concat(builder, names, dim, call.shape)


def _stacked_by_loop(builder: Builder, pieces: list[str], dim: int) -> str | None:
    """Return the pieces stacked along `dim` if the steps of a loop made them."""
    parts = folded(builder, pieces)
    if parts is None:
        return None
    shape = builder.shape(pieces[0])
    count = constant(len(pieces), builder.width)
    whole = parts[0] if len(parts) == 1 else concat(builder, parts, 0, (count, *shape))
    return builder.permute(whole, (*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1)))


def concat(builder: Builder, names: list[str], dim: int, shape: Shape) -> str:
    value = builder.get(names[0])
    if len(names) == 1:
        return builder.copied(names[0])
    if len(names) > MOST_PIECES:
        raise BeyondAuthor("many pieces, which torch concatenates as fast")
    parts = [builder.shape(name)[dim] for name in names]
    if len(set(parts)) > 1:
        template = " + ".join(f"{{{i}}}" for i in range(len(parts)))
        builder.formula(shape[dim], template, *parts, name="joined")
    return builder.emit("concat", *names, shape=shape, dtype=value.dtype, detail=dim % len(shape), hint="joined")


@lowers("roll")
def _roll(builder: Builder, call: Call) -> str:
    name, shifts, dims = call.tensor("self"), call.sizes("shifts"), call.plain("dims", ())
    if not dims:
        flat = builder.reshape(name, (product(call.shape, builder.width),))
        return builder.reshape(rolled(builder, flat, 0, shifts[0]), call.shape)
    for shift, dim in zip(shifts, dims):
        name = rolled(builder, name, dim, shift)
    return name


def rolled(builder: Builder, name: str, dim: int, shift: Size) -> str:
    """Shift elements cyclically along one dimension."""
    shape = builder.shape(name)
    dim %= max(1, len(shape))
    length = shape[dim]
    if all(s % n == 0 for s, n in zip(shift, length) if n):
        return name
    first = tuple(-s for s in shift)  # perhaps a number of the module; the kernel reduces it to the length
    if any(s < 0 for s in first):
        forward = tuple(s % n if n else 0 for s, n in zip(shift, length))
        first = minus(length, forward)
        builder.formula(first, "{0} - {1}" if forward == shift else "{0} - {1} % {0}", length, shift, name="first")
    value = builder.get(name)
    return builder.emit("roll", name, shape=shape, dtype=value.dtype, detail=(dim, first), hint=value.hint)


@lowers("constant_pad_nd")
def _pad(builder: Builder, call: Call) -> str:
    return pad(builder, call.tensor("self"), call.sizes("pad"), call.operand("value", 0), call.shape)


def pad(builder: Builder, name: str, amounts: tuple[Size, ...], value: object, shape: Shape) -> str:
    """Pad a value. `amounts` are in torch's order: before and after, the last dimension first."""
    before = [constant(0, builder.width)] * len(shape)
    for i in range(len(amounts) // 2):
        before[len(shape) - 1 - i] = amounts[2 * i]
        size, both = builder.shape(name)[len(shape) - 1 - i], plus(amounts[2 * i], amounts[2 * i + 1])
        if is_constant(both) and both[0] > 0 and plus(size, both) == shape[len(shape) - 1 - i]:
            builder.formula(shape[len(shape) - 1 - i], f"{{0}} + {both[0]}", size, name="padded")
    made = builder.get(name)
    return builder.emit(
        "pad", name, builder.number(value), shape=shape, dtype=made.dtype, detail=tuple(before), hint=made.hint
    )


@lowers("embedding", "index_select")
def _take(builder: Builder, call: Call) -> str:
    if call.aligned.operator == "aten.embedding":
        return take(builder, call.tensor("weight"), call.tensor("indices"), 0)
    return take(builder, call.tensor("self"), call.tensor("index"), int(call.plain("dim")))


def take(builder: Builder, table: str, index: str, dim: int) -> str:
    """Take rows (or columns, ...) of a table. The index's dimensions replace the table's dimension."""
    value, found = builder.get(table), builder.get(index)
    if found.dtype not in INTEGERS:
        raise BeyondAuthor("an index that is not integer")
    dim %= len(value.shape)
    shape = (*value.shape[:dim], *found.shape, *value.shape[dim + 1 :])
    return builder.emit("take", table, index, shape=shape, dtype=value.dtype, detail=dim, hint="picked")


@lowers("gather")
def _gather(builder: Builder, call: Call) -> str:
    table, index = call.tensor("self"), call.tensor("index")
    dim = int(call.plain("dim")) % max(1, len(call.shape))
    return gather(builder, table, index, dim)


def gather(builder: Builder, table: str, index: str, dim: int) -> str:
    found = builder.get(index)
    return builder.emit(
        "gather", table, index, shape=found.shape, dtype=builder.get(table).dtype, detail=dim, hint="picked"
    )


@lowers("index", "_unsafe_index")
def _index(builder: Builder, call: Call) -> str:
    table = call.tensor("self")
    indices = call.aligned.arguments["indices"]
    given = [(dim, item) for dim, item in enumerate(indices) if isinstance(item, Reference)]
    places = [
        (dim, from_the_front(builder, builder.named(item.name), builder.shape(table)[dim])) for dim, item in given
    ]
    if len(places) == 1:
        return take(builder, table, places[0][1], places[0][0])
    first = places[0][0]
    if [dim for dim, _ in places] != list(range(first, first + len(places))):
        # If the indexed dimensions are not adjacent, torch puts the result's indexed dimensions first.
        apart = [dim for dim, _ in places]
        table = builder.permute(table, (*apart, *(dim for dim in range(len(builder.shape(table))) if dim not in apart)))
        first = 0
    sizes = builder.shape(table)[first : first + len(places)]
    flat = places[0][1]
    for size, (_, place) in zip(sizes[1:], places[1:]):
        flat = builder.point("mul", flat, Number(size), dtype="int64", hint="place")
        flat = builder.point("add", flat, place, dtype="int64", hint="place")
    return take(builder, _merged(builder, table, first, len(places)), flat, first)


def _merged(builder: Builder, name: str, first: int, count: int) -> str:
    """Merge neighbouring dimensions into one."""
    shape = builder.shape(name)
    inner = product(shape[first : first + count], builder.width)
    return builder.reshape(name, (*shape[:first], inner, *shape[first + count :]))


def from_the_front(builder: Builder, index: str, size: Size) -> str:
    """Replace negative indices, which count from the end."""
    dtype = builder.get(index).dtype
    if dtype not in INTEGERS:
        raise BeyondAuthor("a boolean mask as an index")
    negative = builder.point("lt", index, builder.number(0), dtype="bool", compute=dtype)
    around = builder.point("add", index, Number(size), dtype=dtype)
    return builder.where(negative, around, index, dtype, "index")


@lowers("slice_scatter", "select_scatter")
def _scatter_view(builder: Builder, call: Call) -> str:
    """Concatenate the elements before the piece, the piece, and the elements behind it."""
    name, piece, dim = call.tensor("self"), call.tensor("src"), int(call.plain("dim", 0))
    shape = builder.shape(name)
    dim %= len(shape)
    if call.aligned.operator.startswith("aten.select"):
        index = builder.size(call.aligned.arguments["index"])
        start = tuple(i + n if i < 0 else i for i, n in zip(index, shape[dim]))
        piece = builder.unsqueeze(piece, dim)
    else:
        if call.plain("step", 1) != 1:
            raise BeyondAuthor("a slice with a step")
        start = builder.size(call.aligned.arguments.get("start") or 0)
        start = tuple(min(max(s + n if s < 0 else s, 0), n) for s, n in zip(start, shape[dim]))
    piece = builder.cast(piece, call.dtype)
    end = plus(start, builder.shape(piece)[dim])
    parts = [builder.slice(name, dim, constant(0, builder.width), start), piece]
    parts.append(builder.slice(name, dim, end, minus(shape[dim], end)))
    return concat(builder, [part for part in parts if not is_constant(builder.shape(part)[dim], 0)], dim, shape)


@lowers("scatter")
def _scatter(builder: Builder, call: Call) -> str:
    """Write elements at the given indices. For few indices, every element compares its position with each of them."""
    name, index = call.tensor("self"), call.tensor("index")
    shape, own = builder.shape(name), builder.shape(index)
    if call.has("reduce") or not shape:
        raise BeyondAuthor("a scatter with a reduction")
    dim = int(call.plain("dim")) % len(shape)
    if not is_constant(own[dim]) or own[dim][0] > MOST_PIECES or _without(own, dim) != _without(shape, dim):
        found = call.operand("value") if call.has("value") else call.tensor("src")
        if isinstance(found, str) and builder.shape(found):
            return placed(builder, name, index, first_of(builder, found, own), dim)
        return placed(builder, name, index, spread(builder, found, own, call.dtype), dim)
    column = builder.reshape(builder.iota(shape[dim]), _only(builder, shape, dim))
    for i in range(own[dim][0]):
        start = constant(i, builder.width)
        here = builder.point(
            "eq", builder.slice(index, dim, start, builder.one()), column, dtype="bool", compute="int64"
        )
        value = call.operand("value") if call.has("value") else call.tensor("src")
        if isinstance(value, str):
            value = builder.slice(value, dim, start, builder.one()) if builder.shape(value) else value
        name = builder.where(here, value, name, call.dtype, "scattered")
    return name


@lowers("index_add", "scatter_add")
def _added_at(builder: Builder, call: Call) -> str:
    """Add elements at the given indices to the tensor."""
    name, index = call.tensor("self"), call.tensor("index")
    source = call.tensor("src" if call.has("src") else "source")
    alpha, shape = call.operand("alpha", 1), builder.shape(name)
    if call.dtype not in ADDED_IN_MEMORY or not shape or len(builder.shape(source)) != len(shape):
        raise BeyondAuthor("a dtype without atomic addition, or single numbers")
    dim = int(call.plain("dim")) % len(shape)
    own = builder.shape(index)
    if len(own) == len(shape):
        source = first_of(builder, source, own)
    if _without(builder.shape(source), dim) != _without(shape, dim) or len(own) not in (1, len(shape)):
        raise BeyondAuthor("indices for some of the rows only")
    if not (isinstance(alpha, Number) and set(alpha.values) == {1}):
        source = builder.point("mul", source, alpha, dtype=call.dtype)
    made = builder.emit("scatter", index, source, shape=shape, dtype=call.dtype, detail=dim, hint="total")
    before = builder.get(name)
    if before.operation == "full" and before.operands == (Number(constant(0, builder.width)),):
        return made
    return added_onto(builder, name, made) or builder.point("add", name, made, dtype=call.dtype)


def spread(builder: Builder, value: Operand, shape: Shape, dtype: str) -> str:
    """Return a number, or a tensor that broadcasts, as a tensor of this shape."""
    if not isinstance(value, str):
        return builder.full(value, shape, dtype)
    return builder.expand(builder.cast(value, dtype), shape)


def placed(builder: Builder, name: str, index: str, source: str, dim: int, how: str = "put") -> str:
    """Write elements at indices along one dimension. Of several elements with one index, any may stay."""
    begun, value = builder.get(name), builder.get(source)
    if value.dtype != begun.dtype or (how != "put" and value.dtype not in ("float32", "int32", "int64")):
        raise BeyondAuthor("elements of another dtype, or a dtype without atomic minimum and maximum")
    if not (begun.operation == "scatter" and begun.function):
        # The copy gets a name of its own, so that no other operator reads it.
        name = builder.copied(name, len(builder.program.values))
    return builder.emit(
        "scatter", index, source, name, shape=begun.shape, dtype=begun.dtype, function=how, detail=dim, hint="placed"
    )


@lowers("scatter_reduce")
def _compared_at(builder: Builder, call: Call) -> str:
    """Return the largest or smallest element for each index, with the previous element unless `include_self` is
    false.
    """
    name, index, dim = call.tensor("self"), call.tensor("index"), int(call.plain("dim", 0))
    source, reduction = call.tensor("src"), call.plain("reduce", "")
    if reduction not in ("amax", "amin") or not call.shape:
        raise BeyondAuthor("a scatter_reduce other than amax and amin")
    own, dim = builder.shape(index), dim % len(call.shape)
    source = first_of(builder, source, own)
    if not call.plain("include_self", True):
        least = -math.inf if reduction == "amax" else math.inf
        if call.dtype not in FLOATS:
            raise BeyondAuthor("integers without include_self")
        name = placed(builder, name, index, builder.full(least, own, call.dtype), dim)
    return placed(builder, name, index, source, dim, reduction.removeprefix("a"))


@lowers("index_copy", "index_fill")
def _put_along(builder: Builder, call: Call) -> str:
    name, index, dim = call.tensor("self"), call.tensor("index"), int(call.plain("dim"))
    shape = builder.shape(name)
    dim %= max(1, len(shape))
    if not shape or len(builder.shape(index)) != 1:
        raise BeyondAuthor("a single number, or an index with several dimensions")
    wanted = (*shape[:dim], builder.shape(index)[0], *shape[dim + 1 :])
    found = call.tensor("source") if call.has("source") else spread(builder, call.operand("value"), wanted, call.dtype)
    return placed(builder, name, index, found, dim)


def added_onto(builder: Builder, start: Operand, total: Operand) -> str | None:
    """Let a scatter start from an input instead of zeros, which saves the addition of both; None if it cannot."""
    if not isinstance(start, str) or not isinstance(total, str):
        return None
    first, value = builder.get(start), builder.get(total)
    is_input = first.operation == "source" and first.function.startswith("x")
    alike = (first.shape, first.dtype) == (value.shape, value.dtype)
    if value.operation != "scatter" or value.function or len(value.operands) > 2 or not is_input or not alike:
        return None
    return builder.emit(
        "scatter", *value.operands, start, shape=value.shape, dtype=value.dtype, detail=value.detail, hint="total"
    )


def first_of(builder: Builder, name: str, shape: Shape) -> str:
    """Return the leading elements along each dimension, as many as there are indices."""
    for dim, size in enumerate(shape):
        if builder.shape(name)[dim] != size:
            name = builder.slice(name, dim, constant(0, builder.width), size)
    return name


def _without(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


def _only(builder: Builder, shape: Shape, dim: int) -> Shape:
    return tuple(size if i == dim else builder.one() for i, size in enumerate(shape))


@lowers("one_hot")
def _one_hot(builder: Builder, call: Call) -> str:
    index = call.tensor("self")
    column = builder.iota(call.shape[-1])
    same = builder.point("eq", builder.unsqueeze(index, len(call.shape) - 1), column, dtype="bool", compute="int64")
    return builder.cast(same, call.dtype)


@lowers("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _embedding_bag(builder: Builder, call: Call) -> list[str | None]:
    """Look up rows for bags of equal size, weight them, and add them up."""
    table, index, offsets = call.tensor("weight"), call.tensor("indices"), builder.get(call.tensor("offsets"))
    mode, bags = call.plain("mode", 0), call.shape[0]
    total = product(builder.shape(index), builder.width)
    first, step = offsets.operands if offsets.operation == "iota" else (None, None)
    each = quotient(total, bags)
    if not isinstance(first, Number) or set(first.values) != {0} or not isinstance(step, Number) or step.values != each:
        raise BeyondAuthor("bags of different sizes")
    if mode not in (0, 1) or call.plain("include_last_offset", False) or int(call.plain("padding_idx", -1)) >= 0:
        raise BeyondAuthor("the mode max, or a padding index")
    found = take(builder, table, builder.reshape(index, (bags, each)), 0)
    if call.has("per_sample_weights"):
        weights = builder.reshape(call.tensor("per_sample_weights"), (bags, each, builder.one()))
        found = builder.point("mul", found, weights, dtype=call.dtype)
    made = builder.reduce("sum", found, (1,), dtype=call.dtype)
    if mode == 1:
        made = builder.point("div", made, builder.count([each]), dtype=call.dtype, hint="mean")
    return [made, None, None, None]
