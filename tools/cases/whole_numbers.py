"""Whole numbers and flags that files seldom draw: equal ones, zeros, and large ones.

Names from a wide range are never equal, lengths never zero, masks have no empty row, and times fit into a float32. Five
kinds of cases ask for these: some elements and rows are repeated or zero (`REPEATED`), all elements of all inputs are
equal (`EQUAL`), all elements of one input are zero (`ZERO`), and one number is added to all elements: a large one
(`FAR`), or one of those in `SHIFTS`. Apart from zeros and these, numbers stay in the range of the input.

Left alone: offsets and positions in order; numbers that are sizes, as those of `repeat_interleave`; places that are
written to, which may not repeat. No zeros for divisors, and for indices among which there is none. No large number
where it would become a size or a place, or be compared with anything but another large number: a kernel may count up
to it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence, Set

import torch

from triton_agent.tools.cases.feeds import Feed, Reach
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.operators import bare_name, words
from triton_agent.tools.graph.values import Argument, Reference

REPEATED, EQUAL, ZERO = "repeated whole numbers", "equal whole numbers", "whole numbers of zero"
FAR = "whole numbers far from zero"
SHIFTS = {
    "whole numbers of some thousands": (1 << 11, 1 << 13),
    "whole numbers of some ten millions": (1 << 25, 1 << 27),
}
"""Cases, each with the range of the number that it adds to all elements: places in a long text, which half precision
rounds, and ids of which some dozens overflow a sum in 32 bits."""

AS_SIZES = words("repeat_interleave segment_reduce ctc_loss _ctc_loss _cudnn_ctc_loss _pack_padded_sequence")
"""Operators for which integers are sizes or bounds."""
WRITING = words("index_put _unsafe_index_put put scatter index_copy slice_scatter select_scatter")
DIVISIONS = words("floor_divide remainder fmod")
"""Divisions of whole numbers by zero raise an error on a CPU and give some number on a GPU."""
LARGE = {torch.int64: (1 << 31) + 5, torch.int32: 3 << 29}
"""Beyond the range of 32-bit integers by more than one, or so large that a sum of two 32-bit integers is."""
BEYOND_DOUBLES = (1 << 60) + 5
"""Half of the problems get this in 64 bits: a stamp in nanoseconds, which float64 rounds."""
SMALL = 1 << 28
"""Numbers of this size and more are large already."""
STAYING_FAR = words("add sub rsub mul neg floor_divide sum cumsum amax amin maximum minimum where cat stack clone")
"""Operators whose result may be as large as an operand."""
COMPARISONS, BOUNDED_BY = words("eq ne lt le gt ge"), words("remainder bitwise_and")
"""Operators whose result stays as it was if the large number is in both operands, and those whose result is below a
number in the reference's text."""
ROUNDED_ONCE = words("_to_copy mul div true_divide add sub rsub")
"""Operators that turn whole numbers into floats."""
FAR_AT_MOST = 4
"""Maximum number of inputs of which some may become large."""
POOLED = 5
"""Number of different values that repeated elements have."""
POOL_RANGE = 0.5
"""Two inputs get the same values, so that elements of one are equal to elements of the other, if their ranges overlap
by more than this part of the wider one."""
TRIED_FOR_POOL = 256
"""Number of random elements among which those numbers are."""
APART_AT_MOST = 8
"""Up to so many rows or columns may each have a range of their own, as in pairs of places."""
ZERO_ROWS, EQUAL_ROWS, REPEATED_SHARE, ZERO_SHARE = 1 / 6, 1 / 6, 3 / 8, 1 / 8
"""Shares of the rows that become zero, or all equal, and of the elements of other rows that are repeated or zero."""
FEWEST_FOR_RUNS, ROWS_WITH_RUNS = 8, 256
"""Least width of rows in which runs are repeated, and maximum number of these rows."""


def may_repeat(tensor: torch.Tensor, reach: Reach, norms: frozenset[str]) -> bool:
    """Return True if elements of this input may be equal. The norm of equal numbers is only rounding error."""
    if tensor.numel() < 2 or is_in_order(tensor):
        return False
    left_out = AS_SIZES if tensor.dtype is torch.bool else AS_SIZES | norms
    return not reach.operators & left_out and not is_written_at(tensor, reach)


def may_be_zero(tensor: torch.Tensor, reach: Reach, looking_up: frozenset[str]) -> bool:
    """Return True if elements of this input, which may repeat, may be zero."""
    if tensor.dtype is torch.bool or bool((tensor == 0).any()):
        return True
    divides = any(
        (bare_name(node.operator) in DIVISIONS or node.argument("rounding_mode") is not None)
        and reach.is_in(node, *node.argument_names[1:2])
        for node in reach.nodes
    )
    return not divides and not reach.operators & looking_up


def is_small(tensor: torch.Tensor, case: str) -> bool:
    """Return True if the number of this case is larger than these whole numbers and can be added to them."""
    return tensor.dtype in LARGE and bool((tensor.abs() < (SMALL if case == FAR else SHIFTS[case][0])).all())


def far_together(graph: OperatorGraph, positions: Sequence[int]) -> Set[int]:
    """Return the largest group of these inputs to which one large number may be added.

    A difference of two inputs may need both.
    """
    tried = positions[:FAR_AT_MOST]
    for count in range(len(tried), 0, -1):
        for some in itertools.combinations(tried, count):
            if _may_be_far(graph, some):
                return frozenset(some)
    return frozenset()


def _may_be_far(graph: OperatorGraph, positions: Iterable[int]) -> bool:
    """Return True if one large number may be added to all elements of these inputs.

    Its effect is followed until it is gone, as in a difference of two inputs, or becomes a float, whose rounding shows
    in the reference's own error. `times` tells how often a value holds the large number, if it holds it unchanged.
    """
    times: dict[str, int | None] = {f"x{position}": 1 for position in positions}
    for node in graph.nodes:
        if times.keys().isdisjoint(node.references()):
            continue
        name = bare_name(node.operator)
        one, other = (times.get(it.name, 0) if isinstance(it, Reference) else 0 for it in (*node.arguments, 0, 0)[:2])
        held: int | None = None
        if name in ("add", "sub", "rsub") and None not in (one, other) and node.argument("alpha", 1) == 1:
            held = one + other if name == "add" else one - other  # type: ignore[operator]
        elif node.kind in ("view", "movement") and len({times.get(it) for it in node.references()}) == 1:
            held = one
        compares = name in COMPARISONS and one == other is not None
        if held == 0 or compares or (name in BOUNDED_BY and _is_positive(node.arguments[-1])):
            continue
        if name in ROUNDED_ONCE and "float" in node.outputs[0].dtype:
            continue
        divides_whole = node.argument("rounding_mode") is not None
        if name not in STAYING_FAR and not divides_whole and node.kind not in ("view", "movement"):
            return False
        times |= {node.output_name(k): held for k in range(len(node.outputs))}
    return True


def _is_positive(argument: Argument) -> bool:
    return isinstance(argument, int) and argument > 0


def is_in_order(tensor: torch.Tensor) -> bool:
    """Return True if rows hold different numbers in order, as offsets and positions do."""
    if tensor.dtype is torch.bool or tensor.dim() == 0 or tensor.shape[-1] < 3:
        return False
    steps = tensor.long().diff(dim=-1)
    return bool((steps >= 0).all()) and bool((steps > 0).any())


def is_written_at(tensor: torch.Tensor, reach: Reach) -> bool:
    """Return True if the input gives places that an operator writes to, one after the other."""
    return tensor.dtype is not torch.bool and any(
        bare_name(node.operator) in WRITING
        and reach.is_in(node, "index", "indices")
        and not (node.argument("accumulate") or node.argument("reduce"))
        for node in reach.nodes
    )


def with_pools(feeds: Sequence[Feed], tensors: Sequence[torch.Tensor], generator: torch.Generator) -> list[Feed]:
    """Give each input the numbers that its elements are set to; inputs with similar ranges get the same ones."""
    found: list[Feed] = []
    for feed in feeds:
        tensor = tensors[feed.position]
        if tensor.dtype is torch.bool:
            found.append(feed)
            continue
        low, high = _range_of(tensor)
        pool: tuple[float, ...] = ()
        for other in (it for it in found if it.numbers):
            shared = _range_of(tensors[other.position])
            overlap = min(high, shared[1]) - max(low, shared[0])
            if overlap > POOL_RANGE * max(high - low, shared[1] - shared[0]):
                pool = tuple(it for it in other.numbers if low <= it <= high)
        if not pool:
            at = torch.randint(tensor.numel(), (TRIED_FOR_POOL,), generator=generator)
            values = tensor.reshape(-1)[at.to(tensor.device)]
            values = torch.unique(values[(values >= low) & (values <= high)])
            some = torch.randperm(len(values), generator=generator)[:POOLED]
            pool = tuple(sorted(values[some.to(values.device)].tolist(), key=lambda it: it == 0))
        if pool:
            found.append(dataclasses.replace(feed, numbers=pool))
    return found


def _range_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the least and the largest number that each of a few rows, and of a few columns, may hold."""
    low, high = int(tensor.min()), int(tensor.max())
    for axis in (0, -1) if tensor.dim() > 1 else ():
        if 1 < tensor.shape[axis] <= APART_AT_MOST:
            lines = tensor.movedim(axis, 0).reshape(tensor.shape[axis], -1)
            low, high = max(low, int(lines.amin(1).max())), min(high, int(lines.amax(1).min()))
    return low, high


def repeat_some(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Repeat elements and set some to zero, and whole rows as well if there are several.

    Runs of elements come again later in their row, unless the reference has refused that.
    """
    pool = torch.tensor(feed.numbers, dtype=tensor.dtype)
    drawn = torch.rand(tensor.shape, generator=generator)
    repeated = pool[torch.randint(len(pool), tensor.shape, generator=generator)]
    tensor.copy_(torch.where((drawn < REPEATED_SHARE).to(tensor.device), repeated.to(tensor.device), tensor))
    zeros = (drawn > 1 - ZERO_SHARE).to(tensor.device)
    if tensor.dim() and tensor.shape[-1] >= FEWEST_FOR_RUNS and not refused:
        _repeat_runs(tensor, generator)
    if tensor.dim() > 1:
        rows = torch.rand((*tensor.shape[:-1], 1), generator=generator)
        equal = (rows > 1 - EQUAL_ROWS).to(tensor.device)
        tensor.copy_(torch.where(equal, repeated[..., :1].to(tensor.device), tensor))
        zeros = (zeros & ~equal) | (rows < ZERO_ROWS).to(tensor.device)
    if feed.may_be_zero and not refused:
        tensor.masked_fill_(zeros, 0)


def _repeat_runs(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """In about half of the rows, copy a run to a place behind it, with other elements between the two."""
    width = tensor.shape[-1]
    rows = tensor.reshape(-1, width).clone()
    for row in rows[:ROWS_WITH_RUNS]:
        if bool(torch.rand((), generator=generator) < 0.5):
            continue
        length = 2 + int(torch.randint(max(1, width // 4), (), generator=generator))
        begin = int(torch.randint(width - 2 * length, (), generator=generator))
        end = begin + length
        to = end + int(torch.randint(width - length - end + 1, (), generator=generator))
        row[to : to + length] = row[begin:end].clone()
    tensor.copy_(rows.reshape(tensor.shape))


def set_equal(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set all numbers to one that the input holds, not zero if possible, and set all flags.

    After one refusal only numbers change, and after two only flags.
    """
    is_flag = tensor.dtype is torch.bool
    if (refused == 1 and is_flag) or (refused == 2 and not is_flag):
        return
    tensor.fill_(True if is_flag else int(feed.numbers[0]))


def set_to_zero(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Set all elements of the input to zero; after a refusal all but the first sample or the last."""
    part = tensor if not refused or tensor.dim() == 0 else tensor[1:] if refused == 1 else tensor[:-1]
    part.zero_()


def move_far(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """Add a large number to all elements, the same one for all inputs of a dtype; after a refusal a smaller one."""
    is_beyond_doubles = tensor.dtype is torch.int64 and not refused and generator.initial_seed() % 2
    tensor.add_(BEYOND_DOUBLES if is_beyond_doubles else LARGE[tensor.dtype] >> (3 * refused))


def shift(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int, *, case: str) -> None:
    """Add a number of this case to all elements, the same one for all inputs."""
    if not refused:
        afresh = torch.Generator().manual_seed(generator.initial_seed())
        tensor.add_(int(torch.randint(*SHIFTS[case], (), generator=afresh)))
