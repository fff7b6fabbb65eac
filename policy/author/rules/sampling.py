"""Rules for sampling images between their pixels, and for affine grids."""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import Number
from triton_agent.policy.author.ir.sizes import Size, product
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import gather

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1


@lowers("grid_sampler_2d", "grid_sampler")
def _grid_sampler(builder: Builder, call: Call) -> str:
    """Interpolate each element between four neighbours, or take the nearest one; pixels outside of the image are
    zero.
    """
    image, grid = call.tensor("input"), call.tensor("grid")
    mode, padding = call.plain("interpolation_mode", _BILINEAR), call.plain("padding_mode", _ZEROS)
    dtypes = {builder.get(name).dtype for name in (image, grid)}
    if len(builder.shape(image)) != 4 or dtypes != {"float32"}:
        raise BeyondAuthor("images other than two-dimensional float32")
    if mode not in (_BILINEAR, _NEAREST) or padding not in (_ZEROS, _BORDER):
        raise BeyondAuthor("cubic interpolation, or reflection padding")
    sizes = (builder.shape(image)[3], builder.shape(image)[2])
    places = [
        _place(builder, _coordinate(builder, grid, axis), size, call, held=padding == _BORDER)
        for axis, size in enumerate(sizes)
    ]
    if mode == _NEAREST:
        x, y = (builder.point("round", place, dtype="float32", hint="nearest") for place in places)
        return builder.reshape(_read(builder, image, x, y, None), call.shape)
    across, down = (_neighbours(builder, place) for place in places)
    made = ""
    for y, weight_y in down:
        for x, weight_x in across:
            weight = builder.point("mul", weight_x, weight_y, dtype="float32", hint="weight")
            part = _read(builder, image, x, y, weight)
            made = builder.point("add", made, part, dtype="float32", hint="sampled") if made else part
    return builder.reshape(made, call.shape)


def _coordinate(builder: Builder, grid: str, axis: int) -> str:
    """Return one of the two coordinates of every sample, flattened per image."""
    shape = builder.shape(grid)
    single = builder.slice(grid, 3, (axis,) * builder.width, builder.one())
    return builder.reshape(single, (shape[0], builder.one(), product(shape[1:3], builder.width)))


def _place(builder: Builder, name: str, size: Size, call: Call, *, held: bool) -> str:
    """Convert coordinates from -1 ... 1 to pixel positions."""
    from_zero = builder.point("add", name, builder.number(1.0), dtype="float32")
    if call.plain("align_corners", False):
        half = builder.point("mul", from_zero, builder.number(0.5), dtype="float32")
        place = builder.point("mul", half, _last(size), dtype="float32", hint="place")
    else:
        spread = builder.point("mul", from_zero, _as_float(size), dtype="float32")
        moved = builder.point("sub", spread, builder.number(1.0), dtype="float32")
        place = builder.point("mul", moved, builder.number(0.5), dtype="float32", hint="place")
    return _within(builder, place, size) if held else place


def _within(builder: Builder, place: str, size: Size) -> str:
    low = builder.point("clamp_min", place, builder.number(0.0), dtype="float32", hint="place")
    return builder.point("clamp_max", low, _last(size), dtype="float32", hint="place")


def _is_within(builder: Builder, place: str, size: Size) -> str:
    low = builder.point("ge", place, builder.number(0.0), dtype="bool", compute="float32")
    high = builder.point("le", place, _last(size), dtype="bool", compute="float32")
    return builder.point("and", low, high, dtype="bool", hint="is_inside")


def _as_float(size: Size) -> Number:
    return Number(tuple(float(entry) for entry in size))


def _last(size: Size) -> Number:
    return Number(tuple(float(entry - 1) for entry in size))


def _neighbours(builder: Builder, place: str) -> list[tuple[str, str]]:
    """Return the positions before and after a place, each with its weight."""
    before = builder.point("floor", place, dtype="float32", hint="before")
    behind = builder.point("add", before, builder.number(1.0), dtype="float32", hint="behind")
    share = builder.point("sub", place, before, dtype="float32", hint="share")
    rest = builder.point("sub", behind, place, dtype="float32", hint="rest")
    return [(before, rest), (behind, share)]


def _read(builder: Builder, image: str, x: str, y: str, weight: str | None) -> str:
    """Return the pixel at a position times its weight, or zero outside of the image: [batch, channels, samples]."""
    batch, channels, height, width = builder.shape(image)
    held_x, held_y = _is_within(builder, x, width), _is_within(builder, y, height)
    inside = builder.point("and", held_x, held_y, dtype="bool", hint="is_inside")
    # NaN counts as outside and must not become an address.
    column, line = (
        builder.cast(builder.where(held, place, builder.number(0.0), "float32", "held"), "int64")
        for held, place in ((held_x, x), (held_y, y))
    )
    flat = builder.point("mul", line, Number(width), dtype="int64")
    flat = builder.point("add", flat, column, dtype="int64", hint="place")
    rows = builder.reshape(image, (batch, channels, product((height, width), builder.width)))
    shape = (batch, channels, builder.shape(flat)[-1])
    found = gather(builder, rows, builder.expand(flat, shape), 2)
    if weight is not None:
        found = builder.point("mul", found, weight, dtype="float32", hint="weighted")
    return builder.where(inside, found, builder.number(0.0), "float32", "sampled")


@lowers("affine_grid_generator")
def _affine_grid(builder: Builder, call: Call) -> str:
    """Return the position of every element on a grid from -1 to 1, transformed by a matrix per image."""
    theta, shape = call.tensor("theta"), call.shape
    rank, one = len(shape) - 2, builder.one()
    if builder.get(theta).dtype != "float32":
        raise BeyondAuthor("matrices that are not float32")

    def part(column: int) -> str:
        """Return one column of the matrices, broadcast over all positions."""
        only = builder.slice(theta, 2, (column,) * builder.width, one)
        return builder.reshape(only, (shape[0], *(one for _ in range(rank)), shape[-1]))

    made = part(rank)
    for axis in range(rank):
        dim = rank - axis  # the last dimension of the image is the first coordinate
        line = builder.reshape(_spaced(builder, shape[dim], call), (shape[dim], *(one for _ in range(rank - dim + 1))))
        made = builder.point("add", made, builder.point("mul", line, part(axis), dtype="float32"), dtype="float32")
    return made


def _spaced(builder: Builder, size: Size, call: Call) -> str:
    """Return positions from -1 to 1, at pixel centres or, with aligned corners, from the first to the last pixel."""
    count = _last(size) if call.plain("align_corners", False) else _as_float(size)
    if 0.0 in count.values:
        raise BeyondAuthor("aligned corners with a single element")
    twice = builder.cast(builder.iota(size, step=2), "float32")
    middle = builder.point("sub", twice, _last(size), dtype="float32")
    return builder.point("div", middle, count, dtype="float32", hint="spaced")
