"""Rules for images split into columns of windows and reassembled: `F.unfold`, `F.fold`, unpooling.

To reassemble, every element of the result sums over the windows that contain it; nothing is added up in memory.
"""

from __future__ import annotations

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.sizes import Shape, Size, is_constant, product, times
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import placed, take
from triton_agent.policy.author.rules.windows import Windows, padded, spatial, windows


def _laid(builder: Builder, call: Call, image: Shape) -> Windows:
    """Return how windows lie over an image with these last two sizes."""
    taps, steps, spread, amounts = (
        spatial(builder, call, name, 2) for name in ("kernel_size", "stride", "dilation", "padding")
    )
    zipped = zip(image[-2:], taps, steps, spread, amounts)
    counts = tuple(
        tuple((size + 2 * pad - gap * (tap - 1) - 1) // step + 1 for size, tap, step, gap, pad in zip(*sizes))
        for sizes in zipped
    )
    return Windows(taps=taps, steps=steps, spread=spread, amounts=amounts, counts=counts)


@lowers("im2col")
def _columns(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    rank = len(builder.shape(name))
    over = _laid(builder, call, builder.shape(name))
    seen = windows(builder, padded(builder, name, over, builder.number(0.0)), over)
    turned = (*range(rank - 2), rank, rank + 1, rank - 2, rank - 1)
    return builder.reshape(builder.permute(seen, turned), call.shape)


@lowers("col2im")
def _image(builder: Builder, call: Call) -> str:
    name, sizes = call.tensor("self"), call.sizes("output_size")
    over = _laid(builder, call, sizes)
    lead = call.shape[:-2]
    rank = len(lead)
    if _side_by_side(builder, over, sizes):
        apart = builder.reshape(name, (*lead, *over.taps, *over.counts))
        turned = builder.permute(apart, (*range(rank), rank + 2, rank, rank + 3, rank + 1))
        return builder.reshape(turned, call.shape)
    (inside_y, line), (inside_x, column) = (_window_of(builder, over, dim, sizes[dim]) for dim in (0, 1))
    taps, counts = over.taps, over.counts
    # [taps down, taps across, height, width]: the index of the window and the position within it.
    line = builder.reshape(line, (taps[0], builder.one(), sizes[0], builder.one()))
    column = builder.reshape(column, (builder.one(), taps[1], builder.one(), sizes[1]))
    place = builder.point("mul", line, builder.number_of(counts[1]), dtype="int64", hint="place")
    place = builder.point("add", place, column, dtype="int64", hint="place")
    tap_y = builder.reshape(builder.iota(taps[0]), (taps[0], *(builder.one() for _ in range(3))))
    tap_x = builder.reshape(builder.iota(taps[1]), (taps[1], builder.one(), builder.one()))
    tap = builder.point("mul", tap_y, builder.number_of(taps[1]), dtype="int64", hint="tap")
    tap = builder.point("add", tap, tap_x, dtype="int64", hint="tap")
    before = builder.point("mul", tap, builder.number_of(product(counts, builder.width)), dtype="int64", hint="place")
    place = builder.point("add", before, place, dtype="int64", hint="place")
    inside = builder.point(
        "and",
        builder.reshape(inside_y, (taps[0], builder.one(), sizes[0], builder.one())),
        builder.reshape(inside_x, (builder.one(), taps[1], builder.one(), sizes[1])),
        dtype="bool",
        hint="is_inside",
    )
    flat = builder.reshape(name, (*lead, product((*taps, *counts), builder.width)))
    found = take(builder, flat, place, rank)
    found = builder.where(inside, found, builder.number(0.0), call.dtype, "met")
    return builder.reduce("sum", found, (rank, rank + 1))


def _side_by_side(builder: Builder, over: Windows, sizes: Shape) -> bool:
    """Return True if every element is in exactly one window."""
    plain = all(is_constant(gap, 1) for gap in over.spread) and all(is_constant(pad, 0) for pad in over.amounts)
    whole = tuple(times(tap, count) for tap, count in zip(over.taps, over.counts))
    return plain and over.taps == over.steps and whole == tuple(sizes)


def _window_of(builder: Builder, over: Windows, dim: int, size: Size) -> tuple[str, str]:
    """Return for every tap and position along one dimension if a window has that tap there, and the window's index."""
    whole = "int64"
    tap = builder.unsqueeze(builder.iota(over.taps[dim], step=builder.number_of(over.spread[dim])), 1)
    place = builder.point("add", builder.iota(size), builder.number_of(over.amounts[dim]), dtype=whole, hint="place")
    begin = builder.point("sub", place, tap, dtype=whole, hint="begin")
    inside = builder.point("ge", begin, builder.number(0), dtype="bool", compute=whole)
    held = builder.point("clamp_min", begin, builder.number(0), dtype=whole, hint="begin")
    step = builder.number_of(over.steps[dim])
    which = held
    if not is_constant(over.steps[dim], 1):
        which = builder.point("int_trunc_div", held, step, dtype=whole, hint="window")
        again = builder.point("mul", which, step, dtype=whole)
        meets = builder.point("eq", again, held, dtype="bool", compute=whole)
        inside = builder.point("and", inside, meets, dtype="bool")
    last = builder.number_of(tuple(count - 1 for count in over.counts[dim]))
    within = builder.point("le", which, last, dtype="bool", compute=whole)
    inside = builder.point("and", inside, within, dtype="bool", hint="is_inside")
    return inside, builder.point("minimum", which, last, dtype=whole, hint="window")


@lowers("max_unpool2d")
def _unpooled(builder: Builder, call: Call) -> str:
    """Put every maximum back at its original position, with zeros elsewhere."""
    name, index = call.tensor("self"), call.tensor("indices")
    shape = builder.shape(name)
    if call.dtype not in ("float32", "float16", "bfloat16"):
        raise BeyondAuthor("a dtype that is not float32 or half precision")
    lead, width = shape[:-2], builder.width
    many = product(lead, width)
    flat = (many, product(shape[-2:], width))
    begun = builder.full(0.0, (many, product(call.shape[-2:], width)), call.dtype)
    made = placed(builder, begun, builder.reshape(index, flat), builder.reshape(name, flat), 1)
    return builder.reshape(made, call.shape)
