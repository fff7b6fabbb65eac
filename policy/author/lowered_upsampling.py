"""Rules for sizes that are changed by interpolation: one dimension after another, between two neighbours each.

Where torch is given a factor it goes by that, not by the sizes; so does this. Not covered: cubic interpolation, and
filters against aliasing.
"""

from __future__ import annotations

from typing import Any

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.lowered_movement import take
from triton_agent.policy.author.lowering import Builder, Call, lowers
from triton_agent.policy.author.program import FLOATS, Number, Operand
from triton_agent.policy.author.sizes import Size, minus

_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


@lowers("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(builder: Builder, call: Call) -> str:
    name, corners = call.tensor("self"), bool(call.plain("align_corners", False))
    if call.dtype not in FLOATS - {"float64"}:
        raise BeyondAuthor("other numbers than fractions of up to 32 bits")
    shape = builder.shape(name)
    for dim in range(2, len(shape)):
        if shape[dim] != call.shape[dim]:
            step = _step(builder, call, dim, corners=corners)
            name = _between_neighbours(builder, name, dim, call.shape[dim], step, corners=corners)
    return name


def _step(builder: Builder, call: Call, dim: int, *, corners: bool) -> Operand:
    """How far two results are apart, in elements of what goes in; divided in the kernel, rounded as torch rounds it."""
    before, after = builder.shape(call.tensor("self"))[dim], call.shape[dim]
    factor = _factor(builder, call, dim)
    if factor is not None and factor.fixed:
        builder.formula(after, f"int({{0}} * {float(factor.values[0])!r})", before, name="wide")
        if not corners:
            return builder.number(1.0 / float(factor.values[0]))
    if corners:
        if 1 in after:
            raise BeyondAuthor("a single element between corners")
        before, after = minus(before, builder.one()), minus(after, builder.one())
    return builder.point("div", Number(before), Number(after), dtype="float32", hint="step")


def _factor(builder: Builder, call: Call, dim: int) -> Number | None:
    """The factor that torch was given for a dimension, one way or the other."""
    names = _SCALES[len(call.shape) - 2]
    given: Any = call.aligned.arguments.get("scale_factors")
    found = given[dim - 2] if given is not None else call.aligned.arguments.get(names[dim - 2])
    return None if found is None else builder.number(found)


def _between_neighbours(builder: Builder, name: str, dim: int, count: Size, step: Operand, *, corners: bool) -> str:
    place = builder.cast(builder.iota(count), "float32")
    if corners:
        place = builder.point("mul", place, step, dtype="float32", hint="place")
    else:
        middle = builder.point("add", place, builder.number(0.5), dtype="float32")
        place = builder.point("mul", middle, step, dtype="float32")
        place = builder.point("sub", place, builder.number(0.5), dtype="float32")
        place = builder.point("clamp_min", place, builder.number(0.0), dtype="float32", hint="place")
    size, dtype = builder.shape(name)[dim], builder.get(name).dtype
    last = Number(minus(size, builder.one()))
    first = builder.cast(place, "int64")
    first = builder.point("clamp_max", first, last, dtype="int64", hint="first")
    second = builder.point("add", first, builder.number(1), dtype="int64")
    second = builder.point("clamp_max", second, last, dtype="int64", hint="second")
    share = builder.point("sub", place, builder.cast(first, "float32"), dtype="float32", hint="share")
    ones = tuple(builder.one() for _ in builder.shape(name)[dim + 1 :])
    share = builder.reshape(share, (count, *ones))
    rest = builder.point("sub", builder.number(1.0), share, dtype="float32", hint="rest")
    near = builder.point("mul", take(builder, name, first, dim), rest, dtype=dtype)
    far = builder.point("mul", take(builder, name, second, dim), share, dtype=dtype)
    return builder.point("add", near, far, dtype=dtype, hint="between")


@lowers("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def _nearest_exact(builder: Builder, call: Call) -> str:
    return nearest(builder, call, 0.5)


def nearest(builder: Builder, call: Call, shift: float) -> str:
    """The element that a place falls on; `shift`: where in a result its place is taken to be."""
    name = call.tensor("self")
    shape = builder.shape(name)
    for dim in range(2, len(shape)):
        count, size = call.shape[dim], shape[dim]
        if count == size:
            continue
        place = builder.cast(builder.iota(count), "float32")
        if shift:
            place = builder.point("add", place, builder.number(shift), dtype="float32")
        place = builder.point("mul", place, _step(builder, call, dim, corners=False), dtype="float32")
        which = builder.cast(place, "int64")
        last = Number(minus(size, builder.one()))
        name = take(builder, name, builder.point("clamp_max", which, last, dtype="int64", hint="which"), dim)
    return name
