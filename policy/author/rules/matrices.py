"""Rules for operators on matrices: diagonals, traces, distances between rows, bilinear forms."""

from __future__ import annotations

import math

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS
from triton_agent.policy.author.ir.sizes import Size, constant, is_constant, minus, plus, product
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import concat, gather, pad, rolled
from triton_agent.policy.author.rules.products import multiply

FEW_ROWS = 25
"""Most rows on both sides for which torch computes distances directly; beyond, it uses a product."""


@lowers("eye")
def _eye(builder: Builder, call: Call) -> str:
    return builder.cast(_is_diagonal(builder, *call.shape), call.dtype)


def _is_diagonal(builder: Builder, rows: Size, columns: Size) -> str:
    row = builder.unsqueeze(builder.iota(rows), 1)
    return builder.point("eq", row, builder.iota(columns), dtype="bool", compute="int64", hint="is_diagonal")


@lowers("diag_embed")
def _diag_embed(builder: Builder, call: Call) -> str:
    rank = len(call.shape)
    dims = int(call.plain("dim1", -2)) % rank, int(call.plain("dim2", -1)) % rank
    if dims != (rank - 2, rank - 1):
        raise BeyondAuthor("a diagonal of other dimensions than the last")
    return _embedded(builder, call, int(call.plain("offset", 0)))


def _embedded(builder: Builder, call: Call, offset: int) -> str:
    """Put elements on a diagonal, which may be off the main one."""
    name = call.tensor("self")
    length = builder.shape(name)[-1]
    column = builder.unsqueeze(name, -1) if offset <= 0 else builder.unsqueeze(name, -2)
    made = builder.where(_is_diagonal(builder, length, length), column, builder.number(0), call.dtype, "diagonal")
    if offset == 0:
        return made
    none, by = constant(0, builder.width), constant(abs(offset), builder.width)
    amounts = (by, none, none, by) if offset > 0 else (none, by, by, none)
    return pad(builder, made, amounts, 0, call.shape)


@lowers("fill_diagonal")
def _fill_diagonal(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    if len(call.shape) != 2 or call.plain("wrap", False):
        raise BeyondAuthor("a diagonal of more than two dimensions, or one that wraps")
    return builder.where(_is_diagonal(builder, *call.shape), call.operand("fill_value"), name, call.dtype, "filled")


@lowers("block_diag")
def _block_diagonal(builder: Builder, call: Call) -> str:
    """Put the matrices below each other, each with zeros on both sides."""
    none, lines = constant(0, builder.width), []
    before = none
    for name in call.tensors("tensors"):
        shape = builder.shape(name)
        shape = (*(builder.one() for _ in range(2 - len(shape))), *shape)
        block = builder.cast(builder.reshape(name, shape), call.dtype)
        behind = minus(call.shape[1], plus(before, shape[1]))
        lines.append(pad(builder, block, (before, behind, none, none), 0, (shape[0], call.shape[1])))
        before = plus(before, shape[1])
    return concat(builder, lines, 0, call.shape)


@lowers("addr")
def _outer_added(builder: Builder, call: Call) -> str:
    made = builder.point(
        "mul", builder.unsqueeze(call.tensor("vec1"), 1), call.tensor("vec2"), dtype=call.dtype, hint="outer"
    )
    made = builder.point("mul", made, call.operand("alpha", 1), dtype=call.dtype)
    kept = builder.point("mul", call.tensor("self"), call.operand("beta", 1), dtype=call.dtype)
    return builder.point("add", kept, made, dtype=call.dtype)


@lowers("diag")
def _diag(builder: Builder, call: Call) -> str:
    if len(builder.shape(call.tensor("self"))) == 1:
        return _embedded(builder, call, int(call.plain("diagonal", 0)))
    return _diagonal_of(builder, call.tensor("self"), 0, 1, int(call.plain("diagonal", 0)), call.shape[-1])


@lowers("diagonal", "diagonal_copy")
def _diagonal(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    rank = len(builder.shape(name))
    a, b = (int(call.plain(dim, default)) % rank for dim, default in (("dim1", 0), ("dim2", 1)))
    return _diagonal_of(builder, name, a, b, int(call.plain("offset", 0)), call.shape[-1])


def _diagonal_of(builder: Builder, name: str, a: int, b: int, offset: int, length: Size) -> str:
    """Gather the elements whose index along one dimension equals their index along the other."""
    rank = len(builder.shape(name))
    turned = builder.permute(name, (*(dim for dim in range(rank) if dim not in (a, b)), a, b))
    turned = builder.slice(turned, rank - 2, constant(max(0, -offset), builder.width), length)
    lead = builder.shape(turned)[:-2]
    count = builder.iota(length, start=max(0, offset))
    place = builder.expand(builder.unsqueeze(count, 1), (*lead, length, builder.one()))
    return builder.reshape(gather(builder, turned, place, rank - 1), (*lead, length))


@lowers("trace")
def _trace(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    shape = builder.shape(name)
    length = tuple(min(pair) for pair in zip(*shape))
    diagonal = builder.cast(_diagonal_of(builder, name, 0, 1, 0, length), call.dtype)
    return builder.reduce("sum", diagonal, (0,), dtype=call.dtype, hint="trace")


@lowers("linalg_cross")
def _cross(builder: Builder, call: Call) -> str:
    a, b, dim = call.tensor("self"), call.tensor("other"), int(call.plain("dim", -1)) % len(call.shape)
    turned = [[rolled(builder, name, dim, constant(by, builder.width)) for by in (-1, -2)] for name in (a, b)]
    (a_next, a_last), (b_next, b_last) = turned
    first = builder.point("mul", a_next, b_last, dtype=call.dtype)
    return builder.point("sub", first, builder.point("mul", a_last, b_next, dtype=call.dtype), dtype=call.dtype)


@lowers("_cdist_forward", "cdist")
def _distances(builder: Builder, call: Call) -> str:
    """Return the distances between all pairs of rows. For many rows, Euclidean distances are computed by a product."""
    a, b, order, dtype = call.tensor("x1"), call.tensor("x2"), float(call.plain("p", 2.0)), call.dtype
    rows, others = builder.shape(a)[-2], builder.shape(b)[-2]
    mode = call.plain("compute_mode", 0)
    if dtype not in FLOATS:
        raise BeyondAuthor("integers")
    if order == 2 and mode != 2 and (mode == 1 or max(*rows, *others) > FEW_ROWS):
        return _by_product(builder, a, b, dtype)
    apart = builder.point("sub", builder.unsqueeze(a, -2), builder.unsqueeze(b, -3), dtype=dtype, hint="apart")
    last = (len(builder.shape(apart)) - 1,)
    if order == 2:
        total = builder.reduce("sum", builder.point("square", apart, dtype=dtype), last)
        return builder.point("sqrt", total, dtype=dtype, hint="distance")
    size = builder.point("abs", apart, dtype=dtype)
    if order == 1:
        return builder.reduce("sum", size, last, hint="distance")
    if order == math.inf:
        return builder.reduce("max", size, last, hint="distance")
    if order == 0:
        raise BeyondAuthor("a distance with p = 0")
    total = builder.reduce("sum", builder.point("pow", size, builder.number(order), dtype=dtype), last)
    return builder.point("pow", total, builder.number(1.0 / order), dtype=dtype, hint="distance")


def _by_product(builder: Builder, a: str, b: str, dtype: str) -> str:
    lengths = []
    for name in (a, b):
        last = (len(builder.shape(name)) - 1,)
        lengths.append(builder.reduce("sum", builder.point("square", name, dtype=dtype), last, dtype=dtype))
    inner = multiply(builder, a, builder.swap(b, -2, -1), dtype)
    both = builder.point("add", builder.unsqueeze(lengths[0], -1), builder.unsqueeze(lengths[1], -2), dtype=dtype)
    square = builder.point("sub", both, builder.point("mul", inner, builder.number(2.0), dtype=dtype), dtype=dtype)
    square = builder.point("clamp_min", square, builder.number(0.0), dtype=dtype)
    return builder.point("sqrt", square, dtype=dtype, hint="distance")


@lowers("_trilinear")
def _bilinear(builder: Builder, call: Call) -> str:
    """Compute `nn.Bilinear`: a bilinear form for each output, as a product of one operand with all forms."""
    a, forms, b = call.tensor("i1"), call.tensor("i2"), call.tensor("i3")
    ways = [tuple(call.plain(name, ())) for name in ("expand1", "expand2", "expand3", "sumdim")]
    if ways != [(1, 3), (0,), (1, 2), (2, 3)]:
        raise BeyondAuthor("a trilinear sum other than that of nn.Bilinear")
    outputs, inner, other = builder.shape(forms)
    both = product((outputs, other), builder.width)
    table = builder.reshape(builder.permute(forms, (1, 0, 2)), (inner, both))
    rows = builder.shape(a)[0]
    made = builder.reshape(multiply(builder, a, table, call.dtype), (rows, outputs, other))
    weighted = builder.point("mul", made, builder.unsqueeze(b, 1), dtype=call.dtype, hint="weighted")
    return builder.reduce("sum", weighted, (2,), dtype=call.dtype)


@lowers("rot90")
def _quarter_turns(builder: Builder, call: Call) -> str:
    name, turns = call.tensor("self"), int(call.plain("k", 1)) % 4
    rank = len(call.shape)
    a, b = (int(dim) % rank for dim in call.plain("dims", (0, 1)))
    for dim in {1: (b,), 2: (a, b), 3: (a,)}.get(turns, ()):
        size = builder.shape(name)[dim]
        name = builder.slice(name, dim, minus(size, builder.one()), size, -1)
    return builder.swap(name, a, b) if turns % 2 else name


@lowers("_euclidean_dist")
def _euclidean(builder: Builder, call: Call) -> str:
    return _by_product(builder, call.tensor("x1"), call.tensor("x2"), call.dtype)


@lowers("_weight_norm_interface")
def _weight_norm(builder: Builder, call: Call) -> list[str | None]:
    """Scale rows (or columns) to the given lengths."""
    v, g, dim = call.tensor("v"), call.tensor("g"), int(call.plain("dim", 0))
    shape, dtype = builder.shape(v), call.dtype
    dim %= len(shape)
    if dtype not in FLOATS - {"float64"} or dim not in (0, len(shape) - 1) or any(is_constant(s, 0) for s in shape):
        raise BeyondAuthor("another dimension, or other numbers")
    dims = tuple(i for i in range(len(shape)) if i != dim)
    square = builder.reduce("sum", builder.point("square", v, dtype=dtype), dims, keep=True)
    length = builder.point("sqrt", square, dtype=dtype, hint="length")
    scale = builder.point("div", g, length, dtype=dtype, hint="scale")
    made: list[str | None] = [builder.point("mul", v, scale, dtype=dtype)]
    return [*made, length if call.aligned.node.output_name(1) in builder.used else None]
