"""Rules for sliding windows: pools, convolutions, unfolding; and for nearest-neighbour upsampling.

A window is a view with positions and taps as dimensions, which a kernel turns into indices. A pool reduces the taps. A
convolution is a matrix product over channels and taps, or a plain sum if each group has one channel.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import ALIGNED_BYTES, FLOATS, HALF, ITEM_BYTES, VIEWS, Operand
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    constant,
    divides,
    is_constant,
    minus,
    plus,
    product,
    quotient,
)
from triton_agent.policy.author.rules.building import Builder, Call, lowers
from triton_agent.policy.author.rules.movement import concat, pad, take
from triton_agent.policy.author.rules.products import multiply
from triton_agent.policy.author.rules.upsampling import nearest

FEW_CHANNELS = 16
"""Fewest channels with which one tap fills a step of the matrix unit. With fewer, a step takes several taps."""
FEW_RESULTS = 128
"""Most output channels for which a float32 convolution with a single tap is limited by memory."""
MOST_REMAINDERS = 8
"""Most plain convolutions that a transposed one is split into: a stride of 2 in three dimensions."""
BESIDE = 4
"""Least stride at which the remainders of an output channel of a transposed convolution are computed side by side. They
are neighbours in memory, and a store of four float32 is a whole one.
"""
_WORDS = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How windows lie over the last dimensions, one entry per dimension."""

    taps: Shape
    steps: Shape
    spread: Shape
    """Distance between taps (dilation)."""
    amounts: Shape
    """Padding on either side."""
    counts: Shape
    """Number of windows."""

    def reach(self) -> Shape:
        """Return the extent of all windows, up to the end of the last one."""
        zipped = zip(self.counts, self.taps, self.steps, self.spread)
        return tuple(
            tuple((c - 1) * step + (t - 1) * gap + 1 for c, t, step, gap in zip(*entries)) for entries in zipped
        )


def spatial(builder: Builder, call: Call, name: str, rank: int, default: int | None = None) -> Shape:
    """Return one size per spatial dimension."""
    found = call.aligned.arguments.get(name)
    found = () if found is None else found if isinstance(found, tuple) else (found,)
    if not found and default is None:
        raise BeyondAuthor(f"no argument {name}")
    entries = tuple(builder.size(item) for item in found or (default,))
    return entries * (rank if len(entries) == 1 else 1)


def windows(builder: Builder, name: str, over: Windows) -> str:
    """Return the last dimensions of `name` as windows: [..., positions per dimension, taps per dimension]."""
    shape = builder.shape(name)
    lead = len(shape) - len(over.taps)
    for i, word in enumerate(_WORDS.get(len(over.taps), ())):
        reach = tuple((t - 1) * gap + 1 for t, gap in zip(over.taps[i], over.spread[i]))
        if is_constant(reach) and is_constant(over.steps[i]):
            _count_formula(builder, shape[lead + i], over.counts[i], reach[0], over.steps[i][0], f"out_{word}")
        elif is_constant(over.steps[i]):
            step = over.steps[i][0]
            builder.formula(
                over.counts[i], f"({{0}} - {{1}}) // {step} + 1", shape[lead + i], reach, name=f"out_{word}"
            )
    return builder.emit(
        "window",
        name,
        shape=(*shape[:lead], *over.counts, *over.taps),
        dtype=builder.get(name).dtype,
        detail=(lead, over.steps, over.spread),
        hint=builder.get(name).hint,
    )


def _count_formula(builder: Builder, size: Size, count: Size, reach: int, step: int, name: str) -> None:
    """Record the formula for the number of windows with this extent, if it agrees at all sizes."""
    if any((s - reach) // step + 1 != c for s, c in zip(size, count)):
        return
    less = reach - 1
    if step == 1:
        builder.formula(count, f"{{0}} - {less}" if less else "{0}", size, name=name)
    else:
        builder.formula(count, f"({{0}} - {reach}) // {step} + 1", size, name=name)


def _rounded_up_formulas(builder: Builder, size: Size, wide: Size, over: Windows, dim: int) -> None:
    """Record formulas for the number of windows with `ceil_mode`, and for the padded size that they need."""
    fixed = (over.taps[dim], over.steps[dim], over.spread[dim], over.amounts[dim])
    if not all(is_constant(entry) for entry in fixed) or wide == plus(size, plus(over.amounts[dim], over.amounts[dim])):
        return
    taps, step, gap, amount = (entry[0] for entry in fixed)
    reach = (taps - 1) * gap + 1
    # the last window begins inside the tensor or in the padding before it
    fit, begin = 2 * amount - reach + step - 1, amount - 1
    counts = tuple(min((entry + fit) // step, (entry + begin) // step) + 1 for entry in size)
    if counts == over.counts[dim]:
        name = f"out_{_WORDS[len(over.counts)][dim]}"
        template = f"min(({{0}} + {fit}) // {step}, ({{0}} + {begin}) // {step}) + 1"
        builder.formula(counts, template, size, name=name)
        template = f"max({{0}} + {2 * amount}, {step} * {{1}} + {reach - step})"
        builder.formula(wide, template, size, counts, name="padded")


def padded(builder: Builder, name: str, over: Windows, value: Operand) -> str:
    """Pad the last dimensions on both sides, and further at the end if the last window extends beyond."""
    shape = builder.shape(name)
    lead = len(shape) - len(over.taps)
    inner, reach = shape[lead:], over.reach()
    if all(is_constant(amount, 0) for amount in over.amounts) and all(
        all(r <= s for r, s in zip(*pair)) for pair in zip(reach, inner)
    ):
        return name
    sizes = tuple(tuple(max(s + 2 * a, r) for s, a, r in zip(*entries)) for entries in zip(inner, over.amounts, reach))
    for i, size in enumerate(sizes):
        _rounded_up_formulas(builder, inner[i], size, over, i)
    both = tuple(amount for amount in reversed(over.amounts) for _ in range(2))
    return pad(builder, name, both, value, (*shape[:lead], *sizes))


# -- pools ---------------------------------------------------------------------------------------------------------


def _pool_windows(builder: Builder, call: Call, name: str) -> Windows:
    rank = int(call.aligned.operator.split("pool")[1][0])
    if builder.get(name).dtype not in FLOATS:
        raise BeyondAuthor("pools of integers")
    taps = spatial(builder, call, "kernel_size", rank)
    return Windows(
        taps=taps,
        steps=spatial(builder, call, "stride", rank) if call.aligned.arguments.get("stride") else taps,
        spread=spatial(builder, call, "dilation", rank, 1),
        amounts=spatial(builder, call, "padding", rank, 0),
        counts=call.shape[len(call.shape) - rank :],
    )


def _taps_of(builder: Builder, seen: str, over: Windows) -> range:
    rank = len(builder.shape(seen))
    return range(rank - len(over.taps), rank)


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(builder: Builder, call: Call) -> list[str]:
    name = call.tensor("self")
    over = _pool_windows(builder, call, name)
    seen = windows(builder, padded(builder, name, over, builder.number(-math.inf)), over)
    made = [builder.reduce("max", seen, _taps_of(builder, seen, over))]
    if call.aligned.node.output_name(1) in builder.used:
        made.append(_where_largest(builder, seen, over, builder.shape(name)))
    return made


def _where_largest(builder: Builder, seen: str, over: Windows, image: Shape) -> str:
    """Return the position of each window's maximum in the flattened image."""
    rank, shape = len(over.taps), builder.shape(seen)
    lead = len(shape) - 2 * rank
    flat = builder.reshape(seen, (*shape[: lead + rank], product(over.taps, builder.width)))
    tap = builder.reduce("argmax", flat, (lead + rank,), dtype="int64")
    made, whole = "", "int64"
    for dim in range(rank):
        inner = builder.number_of(product(over.taps[dim + 1 :], builder.width))
        own = tap if dim == rank - 1 else builder.point("int_trunc_div", tap, inner, dtype=whole, hint="tap")
        if dim:
            own = builder.point("int_mod", own, builder.number_of(over.taps[dim]), dtype=whole, hint="tap")
        if not is_constant(over.spread[dim], 1):
            own = builder.point("mul", own, builder.number_of(over.spread[dim]), dtype=whole)
        before = builder.number_of(tuple(-amount for amount in over.amounts[dim]))
        first = builder.iota(over.counts[dim], start=before, step=builder.number_of(over.steps[dim]))
        behind = tuple(builder.one() for _ in range(rank - dim - 1))
        first = builder.reshape(first, (over.counts[dim], *behind))
        place = builder.point("add", first, own, dtype=whole, hint="place")
        if not is_constant(over.amounts[dim], 0):
            place = _moved_inside(builder, place, over.spread[dim])
        if made:
            made = builder.point("mul", made, builder.number_of(image[len(image) - rank + dim]), dtype=whole)
            made = builder.point("add", made, place, dtype=whole, hint="place")
        else:
            made = place
    return made


def _moved_inside(builder: Builder, place: str, spread: Size) -> str:
    """Return the place, or that of the first tap in the image if it lies before it: all of the window is -inf then."""
    below = builder.point("lt", place, builder.number(0), dtype="bool", compute="int64")
    first: Operand = builder.number(0)
    if not is_constant(spread, 1):
        first = builder.point("int_mod", place, builder.number_of(spread), dtype="int64")
    return builder.where(below, first, place, "int64", hint="place")


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(builder: Builder, call: Call) -> str:
    name = call.tensor("self")
    over = _pool_windows(builder, call, name)
    seen = windows(builder, padded(builder, name, over, builder.number(0.0)), over)
    total = builder.reduce("sum", seen, _taps_of(builder, seen, over), dtype=call.dtype)
    return builder.point("div", total, _counted(builder, call, name, over), dtype=call.dtype, hint="mean")


def _counted(builder: Builder, call: Call, name: str, over: Windows) -> Operand:
    """Return the divisor of the sum over a window."""
    if call.has("divisor_override"):
        return call.operand("divisor_override")
    whole = not call.plain("ceil_mode", False)
    if whole and (call.plain("count_include_pad", True) or all(is_constant(a, 0) for a in over.amounts)):
        return builder.count(over.taps)
    shape = builder.shape(name)
    lead = len(shape) - len(over.taps)
    ones = builder.full(1.0, shape, call.dtype)
    if call.plain("count_include_pad", True):
        inner = tuple(plus(size, plus(amount, amount)) for size, amount in zip(shape[lead:], over.amounts))
        ones = builder.full(1.0, (*shape[:lead], *inner), call.dtype)
        over = dataclasses.replace(over, amounts=tuple(constant(0, builder.width) for _ in over.amounts))
    seen = windows(builder, padded(builder, ones, over, builder.number(0.0)), over)
    return builder.reduce("sum", seen, _taps_of(builder, seen, over), dtype=call.dtype, hint="count")


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_avg_pool(builder: Builder, call: Call) -> str:
    """Return means over windows; if window sizes differ, take means along one dimension after another."""
    name, rank = call.tensor("self"), _adaptive_rank(call)
    folded = _folded(builder, call, name, rank)
    if folded is not None:
        return builder.mean(*folded, dtype=call.dtype)
    for dim in range(len(call.shape) - rank, len(call.shape)):
        seen, inside, length = _uneven(builder, name, dim, call.shape[dim])
        seen = builder.where(inside, seen, builder.number(0.0), call.dtype)
        total = builder.reduce("sum", seen, (dim + 1,), dtype=call.dtype)
        name = builder.point("div", total, length, dtype=call.dtype, hint="mean")
    return name


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(builder: Builder, call: Call) -> list[str]:
    name, rank = call.tensor("self"), _adaptive_rank(call)
    folded = _folded(builder, call, name, rank)
    if folded is not None:
        return [builder.reduce("max", *folded)]
    for dim in range(len(call.shape) - rank, len(call.shape)):
        seen, inside, _ = _uneven(builder, name, dim, call.shape[dim])
        seen = builder.where(inside, seen, builder.number(-math.inf), call.dtype)
        name = builder.reduce("max", seen, (dim + 1,))
    return [name]


def _adaptive_rank(call: Call) -> int:
    return 3 if "3d" in call.aligned.operator else 1 if "1d" in call.aligned.operator else 2


def _folded(builder: Builder, call: Call, name: str, rank: int) -> tuple[str, list[int]] | None:
    """Reshape windows of equal size to dimensions of their own; None if the sizes do not divide."""
    if builder.get(name).dtype not in FLOATS:
        raise BeyondAuthor("pools of integers")
    shape = builder.shape(name)
    folded: list[Size] = list(shape[: len(shape) - rank])
    dims = []
    for size, count in zip(shape[len(shape) - rank :], call.shape[len(call.shape) - rank :]):
        if not divides(count, size):
            return None
        folded += [count, quotient(size, count)]
        dims.append(len(folded) - 1)
    return builder.reshape(name, tuple(folded)), dims


def _uneven(builder: Builder, name: str, dim: int, count: Size) -> tuple[str, str, str]:
    """Return windows of different sizes along one dimension: elements, a mask of valid ones, and their number."""
    shape = builder.shape(name)
    size, one, whole = shape[dim], builder.one(), "int64"

    def times(a: str, number: Size, more: Size) -> str:
        """Return a * number + more, divided by the number of windows."""
        made = builder.point("mul", a, builder.number_of(number), dtype=whole)
        made = builder.point("add", made, builder.number_of(more), dtype=whole)
        return builder.point("int_trunc_div", made, builder.number_of(count), dtype=whole)

    longest = tuple((s + c - 1) // c + 1 for s, c in zip(size, count))
    builder.formula(longest, "({0} + {1} - 1) // {1} + 1", size, count, name="longest")
    window = builder.reshape(builder.iota(count), (count, one))
    first, last = times(window, size, constant(0, builder.width)), times(window, size, plus(size, minus(count, one)))
    place = builder.point("add", first, builder.iota(longest), dtype=whole)
    inside = builder.point("lt", place, last, dtype="bool", compute=whole)
    edge = builder.number_of(minus(size, one))
    found = take(builder, name, builder.point("minimum", place, edge, dtype=whole), dim)
    behind = tuple(one for _ in shape[dim + 1 :])
    inside = builder.reshape(inside, (count, longest, *behind))
    length = builder.point("sub", last, first, dtype=whole)
    return found, inside, builder.reshape(builder.cast(length, builder.get(name).dtype), (count, *behind))


@lowers("unfold")
def _unfold(builder: Builder, call: Call) -> str:
    """Return windows along one dimension; their elements become the last dimension."""
    name, dim = call.tensor("self"), int(call.plain("dimension"))
    rank, one = len(builder.shape(name)), builder.one()
    dim %= rank
    over = Windows(
        taps=(builder.size(call.aligned.arguments["size"]),),
        steps=(builder.size(call.aligned.arguments["step"]),),
        spread=(one,),
        amounts=(constant(0, builder.width),),
        counts=(call.shape[dim],),
    )
    seen = windows(builder, builder.permute(name, [*(i for i in range(rank) if i != dim), dim]), over)
    back = list(range(rank - 1))
    back.insert(dim, rank - 1)
    return builder.permute(seen, [*back, rank])


@lowers("as_strided")
def _frames(builder: Builder, call: Call) -> str:
    """Return overlapping windows of rows, as `torch.stft` cuts them. Other strides are left to torch, as views are."""
    name, arguments = call.tensor("self"), call.aligned.arguments
    shape, strides = builder.shape(name), [builder.size(stride) for stride in arguments["stride"]]
    if len(call.shape) != len(shape) + 1 or call.shape[:-2] != shape[:-1] or arguments.get("storage_offset"):
        raise BeyondAuthor("no rule")
    count, taps, step = *call.shape[-2:], strides[-2]
    dense = [product(shape[dim + 1 :], builder.width) for dim in range(len(shape) - 1)]
    fitting = tuple((size - tap) // by + 1 for size, tap, by in zip(shape[-1], taps, step))
    if [*strides[:-2], strides[-1]] != [*dense, builder.one()] or count != fitting:
        raise BeyondAuthor("no rule")
    none = constant(0, builder.width)
    over = Windows(taps=(taps,), steps=(step,), spread=(builder.one(),), amounts=(none,), counts=(count,))
    return windows(builder, name, over)


@lowers("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _upsample(builder: Builder, call: Call) -> str:
    """Repeat elements along each dimension if the sizes are multiples; otherwise look them up."""
    name = call.tensor("self")
    shape = builder.shape(name)
    apart, spread = list(shape[:2]), list(shape[:2])
    for size, wanted in zip(shape[2:], call.shape[2:]):
        if not divides(size, wanted):
            return nearest(builder, call, 0.0)
        apart += [size, builder.one()]
        spread += [size, quotient(wanted, size)]
    return builder.reshape(builder.expand(builder.reshape(name, tuple(apart)), tuple(spread)), call.shape)


# -- convolutions --------------------------------------------------------------------------------------------------


@lowers("convolution")
def _convolution(builder: Builder, call: Call) -> str:
    name, weight = call.tensor("input"), call.tensor("weight")
    shape, taps = builder.shape(name), builder.shape(weight)
    rank = len(shape) - 2
    groups = builder.size(call.aligned.arguments.get("groups") or 1)
    if rank < 1 or len(taps) != rank + 2:
        raise BeyondAuthor("a convolution without a batch")
    over = Windows(
        taps=taps[2:],
        steps=spatial(builder, call, "stride", rank),
        spread=spatial(builder, call, "dilation", rank),
        amounts=spatial(builder, call, "padding", rank),
        counts=call.shape[2:],
    )
    own = quotient(shape[1], groups)
    per_channel = is_constant(own, 1) and not is_constant(groups, 1) and call.shape[1] == shape[1]
    by_taps = not per_channel and own[0] >= FEW_CHANNELS
    if _takes_rows_of_taps(builder, name, over, own, groups, call):
        name, weight = (_with_channels_in_fours(builder, operand) for operand in (name, weight))
        by_taps = True
    if call.plain("transposed", False):
        if builder.library:
            raise BeyondAuthor("a transposed convolution")
        made = _by_remainders(builder, name, weight, over, groups, call)
        if made is not None:
            return made
        name, weight, over = _by_spread_input(builder, name, weight, over, groups)
    lays = by_taps and not _reads_pixels(over, call)
    name = padded(builder, name, over, builder.number(0.0))
    if lays:
        name = _channels_last(builder, name, rank)
    seen = windows(builder, name, over)
    if per_channel:
        made = _per_channel(builder, seen, weight, rank, call)
    else:
        cut = not by_taps and _cuts_unaligned(builder, name, over)
        made = _as_product(builder, seen, weight, rank, groups, by_taps=by_taps, dtype=call.dtype, is_copied=cut)
    return _biased(builder, made, rank, call)


def _cuts_unaligned(builder: Builder, name: str, over: Windows) -> bool:
    """Return True for windows without overlap whose lines are no multiple of 16 bytes, such as patches of 14 pixels.

    The matrix unit would get them element by element, so a kernel puts each of them into a row of its own.
    """
    line = over.taps[-1][0] * ITEM_BYTES.get(builder.get(name).dtype, 1)
    apart = all(is_constant(spread, 1) for spread in over.spread)
    return over.steps == over.taps and apart and line % ALIGNED_BYTES != 0


def _takes_rows_of_taps(builder: Builder, name: str, over: Windows, own: Size, groups: Size, call: Call) -> bool:
    """Return True if neighbouring taps with few channels fill a step together, after a copy that makes them adjacent.

    Not for windows without overlap, as in patch embedding: each element is read once, so the copy costs as much as it
    saves.
    """
    if call.plain("transposed", False) or not is_constant(groups, 1) or not 1 < own[0] < FEW_CHANNELS:
        return False
    if over.steps == over.taps:
        return False
    beside = is_constant(over.spread[-1], 1) and is_constant(over.taps[-1])
    return beside and over.taps[-1][0] * own[0] >= FEW_CHANNELS and _is_given(builder, name)


def _with_channels_in_fours(builder: Builder, name: str) -> str:
    """Return the tensor with channels padded by zeros to a multiple of four, so that each pixel is aligned to 16
    bytes.
    """
    shape, none = builder.shape(name), constant(0, builder.width)
    wide = tuple(-(-size // 4) * 4 for size in shape[1])
    if wide == shape[1]:
        return name
    if not is_constant(wide):
        builder.formula(wide, "-(-{0} // 4) * 4", shape[1], name="wide_channels")
    behind = (*(none for _ in range(2 * (len(shape) - 2) + 1)), minus(wide, shape[1]))
    return pad(builder, name, behind, builder.number(0.0), (shape[0], wide, *shape[2:]))


def _is_given(builder: Builder, name: str) -> bool:
    """Return True if a value is in memory before the first kernel, up to views and padding."""
    base = builder.get(name)
    while base.operation in (*VIEWS, "pad"):
        base = builder.get(base.inputs[0])
    return base.operation in ("source", "torch")


def _biased(builder: Builder, made: str, rank: int, call: Call) -> str:
    if not call.has("bias"):
        return made
    channels = (builder.shape(call.tensor("bias"))[0], *(builder.one() for _ in range(rank)))
    return builder.point("add", made, builder.reshape(call.tensor("bias"), channels), dtype=call.dtype)


def _reads_pixels(over: Windows, call: Call) -> bool:
    """Return True if a convolution with a single tap reads its input in the layout it has, without a copy.

    The matrix unit takes half precision in either layout. In float32 a tile must be transposed on its way, which with
    many output channels takes longer than a copy.
    """
    single = all(is_constant(size, 1) for size in (*over.taps, *over.steps))
    return single and (call.dtype in HALF or call.shape[1][0] <= FEW_RESULTS)


def _by_remainders(builder: Builder, name: str, weight: str, over: Windows, groups: Size, call: Call) -> str | None:
    """Lower a transposed convolution to plain ones with step 1, whose results are interleaved.

    Results whose positions have equal remainders modulo the stride use the same taps. If every remainder has equally
    many taps, one convolution computes all remainders as channels. Otherwise each remainder gets its own convolution:
    if missing taps were filled with zeros, an infinity in the input would become NaN. Returns None if the sizes do not
    allow it.
    """
    shape, rank = builder.shape(name), len(over.taps)
    fixed = all(is_constant(size) for size in (*over.taps, *over.steps, *over.spread, *over.amounts))
    if not fixed or not is_constant(groups, 1) or not all(is_constant(gap, 1) for gap in over.spread):
        return None
    one = builder.one()
    taps = tuple(tuple(-(-t // s) for t, s in zip(*pair)) for pair in zip(over.taps, over.steps))
    counts = tuple(plus(size, minus(t, one)) for size, t in zip(shape[2:], taps))
    reach = zip(over.amounts, call.shape[2:], counts, over.steps)
    if any(a + out > count * s for entry in reach for a, out, count, s in zip(*entry)):
        return None  # results beyond the last tap
    even = all(divides(step, tap) for step, tap in zip(over.steps, over.taps))
    remainders = 1 if even else product(over.steps, 1)[0]
    if remainders > MOST_REMAINDERS:
        return None
    for size, count, t, word in zip(shape[2:], counts, taps, _WORDS.get(rank, ())):
        if t[0] > 1:
            builder.formula(count, f"{{0}} + {t[0] - 1}", size, name=f"coarse_{word}")
    out = builder.shape(weight)[1]
    ones = tuple(one for _ in range(rank))
    flat = Windows(taps=taps, steps=ones, spread=ones, amounts=tuple(minus(t, one) for t in taps), counts=counts)
    by_taps = shape[1][0] >= FEW_CHANNELS
    name = padded(builder, name, flat, builder.number(0.0))
    name = _channels_last(builder, name, rank) if by_taps else name

    def plain(turned: str, reached: Shape) -> str:
        """Convolve with the weights of one remainder, which may have fewer taps than `flat`."""
        seen = name
        for dim, (most, t, count) in enumerate(zip(taps, reached, counts), 2):
            seen = builder.slice(seen, dim, minus(most, t), plus(count, minus(t, one)))
        seen = windows(builder, seen, dataclasses.replace(flat, taps=reached))
        return _as_product(builder, seen, turned, rank, groups, by_taps=by_taps, dtype=call.dtype)

    beside = over.steps[-1][0] >= BESIDE
    if even:
        made = plain(_remainders_as_channels(builder, weight, taps, over.steps, beside=beside), taps)
        lead = (out, *over.steps) if beside else (*over.steps, out)
        made = builder.reshape(made, (shape[0], *lead, *counts))
        first, channels = (2, 1) if beside else (1, rank + 1)
        order = (0, channels, *(n for dim in range(rank) for n in (rank + 2 + dim, first + dim)))
    else:
        pieces = []
        for firsts in itertools.product(*(range(step[0]) for step in over.steps)):
            sizes = zip(over.taps, firsts, over.steps)
            reached = tuple(constant(max(0, -(-(t[0] - f) // s[0])), builder.width) for t, f, s in sizes)
            if any(is_constant(t, 0) for t in reached):
                piece = builder.full(0.0, (shape[0], out, *counts), call.dtype)
            else:
                piece = plain(_taps_of_remainder(builder, weight, firsts, reached, over.steps), reached)
            pieces.append(builder.unsqueeze(piece, 0))
        joined = (product(over.steps, builder.width), shape[0], out, *counts)
        made = concat(builder, pieces, 0, joined)
        made = builder.reshape(made, (*over.steps, shape[0], out, *counts))
        order = (rank, rank + 1, *(n for dim in range(rank) for n in (rank + 2 + dim, dim)))
    fine = tuple(product(pair, builder.width) for pair in zip(counts, over.steps))
    is_cut = fine != call.shape[2:]
    if even and not beside and is_cut and call.dtype not in HALF:  # a further kernel reads the results anyway
        builder.store_apart(made)
    made = builder.reshape(builder.permute(made, order), (shape[0], out, *fine))
    if is_cut and call.dtype in HALF:  # the product then stores its results in half precision
        made = _biased(builder, made, rank, call)
    for dim, (amount, size) in enumerate(zip(over.amounts, call.shape[2:]), 2):
        made = builder.slice(made, dim, amount, size)
    return made if is_cut and call.dtype in HALF else _biased(builder, made, rank, call)


def _remainders_as_channels(builder: Builder, weight: str, taps: Shape, steps: Shape, *, beside: bool) -> str:
    """Return a weight [in, out, *taps] as [*steps * out, in, *taps of one remainder, reversed].

    With `beside`, the remainders of an output channel are neighbours: [out * *steps, ...].
    """
    rank, one = len(taps), builder.one()
    taken, out = builder.shape(weight)[:2]
    apart = builder.reshape(weight, (taken, out, *(n for pair in zip(taps, steps) for n in pair)))
    for dim, t in enumerate(taps):
        apart = builder.slice(apart, 2 + 2 * dim, minus(t, one), t, -1) if t[0] > 1 else apart
    remainders = range(3, 3 + 2 * rank, 2)
    results_first = (1, *remainders) if beside else (*remainders, 1)
    order = (*results_first, 0, *range(2, 2 + 2 * rank, 2))
    results = product((*steps, out), builder.width)
    return builder.reshape(builder.permute(apart, order), (results, taken, *taps))


def _taps_of_remainder(builder: Builder, weight: str, firsts: Sequence[int], taps: Shape, steps: Shape) -> str:
    """Return a weight [in, out, *taps] as [out, in, *taps of this remainder, reversed]."""
    for dim, (first, t, step) in enumerate(zip(firsts, taps, steps), 2):
        last = constant(first + (t[0] - 1) * step[0], builder.width)
        weight = builder.slice(weight, dim, last, t, -step[0])
    return builder.swap(weight, 0, 1)


def _by_spread_input(builder: Builder, name: str, weight: str, over: Windows, groups: Size) -> tuple[str, str, Windows]:
    """Lower a transposed convolution to a plain one: elements spaced by the stride with zeros between, and reversed
    taps.

    Most products are with zero, so this is used only where torch may not be called.
    """
    shape, rank = builder.shape(name), len(over.taps)
    if not all(is_constant(step) for step in over.steps):
        raise BeyondAuthor("a stride that changes with the sizes")
    for dim, step in enumerate(over.steps, 2):
        if not is_constant(step, 1):
            name = _spread_out(builder, name, dim, step)
    before = [
        tuple((t - 1) * gap - a for t, gap, a in zip(*entries)) for entries in zip(over.taps, over.spread, over.amounts)
    ]
    ones = tuple(builder.one() for _ in range(rank))
    flat = dataclasses.replace(over, steps=ones, amounts=tuple(constant(0, builder.width) for _ in range(rank)))
    amounts = tuple(amount for amount in reversed(before) for _ in range(2))
    name = pad(builder, name, amounts, builder.number(0.0), (*shape[:2], *flat.reach()))
    for dim, tap in enumerate(over.taps, 2):
        weight = builder.slice(weight, dim, tuple(t - 1 for t in tap), tap, -1)
    taken, made = builder.shape(weight)[:2]
    apart = builder.reshape(weight, (groups, quotient(taken, groups), made, *over.taps))
    turned = builder.swap(apart, 1, 2)
    return (
        name,
        builder.reshape(turned, (product((groups, made), builder.width), quotient(taken, groups), *over.taps)),
        flat,
    )


def _spread_out(builder: Builder, name: str, dim: int, step: Size) -> str:
    """Return the tensor with each element followed by zeros up to the step."""
    shape = builder.shape(name)
    apart = builder.reshape(name, (*shape[: dim + 1], builder.one(), *shape[dim + 1 :]))
    wide = (*shape[: dim + 1], step, *shape[dim + 1 :])
    none = constant(0, builder.width)
    behind = [none] * (2 * (len(wide) - dim - 1))
    behind[-1] = tuple(entry - 1 for entry in step)
    filled = pad(builder, apart, tuple(behind), builder.number(0.0), wide)
    return builder.reshape(filled, (*shape[:dim], product((shape[dim], step), builder.width), *shape[dim + 1 :]))


def _channels_last(builder: Builder, name: str, rank: int) -> str:
    """Return a model input with its channels innermost in memory; values that kernels store get their layout in `plan`.

    The matrix unit reads contiguous elements along the inner dimension. With channels innermost, every tap is
    contiguous, without a division or a mask per element.
    """
    return builder.laid_out(name, (0, *range(2, rank + 2), 1)) if _is_given(builder, name) else name


def _weight_by_taps(builder: Builder, weight: str, rank: int) -> str:
    """Return the weight with the memory order [out, *taps, in]; for a parameter, the host transposes it once."""
    value, order = builder.get(weight), (0, *range(2, rank + 2), 1)
    single = all(is_constant(size, 1) for size in value.shape[2:])
    if single and not builder.rounds_to_tf32(value.dtype):
        return builder.permute(weight, order)
    if value.operation == "source" and value.function.startswith("p:") and weight not in builder.program.strides:
        return builder.prepared_by_taps(weight)
    return builder.permute(builder.laid_out(weight, order), order)


def _as_product(
    builder: Builder,
    seen: str,
    weight: str,
    rank: int,
    groups: Size,
    *,
    by_taps: bool,
    dtype: str,
    is_copied: bool = False,
) -> str:
    """Lower a convolution to a matrix product per group: pixels by window elements, times the weight.

    With `by_taps`, the inner dimension goes tap by tap with adjacent channels; otherwise channel by channel, which
    suits few channels. With `is_copied`, the pixels by window elements are stored first.
    """
    shape, taps = builder.shape(seen), builder.shape(weight)
    own, made_by, inner = taps[1], quotient(taps[0], groups), product(taps[1:], builder.width)
    counts = shape[2 : 2 + rank]
    pixels = product((shape[0], *counts), builder.width)
    apart = builder.reshape(seen, (shape[0], groups, own, *shape[2:]))
    positions, tap_dims = range(3, 3 + rank), range(3 + rank, 3 + 2 * rank)
    rows = builder.permute(apart, (1, 0, *positions, *((*tap_dims, 2) if by_taps else (2, *tap_dims))))
    if by_taps:
        weight = _weight_by_taps(builder, weight, rank)
    lead = () if is_constant(groups, 1) else (groups,)
    rows = builder.reshape(rows, (*lead, pixels, inner))
    if is_copied:
        rows = builder.laid_out(rows, range(len(lead) + 2))
    columns = builder.swap(builder.reshape(weight, (*lead, made_by, inner)), -2, -1)
    made = multiply(builder, rows, columns, dtype, of_convolution=True)
    made = builder.reshape(made, (groups, shape[0], *counts, made_by))
    return builder.reshape(builder.permute(made, (1, 0, rank + 2, *range(2, rank + 2))), (shape[0], taps[0], *counts))


def _per_channel(builder: Builder, seen: str, weight: str, rank: int, call: Call) -> str:
    taps = builder.shape(weight)
    ones = tuple(builder.one() for _ in range(rank))
    weighted = builder.point(
        "mul", seen, builder.reshape(weight, (taps[0], *ones, *taps[2:])), dtype=call.dtype, hint="weighted"
    )
    return builder.reduce("sum", weighted, tuple(range(2 + rank, 2 + 2 * rank)), dtype=call.dtype)
