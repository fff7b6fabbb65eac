"""Rules for resizing by interpolation: one dimension after another, each between two neighbours.

Cubic interpolation uses four neighbours. If torch is given a scale factor, it uses the factor and not the sizes; so do
these rules. Not covered: antialiasing.
"""

from __future__ import annotations

from typing import Any

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import FLOATS, Number, Operand
from triton_agent.policy.author.ir.sizes import Size, minus
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import take

_SHARPNESS = -0.75
"""Parameter `a` of torch's cubic kernel."""
_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


@lowers("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(builder: Builder, call: Call) -> str:
    name, corners = call.tensor("self"), bool(call.plain("align_corners", False))
    if call.dtype not in FLOATS - {"float64"}:
        raise BeyondAuthor("a dtype that is not float32 or half precision")
    shape = builder.shape(name)
    for dim in range(2, len(shape)):
        if shape[dim] != call.shape[dim]:
            step = _step(builder, call, dim, corners=corners)
            name = _between_neighbours(builder, name, dim, call.shape[dim], step, corners=corners)
    return name


def _step(builder: Builder, call: Call, dim: int, *, corners: bool) -> Operand:
    """Return the distance between two results in elements of the input. The kernel divides, to round like torch."""
    before, after = builder.shape(call.tensor("self"))[dim], call.shape[dim]
    factor = _factor(builder, call, dim)
    if factor is not None and factor.fixed:
        builder.formula(after, f"int({{0}} * {float(factor.values[0])!r})", before, name="wide")
        if not corners:
            return builder.number(1.0 / float(factor.values[0]))
    if corners:
        if 1 in after:
            raise BeyondAuthor("aligned corners with a single element")
        before, after = minus(before, builder.one()), minus(after, builder.one())
    return builder.point("div", Number(before), Number(after), dtype="float32", hint="step")


def _factor(builder: Builder, call: Call, dim: int) -> Number | None:
    """Return the scale factor that torch was given for a dimension, in either form; None if there is none."""
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


@lowers("upsample_bicubic2d")
def _cubic(builder: Builder, call: Call) -> str:
    name, corners = call.tensor("self"), bool(call.plain("align_corners", False))
    if call.dtype not in FLOATS - {"float64"}:
        raise BeyondAuthor("a dtype that is not float32 or half precision")
    for dim in (3, 2):
        if builder.shape(name)[dim] != call.shape[dim]:
            name = _among_four(builder, name, dim, call.shape[dim], _step(builder, call, dim, corners=corners), corners)
    return name


def _among_four(builder: Builder, name: str, dim: int, count: Size, step: Operand, corners: bool) -> str:
    """Interpolate between two neighbours on either side; neighbours beyond an edge are the edge itself."""
    dtype, whole, last = "float32", "int64", Number(minus(builder.shape(name)[dim], builder.one()))
    place = builder.cast(builder.iota(count), dtype)
    if corners:
        place = builder.point("mul", place, step, dtype=dtype, hint="place")
    else:
        middle = builder.point("add", place, builder.number(0.5), dtype=dtype)
        scaled = builder.point("mul", middle, step, dtype=dtype)
        place = builder.point("sub", scaled, builder.number(0.5), dtype=dtype, hint="place")
    before = builder.point("floor", place, dtype=dtype, hint="before")
    share = builder.point("sub", place, before, dtype=dtype, hint="share")
    rest = builder.point("sub", builder.number(1.0), share, dtype=dtype, hint="rest")
    first = builder.cast(before, whole)
    ones = tuple(builder.one() for _ in builder.shape(name)[dim + 1 :])
    made, kept = "", builder.get(name).dtype
    for shift, weight in zip((-1, 0, 1, 2), (_far(builder, share), *_near(builder, share, rest), _far(builder, rest))):
        index = builder.point("add", first, builder.number(shift), dtype=whole)
        index = builder.point("clamp_min", index, builder.number(0), dtype=whole)
        index = builder.point("clamp_max", index, last, dtype=whole, hint="neighbour")
        seen = builder.cast(take(builder, name, index, dim), dtype)
        part = builder.point("mul", seen, builder.reshape(weight, (count, *ones)), dtype=dtype)
        made = builder.point("add", made, part, dtype=dtype, hint="among") if made else part
    return builder.cast(made, kept)


def _near(builder: Builder, share: str, rest: str) -> tuple[str, str]:
    """Return the weights of the nearer neighbours: ((a + 2) x - (a + 3)) x x + 1 at their distances x."""

    def weight(x: str) -> str:
        inner = builder.point("mul", x, builder.number(_SHARPNESS + 2), dtype="float32")
        inner = builder.point("sub", inner, builder.number(_SHARPNESS + 3), dtype="float32")
        inner = builder.point("mul", builder.point("mul", inner, x, dtype="float32"), x, dtype="float32")
        return builder.point("add", inner, builder.number(1.0), dtype="float32", hint="weight")

    return weight(share), weight(rest)


def _far(builder: Builder, x: str) -> str:
    """Return the weight of a farther neighbour: ((a y - 5 a) y + 8 a) y - 4 a at y = x + 1."""
    y = builder.point("add", x, builder.number(1.0), dtype="float32")
    made = builder.point("mul", y, builder.number(_SHARPNESS), dtype="float32")
    for less in (-5 * _SHARPNESS, 8 * _SHARPNESS):
        made = builder.point("add", made, builder.number(less), dtype="float32")
        made = builder.point("mul", made, y, dtype="float32")
    return builder.point("sub", made, builder.number(4 * _SHARPNESS), dtype="float32", hint="weight")


@lowers("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def _nearest_exact(builder: Builder, call: Call) -> str:
    return nearest(builder, call, 0.5)


def nearest(builder: Builder, call: Call, shift: float) -> str:
    """Resize by the nearest element. `shift` is the position within a result element at which the input is looked up: 0
    for its start, 0.5 for its centre.
    """
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
