"""Rules for writes into part of a tensor: `x[:, ::2] = y`, `x[mask] = 0`, `x[:, places] = y`.

In a graph such a write makes a new tensor. Each element checks if it is overwritten and by which new element. For index
tensors this is done for few indices only; many indices become a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import INTEGERS, Number
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    constant,
    contiguous_strides,
    is_constant,
    minus,
    plus,
    product,
    quotient,
    remainder,
    times,
)
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import MOST_PIECES, concat, from_the_front, placed, take
from triton_agent.tools.graph.graph import Reference

Stretch = tuple[Size, Size, int]
"""The written part of one dimension: first position, length and step."""


@lowers("as_strided_scatter")
def _strided_write(builder: Builder, call: Call) -> str:
    """Lower a write through nested views, which the graph describes by size, strides and offset."""
    name, piece = call.tensor("self"), builder.cast(call.tensor("src"), call.dtype)
    order = memory_order(builder, call)
    name = builder.permute(name, order)
    if _shows_diagonals(builder, call, builder.shape(name)):
        made = _with_diagonals(builder, name, piece)
    else:
        stretches = rectangle(builder, call, builder.shape(name))
        piece = builder.reshape(piece, tuple(length for _, length, _ in stretches))
        made = put_into(builder, name, piece, stretches)
    return builder.permute(made, [order.index(dim) for dim in range(len(order))])


def memory_order(builder: Builder, call: Call) -> list[int]:
    """Return the dimensions of the written tensor in memory order."""
    found = call.aligned.arguments["self"]
    metas = [graph.values()[found.name] for graph in builder.graph.graphs]
    main = metas[0]
    order = sorted(range(len(main.shape)), key=lambda dim: -main.strides[dim])
    for meta in metas:
        shape = tuple((meta.shape[dim],) for dim in order)
        steps = contiguous_strides(shape, 1)
        if any(size != (1,) and (meta.strides[d],) != by for d, size, by in zip(order, shape, steps)):
            raise BeyondAuthor("a write into a tensor that is not dense in memory")
    return order


def _shows_diagonals(builder: Builder, call: Call, shape: Shape) -> bool:
    """Return True if the written layout is the diagonal of every matrix."""
    if len(shape) < 2 or not is_constant(builder.size(call.aligned.arguments.get("storage_offset") or 0), 0):
        return False
    strides = contiguous_strides(shape, builder.width)
    shortest = tuple(map(min, zip(*shape[-2:])))
    seen = list(zip(call.sizes("size"), call.sizes("stride")))
    wanted = [*zip(shape[:-2], strides[:-2]), (shortest, plus(strides[-2], strides[-1]))]
    return len(seen) == len(wanted) and all(
        size == length and (step == by or is_constant(size, 1)) for (size, step), (length, by) in zip(seen, wanted)
    )


def _with_diagonals(builder: Builder, name: str, piece: str) -> str:
    shape = builder.shape(name)
    row, column = builder.unsqueeze(builder.iota(shape[-2]), 1), builder.iota(shape[-1])
    met = builder.point("eq", row, column, dtype="bool", compute="int64", hint="is_diagonal")
    down = builder.shape(piece)[-1] == shape[-2]
    spread = builder.unsqueeze(piece, len(shape) - 1 if down else len(shape) - 2)
    return builder.where(met, spread, name, builder.get(name).dtype, "written")


def rectangle(builder: Builder, call: Call, shape: Shape) -> list[Stretch]:
    """Return the part of a contiguous tensor of this shape that the call's size, strides and offset describe."""
    offset = builder.size(call.aligned.arguments.get("storage_offset") or 0)
    return _stretches(shape, call.sizes("size"), call.sizes("stride"), offset, builder.width)


def _stretches(shape: Shape, sizes: Shape, strides: Shape, offset: Size, width: int) -> list[Stretch]:
    """Return the part of each dimension of `shape` that elements with these sizes, strides and offset occupy."""
    seen = [(size, stride) for size, stride in zip(sizes, strides) if not is_constant(size, 1)]
    found: list[Stretch] = []
    for size, stride in zip(shape, contiguous_strides(shape, width)):
        start, offset = quotient(offset, stride), remainder(offset, stride)
        length, step = constant(1, width), 1
        if seen and _reaches(seen[0], stride, size):
            length, by = seen.pop(0)
            step = quotient(by, stride)[0]
        found.append((start, length, step))
    last = [plus(start, tuple((n - 1) * step for n in length)) for start, length, step in found]
    if seen or any(end >= n for place, size in zip(last, shape) for end, n in zip(place, size)):
        raise BeyondAuthor("a write whose elements are not a slice of each dimension")
    return found


def _reaches(seen: tuple[Size, Size], stride: Size, size: Size) -> bool:
    """Return True if elements with this size and stride are regularly spaced elements of a dimension with the given
    stride and size.
    """
    length, by = seen
    steps = quotient(by, stride)
    walks = times(steps, stride) == by and is_constant(steps) and steps[0] > 0
    return walks and all((n - 1) * steps[0] < whole for n, whole in zip(length, size))


def put_into(builder: Builder, name: str, piece: str, stretches: Sequence[Stretch], dim: int = 0) -> str:
    """Replace a slice of each dimension in the tensor, one dimension after another."""
    shape = builder.shape(name)
    if dim == len(shape):
        return piece
    start, length, step = stretches[dim]
    if length == shape[dim] and step == 1:
        return put_into(builder, name, piece, stretches, dim + 1)
    if any(length != builder.shape(name)[d] or by != 1 for d, (_, length, by) in enumerate(stretches) if d > dim):
        piece = put_into(builder, builder.slice(name, dim, start, length, step), piece, stretches, dim + 1)
    if step == 1:
        end = plus(start, length)
        parts = [builder.slice(name, dim, constant(0, builder.width), start), piece]
        parts.append(builder.slice(name, dim, end, minus(shape[dim], end)))
        return concat(builder, [part for part in parts if not is_constant(builder.shape(part)[dim], 0)], dim, shape)
    return _every_so_many(builder, name, piece, dim, stretches[dim])


def _every_so_many(builder: Builder, name: str, piece: str, dim: int, stretch: Stretch) -> str:
    start, length, step = stretch
    shape, dtype = builder.shape(name), builder.get(name).dtype
    place: str = builder.iota(shape[dim])
    if not is_constant(start, 0):
        place = builder.point("sub", place, Number(start), dtype="int64", hint="place")
    which = builder.point("int_trunc_div", place, builder.number(step), dtype="int64", hint="which")
    rest = builder.point("sub", place, builder.point("mul", which, builder.number(step), dtype="int64"), dtype="int64")
    met = builder.point("eq", rest, builder.number(0), dtype="bool", compute="int64", hint="is_meant")
    for function, bound in (("ge", constant(0, builder.width)), ("lt", length)):
        inside = builder.point(function, which, Number(bound), dtype="bool", compute="int64")
        met = builder.point("and", met, inside, dtype="bool", hint="is_meant")
    at_least = builder.point("clamp_min", which, builder.number(0), dtype="int64")
    last = Number(minus(length, builder.one()))
    found = take(builder, piece, builder.point("clamp_max", at_least, last, dtype="int64", hint="which"), dim)
    return builder.where(_along(builder, met, shape, dim), found, name, dtype, "written")


def _along(builder: Builder, line: str, shape: Shape, dim: int) -> str:
    """Reshape a vector along one dimension so that it broadcasts against the shape."""
    return builder.reshape(line, tuple(size if i == dim else builder.one() for i, size in enumerate(shape)))


@lowers("index_put", "_unsafe_index_put")
def _indexed_write(builder: Builder, call: Call) -> str:
    name, values = call.tensor("self"), builder.cast(_values(builder, call), call.dtype)
    given = [
        (d, builder.named(i.name)) for d, i in enumerate(call.aligned.arguments["indices"]) if isinstance(i, Reference)
    ]
    adds = bool(call.plain("accumulate", False))
    if not adds and len(given) == 1 and builder.get(given[0][1]).dtype == "bool":
        return _where_true(builder, name, values, *given[0])
    if any(builder.get(index).dtype not in INTEGERS for _, index in given):
        raise BeyondAuthor("masks together with indices")
    try:
        if adds or len(given) > 2:
            raise BeyondAuthor("many indices")
        return (
            _one_in_each(builder, name, values, given)
            if len(given) == 2
            else _at_places(builder, name, values, *given[0])
        )
    except BeyondAuthor:
        return _put_at(builder, name, values, given, adds=adds)


def _put_at(builder: Builder, name: str, values: str, given: Sequence[tuple[int, str]], *, adds: bool) -> str:
    """Write through a scatter into a copy. Adjacent indices are combined into one."""
    shape, first = builder.shape(name), given[0][0]
    if [dim for dim, _ in given] != list(range(first, first + len(given))):
        raise BeyondAuthor("indices of dimensions that are not adjacent")
    places = [from_the_front(builder, index, shape[dim]) for dim, index in given]
    flat = places[0]
    for (dim, _), place in zip(given[1:], places[1:]):
        flat = builder.point("mul", flat, Number(shape[dim]), dtype="int64", hint="place")
        flat = builder.point("add", flat, place, dtype="int64", hint="place")
    lead, rest = shape[:first], shape[first + len(given) :]
    own = builder.shape(flat)
    count = product(own, builder.width)
    values = builder.reshape(builder.expand(values, (*lead, *own, *rest)), (*lead, count, *rest))
    inner = product(shape[first : first + len(given)], builder.width)
    table, line = builder.reshape(name, (*lead, inner, *rest)), builder.reshape(flat, (count,))
    if adds:
        if builder.get(name).dtype != "float32":
            raise BeyondAuthor("an accumulation in another dtype than float32")
        whole = (*lead, inner, *rest)
        total = builder.emit("scatter", line, values, shape=whole, dtype="float32", detail=first, hint="total")
        return builder.reshape(builder.point("add", table, total, dtype="float32"), shape)
    return builder.reshape(placed(builder, table, line, values, first), shape)


def _values(builder: Builder, call: Call) -> str:
    found = call.operand("values")
    return found if isinstance(found, str) else builder.full(found, (), call.dtype)


def _where_true(builder: Builder, name: str, values: str, dim: int, mask: str) -> str:
    """Write one number where a mask is true. The mask covers the dimensions from `dim` on."""
    shape, own = builder.shape(name), builder.shape(mask)
    if any(not is_constant(size, 1) for size in builder.shape(values)):
        raise BeyondAuthor("one value for each true element of a mask")
    behind = len(shape) - dim - len(own)
    ones = builder.one()
    mask = builder.reshape(mask, (*(ones for _ in range(dim)), *own, *(ones for _ in range(behind))))
    return builder.where(mask, builder.reshape(values, ()), name, builder.get(name).dtype, "written")


def _at_places(builder: Builder, name: str, values: str, dim: int, index: str) -> str:
    """Write at few indices. Of several equal indices the last one counts."""
    shape = builder.shape(name)
    counts = builder.shape(index)
    count = counts[0] if counts else builder.one()
    if len(counts) > 1 or not is_constant(count) or count[0] > MOST_PIECES:
        raise BeyondAuthor("many indices")
    index = builder.reshape(from_the_front(builder, index, shape[dim]), (count,))
    wanted = (*shape[:dim], *counts, *shape[dim + 1 :])
    values = builder.reshape(builder.expand(values, wanted), (*shape[:dim], count, *shape[dim + 1 :]))
    column = _along(builder, builder.iota(shape[dim]), shape, dim)
    for i in range(count[0]):
        start = constant(i, builder.width)
        meant = builder.reshape(builder.slice(index, 0, start, builder.one()), ())
        here = builder.point("eq", column, meant, dtype="bool", compute="int64", hint="is_meant")
        value = builder.slice(values, dim, start, builder.one())
        name = builder.where(here, value, name, builder.get(name).dtype, "written")
    return name


def _one_in_each(builder: Builder, name: str, values: str, given: Sequence[tuple[int, str]]) -> str:
    """Write `x[arange(n), places] = values`, one element per row."""
    (dim, rows), (other, places) = given
    shape, first = builder.shape(name), builder.get(rows)
    counts_up = first.operation == "iota" and [set(n.values) for n in first.operands if isinstance(n, Number)] == [
        {0},
        {1},
    ]
    if not counts_up or first.shape != (shape[dim],) or builder.shape(places) != first.shape or other != dim + 1:
        raise BeyondAuthor("several index tensors")
    place = from_the_front(builder, places, shape[other])
    column = builder.iota(shape[other])
    here = builder.point("eq", column, builder.unsqueeze(place, 1), dtype="bool", compute="int64", hint="is_meant")
    ones = tuple(builder.one() for _ in shape[other + 1 :])
    here = builder.reshape(here, (shape[dim], shape[other], *ones))
    values = builder.expand(values, (*shape[: dim + 1], *shape[other + 1 :]))
    return builder.where(here, builder.unsqueeze(values, other), name, builder.get(name).dtype, "written")
