"""Changes of inputs to values at which operators behave specially; `directed.py` says which apply to which operators.

Each change works in place. The last argument counts how often the reference refused: each time, change less.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Set

import numpy
import torch

from triton_agent.tools.cases.feeds import Feed
from triton_agent.tools.cases.whole_numbers import LARGE, SMALL, is_in_order
from triton_agent.tools.graph.operator_groups import (
    ATTENTION,
    CANCELLING,
    COUNTED_FROM_THE_END,
    KEEPING_WHOLE,
    NORMS,
    PEAKED,
    PERIODIC,
    PRODUCTS,
    QUIET,
    SCALING,
    WHOLE_OPERATORS,
)
from triton_agent.tools.graph.operators import bare_name, words
from triton_agent.tools.graph.values import references_in

LEAST_WIDTH_OF_RUNS, RUNS_AT_MOST = 8, 64
"""Least width of rows of flags in which runs are cleared, and maximum number of such rows."""
COUNTED_BACK_SHARE = 0.5
"""Share of indices that are counted from the end, if the operator allows it: at full size some fifteen rows are looked
at."""
IGNORED = -100
"""The label that torch's losses ignore by default."""
FLIPPED_SHARES = (1 / 3, 1 / 16, 1 / 64)
"""Share of large whole numbers whose bits are flipped, and the smaller ones after refusals."""
NEAR_LIMITS = 100
"""Distance from the limits of a dtype within which the whole numbers of a row are drawn."""
FEWEST_LINES = 4
"""Smallest number of samples or columns of which one is filled with an infinity."""
NEAR_END, ENDS_SHARE, FEWEST_FOR_ENDS = 0.05, 1 / 8, 8
"""Largest distance from an end of the range, as a share of it, that tells it; the share of elements that are set to
each end; and the smallest number of elements that tell a range."""
MASKED_ROWS, MASKED_OF_MANY, MANY_ROWS = 16, 5, 256
"""One row in so many has all its flags set, and another one has them cleared; the second holds from so many rows on, of
which few may be looked at."""
TURN = 8
"""Rows in which an input made from another one takes each way once, while the other input keeps its signs, or has none.
"""
BEYOND_HALF = 2.0**20
"""Factor that takes ordinary numbers far beyond 65504, the largest number of float16."""
SPREADS_AWAY = {torch.float16: 30.0, torch.bfloat16: 4.0}
"""Distance of the mean from zero in standard deviations; 1000 in float32, where E[x²] - E[x]² loses 20 of 24 bits."""
BEYOND_EXP = 120.0
"""The exponential overflows float32 at this number and is zero at its negative."""
HUGE = {torch.float16: 3e3}
"""Largest magnitude whose square can still be summed; 1e15 for other dtypes."""
HUGE_SCORE = 1e3
"""Largest magnitude if a softmax works on products. A compiler fuses the last product with the subtraction of the peak,
so the largest score errs by its own rounding: at 1e15 that exceeds the range of the exponential."""
TINY = {torch.float16: 1e-6}
"""Small magnitude: denormal in float16. In other dtypes (1e-30) the squares underflow to zero."""
FAINT_POWERS = (-3.5, -5.0, -6.5, -8.0, -9.5, -11.0, -12.5, -14.0)
"""Factors for rows as powers of ten. Near each epsilon in common use, such as 1e-5, there is one."""
TINY_DEVIATION = 1e-15
"""Small magnitude if variances are computed. On a CPU torch sums squares in double and still finds the deviation of
1e-30, which underflows in a float32 kernel; dividing by it would give a number in one and NaN in the
other."""


SIGNED_ZEROS = words("div true_divide reciprocal rsqrt pow atan2 copysign signbit log")
"""Operators whose result depends on the sign of a zero."""


def quantise_half(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Give every second sample few distinct values, with the largest and the smallest repeated many times.

    The largest of some are zeros of both signs, which are equal, and the smallest of others.
    """
    part = _every_second(tensor, 0)
    if tensor.is_floating_point():
        values = part.float()
        step = float(values.std()) / 2 if values.numel() > 1 else 0.0
        if step > 0 and math.isfinite(step):
            middle = float(values.mean())
            part.copy_(((values - middle) / step).round().clamp(-3, 3) * step + middle)
        if len(part) > 2 and not refused and not feed.reach.operators & SIGNED_ZEROS:
            for some, limits in ((part[1::4], {"max": 0.0}), (part[2::4], {"min": 0.0})):
                some.clamp_(**limits)
                some.copy_(torch.where((some == 0) & _some(some, generator, 0.75), -0.0, some))
    elif part.numel():
        ordered = part.reshape(-1).sort().values
        part.clamp_(int(ordered[len(ordered) // 4]), int(ordered[3 * len(ordered) // 4]))


def half_way(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set elements to integers, halves and their neighbours, in the units in which the operator rounds."""
    part = _every_second(tensor, 1) if feed.picked else tensor
    if not part.numel():
        return
    if feed.boundaries is not None:
        at = torch.randint(feed.boundaries.numel(), part.shape, generator=generator).to(part.device)
        part.copy_(_nudged_by_a_unit(feed.boundaries.reshape(-1).to(part)[at], generator))
        return
    if feed.scale is None:  # a 127 in each row makes a scale of max / 127 equal to one
        halves = torch.randint(-253, 254, part.shape, generator=generator).to(part) / 2
        part.copy_(halves)
        if part.dim():
            part.select(-1, 0).fill_(127.0)
        return
    whole = (part.double() * feed.scale + feed.shift).floor().clamp(-(2.0**20), 2.0**20)
    added = torch.randint(0, 2, part.shape, generator=generator).to(part.device) / 2
    part.copy_(_nudged_by_a_unit(((whole + added - feed.shift) / feed.scale).to(part.dtype), generator))


def half_way_pixels(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set half of the coordinates of places to numbers half-way between two pixels."""
    for coordinate, row in enumerate(feed.boundaries if feed.boundaries is not None else ()):
        between = row[~row.isnan()].to(tensor)
        if len(between) and coordinate < tensor.shape[-1]:
            part = tensor[..., coordinate]
            drawn = between[torch.randint(len(between), part.shape, generator=generator).to(part.device)]
            part.copy_(torch.where(_some(part, generator, 0.5), drawn, part))


def make_from_another(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Make rows of an input from those of another one, or of a parameter: equal, opposite, a half, one more, and so on.

    In every second sample all rows are made in the same way. Values stay within a range that ends at one. The other
    input first gets as many positive rows as it keeps, in turns. After a refusal fewer ways are taken.
    """
    low, high = float(tensor.min()), float(tensor.max())
    low, high = (low, high) if low >= -1 and high <= 1 else (-math.inf if low < 0 else 0.0, math.inf)
    rows = tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1).clone()
    in_sample = len(rows) // len(tensor) if tensor.dim() > 2 else 1
    at = torch.arange(len(rows))
    first = int(torch.randint(TURN, (), generator=generator))
    other = feed.boundaries
    if other is None:
        positive = ((at // TURN + first) % 2 == 0).to(tensor.device)
        rows[positive] = rows[positive].abs()
        tensor.copy_(rows.reshape(tensor.shape).clamp(low, high))
        return
    half = rows.shape[-1] // 2
    given = other.reshape(rows.shape)
    ways = [given.sort(-1).values, torch.cat([given[:, :half], rows[:, half:]], -1), given / 2, given, given + 1]
    ways += [-given] if low < 0 < high else []
    ways = ways[: (len(ways), 4, 2)[min(refused, 2)]]
    sample = at // in_sample
    turn = (at if in_sample == 1 else torch.where(sample % 2 == 0, at, sample // 2)) + first
    for k, way in enumerate(ways):
        chosen = (turn % (len(ways) + 1) == k).to(tensor.device)
        rows[chosen] = way[chosen].clamp(low, high)
    tensor.copy_(rows.reshape(tensor.shape))


def meet_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set a quarter of the elements equal to the values they are compared with."""
    if feed.numbers:
        at = torch.randint(len(feed.numbers), tensor.shape, generator=generator)
        met = torch.tensor(feed.numbers, dtype=torch.float64)[at].to(tensor)
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), met, tensor))
    if feed.boundaries is None or not feed.scale:
        return
    with contextlib.suppress(RuntimeError):  # the comparison uses another shape
        other = feed.boundaries.to(tensor.device).expand(tensor.shape)
        equal = (other.double() - feed.shift) / feed.scale
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), equal.to(tensor.dtype), tensor))


def _nudged_by_a_unit(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the values with two thirds of them moved to the next number up or down."""
    way = torch.randint(-1, 2, values.shape, generator=generator).to(values.device)
    moved = torch.nextafter(values, torch.where(way > 0, math.inf, -math.inf).to(values))
    return torch.where(way == 0, values, moved)


def set_whole_offset(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Move the mean far from zero, without changing the spread."""
    spread = float(tensor.float().std()) if tensor.numel() > 1 else 0.0
    away = SPREADS_AWAY.get(tensor.dtype, 1000.0) / (1, 8, 64)[min(refused, 2)]
    tensor.add_(away * (spread or 1.0))


def _in_lines(tensor: torch.Tensor, feed: Feed) -> tuple[torch.Tensor, torch.Size]:
    """Return a view whose first dimensions number the lines that the operator reduces, and the sizes of these.

    Lines are rows if it is not known what is reduced.
    """
    inner = feed.reduced or {tensor.dim() - 1}
    outer = [dim for dim in range(tensor.dim()) if dim not in inner]
    lines = tensor.permute([*outer, *(dim for dim in range(tensor.dim()) if dim in inner)])
    return lines, lines.shape[: len(outer)]


def set_rows_off(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Shift lines so that their exponentials overflow, or are all zero, unless the peak is subtracted first.

    Of scores beyond some thousands, the rounding errors of float32 alone show in the exponentials.
    """
    offset = 2 * math.sqrt(BEYOND_EXP) if feed.squared else BEYOND_EXP
    lines, outer = _in_lines(tensor, feed)
    signs = 1 - 2 * (torch.arange(outer.numel()) % 2)
    if bool((tensor >= 0).all()):
        signs = signs.abs()
    lines.add_((offset * signs).reshape(*outer, *(1 for _ in lines.shape[len(outer) :])).to(tensor))


def limit_rows(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Make one line zero, one constant, one huge and one tiny; other lines stay as they are.

    After a refusal no line is huge, and none is zero or none is tiny. In half of the cases all inputs with as many
    lines have these in the same places.
    """
    lines, outer = _in_lines(tensor, feed)
    if generator.initial_seed() % 2:
        generator = torch.Generator().manual_seed(generator.initial_seed() + outer.numel())
    count = outer.numel()
    if tensor.dim() == 0 or count == 1:
        return
    asked = [["zero", "equal", "huge", "tiny"], ["equal", "tiny"], ["zero", "equal"]][min(refused, 2)]
    if "huge" in asked and (feed.exists_beside & PERIODIC or feed.cast_to_whole):
        asked.remove("huge")
    if feed.exists_beside & NORMS:  # the norm of a constant row is one magnified rounding error of the mean
        asked.remove("equal")
    asked = asked[: max(1, count // 2)]
    chosen = torch.randperm(count, generator=generator)[: len(asked)].tolist()
    for what, line in zip(asked, chosen):
        values = lines[tuple(int(i) for i in numpy.unravel_index(line, outer))]
        if what == "zero":
            values.zero_()
        elif what == "equal":
            values.fill_(float(values.reshape(-1)[0]))
        elif what == "huge":
            huge = largest_asked(feed.exists_beside, tensor.dtype)
            values.mul_(huge / max(1.0, float(values.abs().max())))
        else:
            tiny = TINY_DEVIATION if feed.exists_beside & NORMS else 1e-30
            values.mul_(TINY.get(tensor.dtype, tiny))


def make_some_faint(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Multiply a third of the samples, or lines of them, by factors of many sizes.

    A small number that the reference adds to a length, or compares it with, counts where lengths are of its size only.
    """
    if tensor.dim() < 2 or tensor.dtype is torch.float16 or feed.reach.operators & CANCELLING:
        return
    axes = [0] if tensor.dim() == 2 else [0, tensor.dim() - 2, tensor.dim() - 1]
    samples = torch.randperm(tensor.shape[0], generator=generator).tolist()
    turns = torch.randperm(len(axes), generator=generator).tolist()
    for turn, axis in zip(turns, axes):
        for sample in samples[turn :: 3 * len(axes)]:
            size = 1 if axis == 0 else tensor.shape[axis]
            powers = torch.tensor(FAINT_POWERS)[torch.randint(len(FAINT_POWERS), (size,), generator=generator)]
            factors = torch.where(torch.rand(size, generator=generator) < 0.5, 1.0, 10.0**powers).to(tensor)
            tensor[sample].movedim(max(axis - 1, 0), -1).mul_(10.0 ** powers.to(tensor) if axis == 0 else factors)


def ends_of(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return -1, 0 and 1 as far as the elements come close to them, but lie neither on them nor beyond."""
    if tensor.numel() < FEWEST_FOR_ENDS or tensor.element_size() < 2:
        return ()
    low, high = float(tensor.min()), float(tensor.max())
    if not -1 <= low < high <= 1:
        return ()
    near = (high - low) * max(NEAR_END, 3 / tensor.numel())
    return tuple(end for end, own in ((math.floor(low), low), (math.ceil(high), high)) if 0 < abs(end - own) <= near)


def meet_ends(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set elements, and a row, to each end of the range; after a refusal elements only, to the upper or lower end."""
    ends = feed.numbers if not refused else feed.numbers[-1:] if refused == 1 else feed.numbers[:1]
    drawn = torch.rand(tensor.shape, generator=generator).to(tensor.device)
    for k, end in enumerate(ends):
        tensor.masked_fill_((drawn >= k * ENDS_SHARE) & (drawn < (k + 1) * ENDS_SHARE), end)
    rows = math.prod(tensor.shape[:-1])
    if rows < FEWEST_LINES or refused or feed.exists_beside & NORMS:  # the norm of equal numbers is rounding error
        return
    for end, row in zip(ends, torch.randperm(rows, generator=generator).tolist()):
        tensor[tuple(int(i) for i in numpy.unravel_index(row, tensor.shape[:-1]))] = end


def largest_asked(operators: Set[str], dtype: torch.dtype) -> float:
    """Return the largest magnitude of inputs at which correct kernels agree with a reference of these operators."""
    return HUGE_SCORE if makes_scores(operators) else HUGE.get(dtype, 1e15)


def makes_scores(operators: Set[str]) -> bool:
    """Return True if a softmax or a similar operator works on products."""
    return bool(operators & ATTENTION) or bool(operators & PEAKED and operators & (PRODUCTS | SCALING))


def negate_divided(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Negate a third of the operands of an integer division, which rounds down or toward zero."""
    if tensor.dtype is torch.uint8:
        return
    inputs = [name for name in references_in(feed.node.arguments) if name.startswith("x")]
    shifted = "shift" in bare_name(feed.node.operator) and inputs[:1] != [f"x{feed.position}"]
    if not shifted:
        tensor.copy_(torch.where(_some(tensor, generator, 1 / 3), -tensor, tensor))


def enlarge_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Move a fifth of the elements far from zero, those of 64 bits beyond 32, if they are only used in integer
    arithmetic."""
    large = LARGE.get(tensor.dtype)
    if large is None or is_index(feed) or feed.exists_beside - KEEPING_WHOLE - QUIET:
        return
    moved = tensor + torch.where(_some(tensor, generator, 0.5), large, -large)
    chosen = _some(tensor, generator, 0.2) & ~are_large(tensor)
    tensor.copy_(torch.where(chosen, moved, tensor))


def are_large(tensor: torch.Tensor) -> torch.Tensor:
    """Return which whole numbers are so large that they may stand for their bits, such as hashes and words of flags."""
    return (tensor >= SMALL) | (tensor <= -SMALL)


def flip_large(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Flip all bits of some large numbers, which also changes their sign; of fewer after a refusal."""
    chosen = _some(tensor, generator, FLIPPED_SHARES[min(refused, 2)]) & are_large(tensor)
    tensor.copy_(torch.where(chosen, ~tensor, tensor))


def reach_the_end(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Draw lengths or places anew, up to the last one; after a refusal change one of them only."""
    last = int(feed.numbers[0])
    if not refused:
        tensor.copy_(torch.randint(last // 2, last + 1, tensor.shape, generator=generator))
    tensor.view(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = last


def exceed_half_range(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Make the numbers so large that float16 cannot hold them; they may be smaller after a refusal."""
    tensor.mul_(BEYOND_HALF / (1, 4, 16)[min(refused, 2)])


def fill_samples(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Fill a third of the samples with the number for padding or ignored labels; after a refusal a single one."""
    if is_in_order(tensor):  # offsets
        return
    samples = tensor.reshape(-1, 1) if tensor.dim() < 2 else tensor
    chosen = torch.rand(len(samples), generator=generator) < (1 / 3 if not refused else 0.0)
    chosen[int(torch.randint(len(samples), (), generator=generator))] = True
    samples[chosen.to(tensor.device)] = int(feed.numbers[0])


NARROW_WHOLE = frozenset({torch.int8, torch.uint8, torch.int16})
"""Integers that are no indices, and whose sums and products soon exceed their dtype."""


def is_index(feed: Feed) -> bool:
    """Return True if the input, or what is computed from it, is an index."""
    return any(feed.reach.is_in(node, "index", "indices") for node in feed.reach.nodes)


def fill_rows_at_limits(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Fill one line with integers near the lower limit of the dtype, and another with integers near the upper one."""
    lines, outer = _in_lines(tensor, feed)
    if outer.numel() < FEWEST_LINES or is_index(feed) or feed.reach.operators - WHOLE_OPERATORS - KEEPING_WHOLE:
        return
    ends = torch.iinfo(tensor.dtype)
    near = min(NEAR_LIMITS, ends.max // 2)
    chosen = torch.randperm(outer.numel(), generator=generator)[:2].tolist()
    for number, (low, high) in zip(chosen, ((ends.min, ends.min + near), (ends.max - near, ends.max))):
        line = lines[tuple(int(i) for i in numpy.unravel_index(number, outer))]
        line.copy_(torch.randint(low, high, line.shape, generator=generator))


def fill_narrow_rows(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Fill a quarter of the rows of small integers with one of the limits of their dtype, but not of places."""
    if refused or tensor.dim() < 2 or is_index(feed) or is_in_order(tensor):
        return
    ends, rows = torch.iinfo(tensor.dtype), tensor.shape[:-1]
    limits = torch.where(torch.rand(rows, generator=generator) < 0.5, ends.min, ends.max).to(tensor)
    chosen = (torch.rand(rows, generator=generator) < 0.25).to(tensor.device)
    tensor.copy_(torch.where(chosen[..., None], limits[..., None], tensor))


def set_otherwise(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Put other numbers into a mask of zeros and ones, where the operator only asks if a number is zero."""
    if bool(((tensor == 0) | (tensor == 1)).all()):
        tensor.copy_(torch.where(_some(tensor, generator, 0.25), 2, tensor))
        if tensor.dtype is not torch.uint8:
            tensor.copy_(torch.where(_some(tensor, generator, 0.125), -1, tensor))


def repeat_and_count_back(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Repeat an index many times, count from the end if the operator allows it, and use the ignored label of losses."""
    if is_in_order(tensor):  # offsets
        return
    first = tensor.reshape(-1)[:1].clone()
    tensor.copy_(torch.where(_some(tensor, generator, 0.25), first, tensor))
    name = bare_name(feed.node.operator)
    if name == "nll_loss_forward" or "cross_entropy" in name:
        ignored = feed.node.argument("ignore_index", IGNORED)
        if isinstance(ignored, int) and refused < 2:
            tensor.copy_(torch.where(_some(tensor, generator, 0.25), ignored, tensor))
    elif name in COUNTED_FROM_THE_END and not refused and bool((tensor >= 0).all()):
        tensor.copy_(torch.where(_some(tensor, generator, COUNTED_BACK_SHARE), -1 - tensor, tensor))


def mask_rows(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set all flags of some rows and clear all of others; only one of the two if the reference refuses both."""
    if tensor.dim() == 0 or tensor.numel() == tensor.shape[-1]:
        return
    outer = tensor.shape[:-1]
    rows = math.prod(outer)
    count = max(1, rows // MASKED_ROWS if rows < MANY_ROWS else rows // MASKED_OF_MANY)
    chosen = torch.randperm(rows, generator=generator).numpy()
    for number, flag in enumerate((True, False)):
        if (refused == 1 and flag) or (refused == 2 and not flag):
            continue
        some = chosen[number * count : (number + 1) * count]
        tensor[tuple(torch.from_numpy(at).to(tensor.device) for at in numpy.unravel_index(some, outer))] = flag


def clear_runs(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Clear the flags at the beginning of some rows and at the end of others, as padding does; one flag stays set.

    In a mask that is added to scores, minus infinity stands for a cleared flag. A sum over blocks may then begin with a
    block that holds nothing. Rows begin with fewer cleared flags at the second attempt, and with none at the last one,
    since another mask may hide what is left.
    """
    width = tensor.shape[-1] if tensor.dim() else 0
    rows = tensor.numel() // max(1, width)
    if width < LEAST_WIDTH_OF_RUNS or rows < 2:
        return
    cleared_to, set_to = (False, True) if tensor.dtype is torch.bool else (-math.inf, 0.0)
    at_most = width * 7 // 8, width * (7, 2, 0)[min(refused, 2)] // 8
    for number, row in enumerate(torch.randperm(rows, generator=generator)[:RUNS_AT_MOST].tolist()):
        begins = number % 2
        if not at_most[begins]:
            continue
        line = tensor[tuple(int(i) for i in numpy.unravel_index(row, tensor.shape[:-1]))]
        length = int(torch.randint(width // 4, at_most[begins] + 1, (), generator=generator))
        left, cleared = (line[length:], line[:length]) if begins else (line[:-length], line[-length:])
        cleared.fill_(cleared_to)
        if not bool((left != cleared_to).any()):
            left[int(torch.randint(len(left), (), generator=generator))] = set_to


def uneven_offsets(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Redraw the boundaries of segments between the first and the last: one segment holds most, and one is empty."""
    if tensor.dim() != 1 or tensor.numel() < 4 or int(tensor[0]) != 0 or bool((tensor.diff() < 0).any()):
        return
    last = int(tensor[-1])
    inner = torch.randint(0, last // 8 + 1, (tensor.numel() - 2,), generator=generator).sort().values
    if int(torch.randint(2, (), generator=generator)):
        inner = last - inner.flip(0)
    inner[1] = inner[0] if not refused else inner[1]
    tensor[1:-1] = inner.to(tensor)


def _every_second(tensor: torch.Tensor, start: int) -> torch.Tensor:
    """Return a view of every second index along the first dimension with several."""
    axis = next((i for i, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None:
        return tensor if start == 0 else tensor.reshape(-1)[:0]
    return tensor[(slice(None),) * axis + (slice(start, None, 2),)]


def _some(tensor: torch.Tensor, generator: torch.Generator, share: float) -> torch.Tensor:
    return (torch.rand(tensor.shape, generator=generator) < share).to(tensor.device)
