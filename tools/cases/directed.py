"""Directed inputs: values at which the reference's own operators behave specially.

Randomly drawn inputs hold no NaN, no two equal elements, and nothing halfway between two integers. The operator graph
of the reference says which of these matter. The table `RULES` lists the change for each group of operators. It is
applied to the inputs that reach such an operator through views, copies and simple scaling; if none can be traced, to
all inputs of the right kind. Rules that change different elements share a case.

Each case is first tried on the reference, and kept only if the result stays defined and most elements can be judged.
Not covered: operands computed from inputs by other arithmetic, and parameters, which stay as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import torch

from triton_agent.tools.cases.distributions import NOT_FINITE, share_memory
from triton_agent.tools.cases.feeds import Change, Feed, Reach, reach_of, reduced_dims
from triton_agent.tools.cases.input_changes import (
    FEWEST_LINES,
    NARROW_WHOLE,
    are_large,
    clear_runs,
    ends_of,
    enlarge_some,
    exceed_half_range,
    fill_narrow_rows,
    fill_rows_at_limits,
    fill_samples,
    flip_large,
    half_way,
    half_way_pixels,
    is_index,
    limit_rows,
    make_from_another,
    make_some_faint,
    mask_rows,
    meet_ends,
    meet_some,
    negate_divided,
    quantise_half,
    reach_the_end,
    repeat_and_count_back,
    set_otherwise,
    set_rows_off,
    set_whole_offset,
    uneven_offsets,
)
from triton_agent.tools.cases.whole_numbers import (
    AS_SIZES,
    EQUAL,
    FAR,
    LARGE,
    REPEATED,
    SHIFTS,
    ZERO,
    far_together,
    is_in_order,
    is_small,
    is_written_at,
    may_be_zero,
    may_repeat,
    move_far,
    repeat_some,
    set_equal,
    set_to_zero,
    shift,
    with_pools,
)
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.graph.graph import Node, OperatorGraph
from triton_agent.tools.graph.operator_groups import (
    ASKING,
    ATTENTION,
    BOUNDARIES,
    CHOOSING,
    COMBINING,
    DIVIDED,
    DIVIDING,
    FIRST,
    IGNORING,
    KEEPING_WHOLE,
    LARGEST,
    LEAST,
    LOOKING_UP,
    MASKED_OUT,
    MASKING,
    MASKING_PICKS,
    MULTIPLYING,
    NORMS,
    OF_FEATURES,
    PASSED_THROUGH,
    PASSING_NAN,
    PEAKED,
    PERIODIC,
    PICKING_FROM,
    PRODUCTS,
    SCALED,
    STEPS_OF_A_RECURRENCE,
    STILL,
    SUMMING,
    WITH_ZEROS,
)
from triton_agent.tools.graph.operators import ORDERING, bare_name, words
from triton_agent.tools.graph.values import Reference, references_in
from triton_agent.tools.graph.written_out import VARIANCE, is_centring, operators_of
from triton_agent.tools.reference.input_tensors import is_plain, is_sorted, tensors_in
from triton_agent.tools.truth.jumps import COMPARING, NEAREST, ROUNDING, SAMPLING, WHOLE

TIES = "ties and half-way values"
NUMBERS = "whole numbers at their limits"
OFFSET = "far from zero"
LIMITS = "rows at their limits"
FAINT = "rows of many small sizes"
ENDS = "ends of the range"
RUNS = "runs of cleared flags"
BLANK_INPUT, LENGTHS = "an input of zeros", "lengths and places up to the end"
NOTHING, HUGE = "samples of nothing but padding", "beyond float16"
FLIPPED = "whole numbers with flipped bits"
RELATED = "inputs made from each other"
DIRECTED = (
    *(
        NOT_FINITE,
        TIES,
        NUMBERS,
        FLIPPED,
        RUNS,
        OFFSET,
        LIMITS,
        FAINT,
        ENDS,
        BLANK_INPUT,
        LENGTHS,
        NOTHING,
        HUGE,
        RELATED,
    ),
    *(REPEATED, EQUAL, ZERO, FAR, *SHIFTS),
)
"""The directed cases, in the order in which they are made."""

OF_WHOLES = (NUMBERS, FLIPPED, REPEATED)
"""Directed cases of integers and flags, whose changes are made at full size as well."""
BY_INPUT = ", input "
"""Stands between the kind of a directed case and the number of the input, if one input alone is changed."""
ONE_BY_ONE, ALONE_AT_MOST = (ZERO, BLANK_INPUT, HUGE), 3
"""Directed cases that change one input at a time, and the most inputs that get such a case."""
NUMBERS_MET = 16
"""Maximum count of numbers that elements of one input are made equal to."""
SHARE_JUDGED = 0.5
"""A case is dropped if a smaller share of its elements can be judged."""
STEPS_OF_PLACES = 64
"""Number of steps from the middle of an image to its end, among which places half-way between two pixels are sought."""
TRIED_FOR_FLAGS = 1024
"""Number of random places among which one with a flag and one without it are sought."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A change of the inputs of one kind that reach one of these operators."""

    case: str
    operators: frozenset[str] | None
    """None stands for every operator."""
    kind: str
    """`float`, `whole`, `flag`, or `number` for floats and complex numbers."""
    change: Change
    traced_only: bool = False
    """True to leave inputs alone that cannot be traced to the operator."""


def _special(tensor: torch.Tensor, feed: Feed, generator: torch.Generator, refused: int) -> None:
    """A placeholder for `plant`: the values to plant are found by running the reference."""


RULES: tuple[Rule, ...] = (
    Rule(case=NOT_FINITE, operators=None, kind="number", change=_special),
    Rule(case=TIES, operators=ORDERING | FIRST, kind="float", change=quantise_half),
    Rule(case=TIES, operators=ORDERING | FIRST, kind="whole", change=quantise_half, traced_only=True),
    Rule(case=TIES, operators=COMPARING, kind="float", change=meet_some, traced_only=True),
    Rule(case=TIES, operators=COMPARING, kind="whole", change=meet_some, traced_only=True),
    Rule(case=TIES, operators=ROUNDING | {"div", "_to_copy"}, kind="float", change=half_way),
    Rule(case=TIES, operators=SAMPLING, kind="float", change=half_way_pixels, traced_only=True),
    Rule(case=NUMBERS, operators=DIVIDING, kind="whole", change=negate_divided, traced_only=True),
    Rule(case=NUMBERS, operators=KEEPING_WHOLE, kind="whole", change=enlarge_some, traced_only=True),
    Rule(case=NUMBERS, operators=LARGEST | LEAST, kind="whole", change=fill_rows_at_limits, traced_only=True),
    Rule(
        case=NUMBERS,
        operators=LOOKING_UP | COMBINING.keys(),
        kind="whole",
        change=repeat_and_count_back,
        traced_only=True,
    ),
    Rule(case=NUMBERS, operators=ASKING, kind="whole", change=set_otherwise, traced_only=True),
    Rule(case=NUMBERS, operators=None, kind="whole", change=fill_narrow_rows),
    Rule(case=NUMBERS, operators=MASKING, kind="flag", change=mask_rows),
    Rule(case=FLIPPED, operators=None, kind="whole", change=flip_large),
    Rule(case=RUNS, operators=MASKING | ATTENTION, kind="flag", change=clear_runs),
    Rule(case=RUNS, operators=ATTENTION | {"add"}, kind="float", change=clear_runs, traced_only=True),
    Rule(case=NUMBERS, operators=None, kind="whole", change=uneven_offsets),
    Rule(case=OFFSET, operators=PEAKED | {"amax", "max"}, kind="float", change=set_rows_off),
    Rule(case=OFFSET, operators=NORMS, kind="float", change=set_whole_offset),
    Rule(case=LIMITS, operators=NORMS | PEAKED | SCALED, kind="float", change=limit_rows),
    Rule(case=FAINT, operators=DIVIDED, kind="number", change=make_some_faint),
    Rule(case=ENDS, operators=None, kind="float", change=meet_ends),
    Rule(case=BLANK_INPUT, operators=None, kind="number", change=set_to_zero),
    Rule(case=LENGTHS, operators=words("lt le gt ge"), kind="whole", change=reach_the_end, traced_only=True),
    Rule(case=NOTHING, operators=IGNORING, kind="whole", change=fill_samples, traced_only=True),
    Rule(case=HUGE, operators=None, kind="float", change=exceed_half_range),
    Rule(case=RELATED, operators=None, kind="float", change=make_from_another),
    Rule(case=REPEATED, operators=None, kind="whole", change=repeat_some),
    Rule(case=EQUAL, operators=None, kind="whole", change=set_equal),
    Rule(case=EQUAL, operators=None, kind="flag", change=set_equal),
    Rule(case=ZERO, operators=None, kind="whole", change=set_to_zero),
    Rule(case=ZERO, operators=None, kind="flag", change=set_to_zero),
    Rule(case=FAR, operators=None, kind="whole", change=move_far),
    *(Rule(case=it, operators=None, kind="whole", change=functools.partial(shift, case=it)) for it in SHIFTS),
)
"""If two rules would change one input in the same case, only the first applies, except for ties and halves."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Directed:
    """The directed cases that one problem gets."""

    feeds: dict[str, tuple[tuple[Rule, Feed], ...]]
    """For each directed case, the rules and the inputs they change. A kind in `DIRECTED` may have several cases."""
    picks: bool
    """True if positions of equal elements may be returned; torch does not specify them for all operators."""
    orders: bool
    """True if elements are ordered; the position of NaN in an order is not specified."""
    sums: bool
    """True if elements are summed, or factors multiplied step by step; an infinity may become NaN on the way."""
    recurs: bool = False
    """True for a recurrence. Its first factor meets a state of zero, and a kernel may leave it out, with its NaN."""
    neutral: float | None = None
    """The infinity that all elements exceed if the largest is sought, or that exceeds all if the least is."""
    pointwise: bool = False
    """True if nothing is reduced or multiplied as matrices, so that an infinity stays where it arises."""
    cuts: bool = False
    """True if a triangle of a matrix is cut off."""
    chosen_by: tuple[int, ...] = ()
    """Inputs whose flags choose between two tensors."""

    def cases(self, kinds: Sequence[str]) -> list[str]:
        """Return the names of the directed cases of these kinds, in this order."""
        return [name for kind in kinds for name in self.feeds if kind_of(name) == kind]

    def change(self, case: str, inputs: list[Any], generator: torch.Generator, refused: int) -> None:
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for rule, feed in self.feeds[case]:
                if feed.beside is not None and feed.boundaries is not None:
                    now = tensors[feed.beside].reshape(feed.boundaries.shape)
                    feed = dataclasses.replace(feed, boundaries=now)
                rule.change(tensors[feed.position], feed, generator, refused)

    def plant(
        self,
        inputs: list[Any],
        values: Sequence[float],
        generator: torch.Generator,
        *,
        twice: bool = False,
        late: bool = False,
    ) -> None:
        """Write each value once into each floating-point input, no two in the same row or column.

        With `late`, the values stand in the last quarter of each dimension, so that of a running sum most stays finite.
        With `twice`, NaN is also written beside the first NaN, and into half of one of several rows and all of another:
        a kernel may count them. Complex inputs get NaN only, in both parts, since products with one part treat the
        other differently.
        """
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for _, feed in self.feeds[NOT_FINITE]:
                tensor = tensors[feed.position]
                orders = [_places_along(size, generator, late=late) for size in tensor.shape]
                if twice and any(map(math.isnan, values)) and feed.reduced <= {tensor.dim() - 1}:
                    _write_nan_into_rows(tensor, orders[:-1], len(values), generator)
                for k, value in enumerate(values):
                    at = tuple(order[k % len(order)] for order in orders)
                    if tensor.is_complex() and not math.isnan(value):
                        continue
                    planted = torch.tensor(complex(value, value) if tensor.is_complex() else value)
                    tensor[at] = planted
                    if twice and math.isnan(value) and at and tensor.shape[-1] > 1:
                        tensor[(*at[:-1], (at[-1] + 1) % tensor.shape[-1])] = planted
                if any(map(math.isnan, values)) and tensor.is_floating_point():
                    self._plant_nan_to_hide(tensor, tensors, generator)
            if self.recurs and any(map(math.isnan, values)):
                self._plant_nan_first(tensors, generator)

    def _plant_nan_first(self, tensors: Sequence[torch.Tensor], generator: torch.Generator) -> None:
        """Write NaN at the beginning of each dimension of each input, where inputs of its shape hold no NaN.

        Lines that hold an infinity are avoided if others are free, because a recurrence shows nothing after a NaN.
        """
        given = [tensors[feed.position] for _, feed in self.feeds[NOT_FINITE]]
        for tensor in (it for it in given if it.is_floating_point()):
            for axis in range(tensor.dim()):
                alike = [it for it in given if it.shape == tensor.shape]
                open_ = ~torch.stack([it.select(axis, 0).isnan() for it in alike]).any(0)
                finite = open_ & ~torch.stack([it.isinf().any(axis) for it in alike]).any(0)
                free = (finite if bool(finite.any()) else open_).nonzero().tolist()
                if free:
                    at = free[int(torch.randint(len(free), (), generator=generator))]
                    tensor[(*at[:axis], 0, *at[axis:])] = math.nan

    def _plant_nan_to_hide(
        self, tensor: torch.Tensor, tensors: Sequence[torch.Tensor], generator: torch.Generator
    ) -> None:
        """Write NaN where the reference may leave elements out: in two corners, and below a flag of each kind."""
        if self.cuts and tensor.dim() > 1:
            first = (0,) * (tensor.dim() - 2)
            tensor[(*first, 0, -1)] = tensor[(*first, -1, 0)] = math.nan
        for flags in (tensors[position] for position in self.chosen_by):
            with contextlib.suppress(RuntimeError):  # shapes that do not broadcast
                tried = [torch.randint(size, (TRIED_FOR_FLAGS,), generator=generator) for size in tensor.shape]
                found = flags.expand(tensor.shape)[tuple(tried)].tolist() if tried else []
                for kind in set(found):
                    tensor[tuple(int(places[found.index(kind)]) for places in tried)] = math.nan

    def fill_lines(self, inputs: list[Any], value: float, generator: torch.Generator) -> None:
        """Fill a sample and a column of each floating-point input with this infinity, if there are several of them.

        Those with NaN or with the other infinity stay as they are.
        """
        tensors = list(tensors_in(inputs))
        with torch.no_grad():
            for _, feed in self.feeds[NOT_FINITE]:
                tensor = tensors[feed.position]
                for axis in {next((i for i, size in enumerate(tensor.shape) if size > 1), -1), tensor.dim() - 1}:
                    if axis >= 0 and not tensor.is_complex() and tensor.shape[axis] >= FEWEST_LINES:
                        _fill_line(tensor, axis, value, generator)


def kind_of(case: str) -> str:
    """Return the kind, one of `DIRECTED`, of a directed case."""
    return case.partition(BY_INPUT)[0]


def _places_along(size: int, generator: torch.Generator, *, late: bool) -> list[int]:
    """Return the positions along a dimension in random order; with `late`, those of the last quarter."""
    taken = max(min(size, FEWEST_LINES), size // 4) if late else size
    return [size - taken + place for place in torch.randperm(taken, generator=generator).tolist()]


def _write_nan_into_rows(
    tensor: torch.Tensor, orders: Sequence[list[int]], taken: int, generator: torch.Generator
) -> None:
    """Write NaN into half of a row and all of another one, if there are several beside those that are taken."""
    if tensor.dim() < 2 or tensor.is_complex():
        return
    rows = math.prod(tensor.shape[:-1])
    for k, share in enumerate((0.5, 1.0), taken):
        if rows > max(k, FEWEST_LINES - 1):
            row = tuple(order[k % len(order)] for order in orders)
            chosen = torch.rand(tensor.shape[-1], generator=generator) < share
            tensor[row][chosen.to(tensor.device)] = math.nan


def _fill_line(tensor: torch.Tensor, axis: int, value: float, generator: torch.Generator) -> None:
    """Fill one line across the axis with this infinity; a line with NaN or the other infinity is not chosen."""
    holds_others = (tensor.isnan() | (tensor == -value)).movedim(axis, 0).reshape(tensor.shape[axis], -1).any(1)
    free = (~holds_others).nonzero().flatten()
    if len(free):
        tensor.select(axis, int(free[int(torch.randint(len(free), (1,), generator=generator))])).fill_(value)


def directed(graph: OperatorGraph, inputs: list[Any], known: dict[str, torch.Tensor]) -> Directed:
    """Find the directed cases from the graph of one call; `known` holds parameters and buffers by name."""
    tensors = list(tensors_in(inputs))
    names = operators_of(graph)
    orders = bool(names & ORDERING)
    recurs = _products_in_a_row(graph) >= STEPS_OF_A_RECURRENCE
    sums = recurs or bool(names & SUMMING)
    picks = orders or bool(names & FIRST)
    casts = any(_makes_whole(node, graph) for node in graph.nodes)
    found: dict[str, tuple[tuple[Rule, Feed], ...]] = {}
    if share_memory(inputs) or len(tensors) != len(graph.inputs):
        return Directed(feeds=found, picks=picks, orders=orders, sums=sums)
    reaches = [reach_of(graph, f"x{position}") for position in range(len(tensors))]
    for case in DIRECTED:
        feeds: dict[int, tuple[Rule, Feed]] = {}
        halves: dict[int, tuple[Rule, Feed]] = {}
        for rule in (rule for rule in RULES if rule.case == case):
            for feed in _feeds(graph, rule, tensors, known):
                tensor = tensors[feed.position]
                if not tensor.numel():
                    continue
                if rule.kind == "whole" and is_written_at(tensor, reaches[feed.position]):
                    continue  # the places have to differ
                if rule.change is fill_narrow_rows and tensor.dtype not in NARROW_WHOLE:
                    continue
                feed = dataclasses.replace(
                    feed,
                    exists_beside=names,
                    reach=reaches[feed.position],
                    reduced=_reduced(graph, feed.node, reaches[feed.position], tensors[feed.position]),
                    cast_to_whole=casts,
                    picked=feed.position in feeds,
                )
                taken = halves if rule.change is half_way else feeds
                if case == NUMBERS and feed.position in feeds:  # these rules change few elements, so two may apply
                    taken = halves
                held = taken.setdefault(feed.position, (rule, feed))[1]
                if rule.change is meet_some and set(feed.numbers) - set(held.numbers):
                    numbers = (*held.numbers, *feed.numbers)[:NUMBERS_MET]
                    taken[feed.position] = (taken[feed.position][0], dataclasses.replace(held, numbers=numbers))
        kept = _fitting(case, [*feeds.values(), *halves.values()], graph, tensors)
        if case == RELATED:
            kept += _beside_parameters(feeds.values(), kept, tensors, known)
        if case in ONE_BY_ONE and len(kept) > 1:
            found |= {f"{case}{BY_INPUT}{feed.position}": ((rule, feed),) for rule, feed in kept[:ALONE_AT_MOST]}
        elif kept:
            found[case] = tuple(kept)
    return Directed(
        feeds=found,
        picks=picks,
        orders=orders,
        sums=sums,
        recurs=recurs,
        neutral=-math.inf if names & LARGEST else math.inf if names & LEAST else None,
        pointwise=all(node.kind in (*STILL, "arithmetic") for node in graph.nodes),
        cuts=bool(names & {"tril", "triu"}),
        chosen_by=tuple(sorted(_choosing_flags(graph, tensors))),
    )


def _reduced(graph: OperatorGraph, node: Node, reach: Reach, tensor: torch.Tensor) -> frozenset[int]:
    """Return the dimensions of an input that this node reduces, or else the first node in reach that reduces any."""
    found = (reduced_dims(graph, it, tensor.shape) for it in (node, *reach.nodes))
    return next(filter(None, found), frozenset())


def _is_reduced_to_one(reach: Reach, tensor: torch.Tensor) -> bool:
    """Return True if the input is a single number, or if an operator makes one of all its elements."""
    made = [math.prod(node.outputs[0].shape) for node in reach.nodes if node.kind == "reduction" and node.outputs]
    return tensor.numel() == 1 or 1 in made


def _products_in_a_row(graph: OperatorGraph) -> int:
    """Return how many products follow each other at most, each with the result of the one before."""
    counts: dict[str, int] = {}
    for node in graph.nodes:
        count = max((counts.get(name, 0) for name in node.references()), default=0)
        count += bare_name(node.operator) in MULTIPLYING
        counts |= {node.output_name(k): count for k in range(len(node.outputs))}
    return max(counts.values(), default=0)


def _fitting(
    case: str, feeds: list[tuple[Rule, Feed]], graph: OperatorGraph, tensors: Sequence[torch.Tensor]
) -> list[tuple[Rule, Feed]]:
    """Return those feeds that can be changed as the case asks, with the numbers that their elements are set to."""
    if case == NOT_FINITE:
        return [(rule, feed) for rule, feed in feeds if passes_nan_on(graph, feed.reach)]
    if case == ENDS:
        return _with_ends(feeds, tensors)
    if case == BLANK_INPUT:  # of a single tensor, samples of zeros are enough, unless all of it is reduced at once
        return [it for it in feeds if len(feeds) > 1 or _is_reduced_to_one(it[1].reach, tensors[it[1].position])]
    if case == HUGE:  # a kernel may multiply in float16, which is more precise but has a smaller range
        narrow = [(rule, feed) for rule, feed in feeds if tensors[feed.position].dtype is torch.bfloat16]
        narrow = [it for it in narrow if not _makes_scores_of_attention(it[1].reach)]
        return [it for it in narrow if not (it[1].exists_beside & PERIODIC or it[1].cast_to_whole)]
    if case == FLIPPED:
        return [(rule, feed) for rule, feed in feeds if _may_flip(tensors[feed.position], feed)]
    if case == RUNS:
        return _masks(feeds, tensors)
    if case == OFFSET:
        return _without_products(feeds, graph)
    if case == RELATED:
        return _with_twins(feeds, tensors)
    if case == NOTHING:
        return [(rule, feed) for rule, feed in feeds if feed.numbers]
    if case == LENGTHS:
        return [(rule, feed) for rule, feed in feeds if feed.numbers and _ends_before(tensors[feed.position], feed)]
    if case in (FAR, *SHIFTS):
        large = far_together(graph, [feed.position for _, feed in feeds if is_small(tensors[feed.position], case)])
        return [(rule, feed) for rule, feed in feeds if feed.position in large]
    return _of_whole_numbers(case, feeds, tensors) if case in (REPEATED, EQUAL, ZERO) else feeds


def _may_flip(tensor: torch.Tensor, feed: Feed) -> bool:
    """Return True if some of these whole numbers are large, and none is a size or a place, or becomes one."""
    if tensor.dtype not in LARGE or is_in_order(tensor) or not bool(are_large(tensor).any()):
        return False
    return not (is_index(feed) or feed.reach.operators & (LOOKING_UP | COMBINING.keys() | AS_SIZES))


def _makes_scores_of_attention(reach: Reach) -> bool:
    """Return True if attention takes exponentials of what depends on an input.

    Of scores of 1e5, the rounding errors of float32 alone show in the exponentials.
    """
    nodes = (node for node in reach.nodes if bare_name(node.operator) in ATTENTION)
    return any(reach.is_in(node, "query", "key", "attn_mask", "attn_bias") for node in nodes)


def _masks(feeds: list[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]) -> list[tuple[Rule, Feed]]:
    """Return the feeds of flags, and of the last float tensor that is added to scores, which may be a mask."""
    flags = [it for it in feeds if tensors[it[1].position].dtype is torch.bool]
    added = [it for it in feeds if tensors[it[1].position].is_floating_point() and _is_added(it[1])]
    return [*flags, *sorted(added, key=lambda it: it[1].position)[-1:]]


def _is_added(feed: Feed) -> bool:
    """Return True if an input is only added to scores."""
    if bare_name(feed.node.operator) not in ATTENTION:
        return True
    return feed.reach.is_in(feed.node, "attn_mask", "attn_bias") and not feed.reach.is_in(
        feed.node, "query", "key", "value"
    )


def _without_products(feeds: list[tuple[Rule, Feed]], graph: OperatorGraph) -> list[tuple[Rule, Feed]]:
    """Leave out inputs that would be multiplied with others far from zero before exponentials are taken of them.

    Mark those that are multiplied with themselves.
    """
    kept: list[tuple[Rule, Feed]] = []
    for rule, feed in reversed(feeds):
        if rule.change is not set_rows_off or feed.node not in graph.nodes:
            kept.append((rule, feed))
            continue
        products = [
            (tuple(node.references()), feed.reach.values)
            for node in graph.nodes[: graph.nodes.index(feed.node)]
            if bare_name(node.operator) in PRODUCTS | MULTIPLYING
        ]
        others = frozenset[str]().union(*(other.reach.values for _, other in kept))
        if any(_hold_one_of_each(names, mine, others) for names, mine in products):
            continue
        squared = any(_hold_one_of_each(names, mine, mine) for names, mine in products)
        kept.append((rule, dataclasses.replace(feed, squared=squared)))
    return kept[::-1]


def _hold_one_of_each(names: Sequence[str], some: Set[str], others: Set[str]) -> bool:
    """Return True if one of the names is in `some` and another one is in `others`."""
    return any(one in some and other in others for one, other in itertools.permutations(names, 2))


def _with_twins(feeds: Sequence[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]) -> list[tuple[Rule, Feed]]:
    """Return the feeds of inputs that have the shape and dtype of an earlier one, which they name, and of that one."""
    found: dict[int, tuple[Rule, Feed]] = {}
    firsts: dict[tuple[Any, ...], tuple[Rule, Feed]] = {}
    for rule, feed in feeds:
        tensor = tensors[feed.position]
        first = firsts.setdefault((tensor.shape, tensor.dtype), (rule, feed))
        if first[1] is not feed:
            at = first[1].position
            found.setdefault(at, first)
            found[feed.position] = rule, dataclasses.replace(feed, beside=at, boundaries=tensors[at])
    return list(found.values())


def _beside_parameters(
    feeds: Iterable[tuple[Rule, Feed]],
    twins: Sequence[tuple[Rule, Feed]],
    tensors: Sequence[torch.Tensor],
    known: Mapping[str, torch.Tensor],
) -> list[tuple[Rule, Feed]]:
    """Return the feeds of other inputs whose rows are as long as those of a parameter or buffer, with its rows."""
    taken, found = {feed.position for _, feed in twins}, []
    for rule, feed in feeds:
        tensor = tensors[feed.position]
        width = tensor.shape[-1] if tensor.dim() > 1 else 0
        tables = [it for it in known.values() if it.dtype == tensor.dtype and it.dim() and it.shape[-1] == width > 1]
        rows = [it.detach().reshape(-1, width) for it in tables if it.numel()]
        if feed.position not in taken and rows:
            table = torch.cat(rows).to(tensor.device)
            chosen = torch.arange(tensor.numel() // width, device=tensor.device) % len(table)
            found.append((rule, dataclasses.replace(feed, boundaries=table[chosen])))
    return found


def _ends_before(tensor: torch.Tensor, feed: Feed) -> bool:
    """Return True if lengths or places as given stay below the last one. Sorted ones may be offsets."""
    is_free = tensor.is_contiguous() and (tensor.numel() < 3 or not is_sorted(tensor))
    return is_free and feed.scale == 1 and not feed.shift and bool((tensor < feed.numbers[0]).all())


def _with_ends(feeds: Sequence[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]) -> list[tuple[Rule, Feed]]:
    """Return the feeds that have a range with ends.

    On a GPU those are left out that become an index, since an end may be the first one out of bounds.
    """
    found = []
    for rule, feed in feeds:
        tensor, ends = tensors[feed.position], ends_of(tensors[feed.position])
        if ends and not (tensor.is_cuda and feed.reach.operators & (LOOKING_UP | COMBINING.keys())):
            found.append((rule, dataclasses.replace(feed, numbers=ends)))
    return found


def _of_whole_numbers(
    case: str, feeds: Sequence[tuple[Rule, Feed]], tensors: Sequence[torch.Tensor]
) -> list[tuple[Rule, Feed]]:
    """Return those feeds whose elements may be equal, or zero if the case asks for zeros, with the numbers to use."""
    kept = []
    for rule, feed in sorted(feeds, key=lambda it: it[1].position):
        tensor = tensors[feed.position]
        norms = NORMS - OF_FEATURES if feed.reach.operators & LOOKING_UP else NORMS  # rows that are looked up vary
        is_alone = case == ZERO and tensor.numel() == 1
        if is_alone or may_repeat(tensor, feed.reach, norms):
            allows_zero = may_be_zero(tensor, feed.reach, LOOKING_UP | COMBINING.keys())
            if allows_zero or case != ZERO:
                kept.append((rule, dataclasses.replace(feed, may_be_zero=allows_zero)))
    pooled = with_pools([feed for _, feed in kept], tensors, torch.Generator().manual_seed(secret_seed()))
    rules = {feed.position: rule for rule, feed in kept}
    return [(rules[feed.position], feed) for feed in pooled]


def _choosing_flags(graph: OperatorGraph, tensors: Sequence[torch.Tensor]) -> set[int]:
    """Return the inputs whose flags, or their opposite, choose between two tensors."""
    found = set[int]()
    for node in graph.nodes:
        at = CHOOSING.get(bare_name(node.operator))
        waiting = list(references_in(node.arguments[at : at + 1])) if at is not None else []
        while waiting:
            name = waiting.pop()
            if name in graph.inputs:
                position = int(name.removeprefix("x"))
                found |= {position} if tensors[position].dtype is torch.bool else set()
            producer = graph.producers().get(name)
            if producer is not None and (producer.kind == "view" or "not" in bare_name(producer.operator)):
                waiting += references_in(producer.arguments)
    return found


def passes_nan_on(graph: OperatorGraph, reach: Reach) -> bool:
    """Return True if NaN in the source of this reach must come to the output.

    It need not beside masked products and products of triangles, of which kernels skip parts, and in a table of which
    elements may be masked out. It may do anything if it is cast to an integer, or decides about a place.
    """
    computing = [node for node in reach.nodes if node.kind not in STILL]
    picking = [node for node in computing if _only_picks_from(node, reach)]
    found = {bare_name(node.operator) for node in computing}
    unknown = {bare_name(node.operator) for node in computing if node not in picking} - PASSING_NAN
    whole = any(_makes_whole(node, graph) for node in reach.nodes)
    heavy = any(node.kind in ("heavy", "random") and bare_name(node.operator) not in PRODUCTS for node in reach.nodes)
    everything = {bare_name(node.operator) for node in graph.nodes if node.kind not in STILL}
    weighs = bool(everything & PEAKED) and "sum" in everything  # a product of weights may be written out
    products = PRODUCTS | {"mul"} if weighs else PRODUCTS
    masked = bool(found & products and everything & MASKED_OUT) or bool(everything & PRODUCTS and found & MASKED_OUT)
    masked |= bool(picking and found & MASKING_PICKS)
    masked |= bool(found & PRODUCTS) and any(bare_name(node.operator) in WITH_ZEROS for node in graph.nodes)
    return not (whole or heavy or masked or graph.data_dependent or unknown or _uses_positions(graph, reach))


def _only_picks_from(node: Node, reach: Reach) -> bool:
    """Return True if the node picks elements of a tensor that depends on the source, at places that do not."""
    return bare_name(node.operator) in PICKING_FROM and not reach.is_in(node, "index", "indices")


def _uses_positions(graph: OperatorGraph, reach: Reach) -> bool:
    """Return True if the position of a maximum is used: with several NaN it is not specified."""
    used = {name for node in graph.nodes for name in node.references()}
    for node in reach.nodes:
        name = bare_name(node.operator)
        if (name in ("argmax", "argmin") and node.output_name() in used) or (
            name in ("max", "min", "cummax", "cummin") and len(node.outputs) > 1 and node.output_name(1) in used
        ):
            return True
    return False


def _makes_whole(node: Node, graph: OperatorGraph) -> bool:
    values = graph.values()
    taken = [values[name] for name in node.references() if name in values]
    cast = bare_name(node.operator) in ("_to_copy", "to", "copy")
    return cast and any("float" in meta.dtype for meta in taken) and any("int" in meta.dtype for meta in node.outputs)


def _feeds(
    graph: OperatorGraph, rule: Rule, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]
) -> list[Feed]:
    """Return the inputs of the rule's kind that reach one of its operators.

    If none is traced to an operator, all of them are taken to reach the last one, unless the rule needs traced inputs.
    """
    fitting = [i for i, tensor in enumerate(tensors) if _fits(tensor, rule.kind)]
    if not graph.nodes or not fitting:
        return []
    if rule.operators is None:
        return [Feed(position=i, node=graph.nodes[0]) for i in fitting]
    asked = [node for node in graph.nodes if _is_asked(node, rule, graph)]
    found = [
        _with_boundaries(
            graph, Feed(position=position, node=node, scale=scale, shift=shift), name, rule, tensors, known
        )
        for node in asked
        for name in dict.fromkeys(references_in(node.arguments))
        for position, scale, shift in _traced(graph, name, 1.0, 0.0)
        if position in fitting
    ]
    if asked and not found and not rule.traced_only:
        return [Feed(position=i, node=asked[-1]) for i in fitting]
    return found


def _with_boundaries(
    graph: OperatorGraph,
    feed: Feed,
    name: str,
    rule: Rule,
    tensors: Sequence[torch.Tensor],
    known: dict[str, torch.Tensor],
) -> Feed:
    """Add the values at which the operator jumps, or those that `name` is compared with if the rule asks for them."""
    if rule.change is reach_the_end:
        last = _last_of_counted(graph, feed.node, name)
        return dataclasses.replace(feed, numbers=() if last is None else (last,))
    if rule.change is half_way_pixels:
        is_place = name in references_in(feed.node.arguments[1:2]) and feed.scale == 1 and not feed.shift
        return dataclasses.replace(feed, boundaries=_between_pixels(graph, feed.node) if is_place else None)
    if rule.change is half_way and feed.scale and (step := _step_of_a_grid(feed.node, known)):
        return dataclasses.replace(feed, scale=feed.scale / step, shift=feed.shift / step)
    if rule.change is fill_samples:
        return dataclasses.replace(feed, numbers=_ignored(feed))
    if rule.change is meet_some:
        return _beside(graph, feed, name, tensors, known)
    return dataclasses.replace(feed, boundaries=_boundaries(feed.node, tensors, known))


def _step_of_a_grid(node: Node, known: dict[str, torch.Tensor]) -> float | None:
    """Return the step by which an operator rounds to a grid, if it is a power of two: others divide with a rounding."""
    step = node.argument("scale") if "fake_quantize" in bare_name(node.operator) else None
    if isinstance(step, Reference):
        held = known.get(step.name.partition(":")[2])
        step = float(held) if held is not None and held.numel() == 1 else None
    return step if isinstance(step, float) and step > 0 and math.frexp(step)[0] == 0.5 else None


def _between_pixels(graph: OperatorGraph, node: Node) -> torch.Tensor:
    """Return, for each coordinate of a place, numbers that lie exactly half-way between two pixels, padded with NaN."""
    image = graph.values()[next(references_in(node.arguments[:1]))].shape
    places = torch.arange(-STEPS_OF_PLACES, STEPS_OF_PLACES + 1, dtype=torch.float64) / STEPS_OF_PLACES
    rows = []
    for size in reversed(image[2:]):
        pixels = (places + 1) * (size - 1) / 2 if node.argument("align_corners") else ((places + 1) * size - 1) / 2
        rows.append(torch.where(pixels - pixels.floor() == 0.5, places, math.nan))
    return torch.stack(rows)


def _ignored(feed: Feed) -> tuple[int, ...]:
    """Return the whole number that stands for padding or an ignored label, if the operator has one."""
    node, named = feed.node, bare_name(feed.node.operator)
    number = node.argument("other") if named in ("eq", "ne") else node.argument("ignore_index")
    if number is None:
        number = node.argument("padding_idx", -1)
        number = None if number == -1 else number  # the default: no padding
    if isinstance(number, bool) or not isinstance(number, int) or feed.scale != 1 or feed.shift:
        return ()
    return (number,)


def _last_of_counted(graph: OperatorGraph, node: Node, name: str) -> int | None:
    """Return the largest length or place that the named operand can be, if it is compared with 0, 1, 2 and so on.

    `at < length` accepts the count of these numbers, `at <= place` one less.
    """
    operands = [it.name for it in node.arguments[:2] if isinstance(it, Reference)]
    if len(operands) < 2 or name not in operands:
        return None
    producer = graph.producers().get(graph.origin(operands[1 - operands.index(name)]))
    if producer is None or bare_name(producer.operator) != "arange" or producer.argument("start") not in (None, 0):
        return None
    is_length = bare_name(node.operator) in (("gt", "le") if operands[0] == name else ("ge", "lt"))
    return math.prod(producer.outputs[0].shape) - (not is_length)


def _fits(tensor: torch.Tensor, kind: str) -> bool:
    own = "float" if tensor.is_floating_point() else "flag" if tensor.dtype is torch.bool else "whole"
    if kind == "number":
        own = kind if own == "float" or tensor.is_complex() else own
    return own == kind and is_plain(tensor) and tensor.numel() > 0 and (kind != "whole" or tensor.dtype in WHOLE)


def _is_asked(node: Node, rule: Rule, graph: OperatorGraph) -> bool:
    name = bare_name(node.operator)
    if rule.operators is None:
        return False
    if name == "sub" and VARIANCE in rule.operators and is_centring(graph, node):
        name = VARIANCE
    if name not in rule.operators:
        return False
    if rule.change is half_way and name == "div":
        return node.argument("rounding_mode") is not None
    if rule.change is half_way and name == "_to_copy":
        return _makes_whole(node, graph)
    if rule.change is half_way_pixels:
        return node.argument("interpolation_mode") == NEAREST
    if name == "div" and rule.change is negate_divided:
        return node.argument("rounding_mode") is not None
    if rule.change is set_rows_off and name not in PEAKED:  # a softmax by hand subtracts the largest number first
        return any(bare_name(it.operator) in ("exp", "exp2") for it in graph.nodes)
    if rule.change is clear_runs and name == "add":
        return _makes_scores(graph, node)
    if rule.change is set_otherwise:
        beside = [it for it in graph.nodes if not {*it.references()}.isdisjoint(node.references())]
        return all(
            bare_name(it.operator) in ASKING and (it.outputs[0].dtype == "bool" or "count" in it.operator)
            for it in beside
        )
    return name not in COMBINING or bool(node.argument(COMBINING[name]))


def _makes_scores(graph: OperatorGraph, node: Node) -> bool:
    """Return True if a softmax along the last dimension takes the sum of two tensors, or a view of it."""
    names = {node.output_name(0)} if len(list(references_in(node.arguments))) > 1 else set()
    for it in graph.nodes:
        if names.isdisjoint(it.references()):
            continue
        if bare_name(it.operator) in PEAKED:
            return it.argument("dim") in (-1, len(node.outputs[0].shape) - 1)
        if it.kind in ("view", "movement"):
            names |= {it.output_name(k) for k in range(len(it.outputs))}
    return False


def _traced(graph: OperatorGraph, name: str, scale: float, shift: float) -> Iterator[tuple[int, float, float]]:
    """Yield the inputs that this value comes from, with the factor and shift applied on the way."""
    if name in graph.inputs:
        yield int(name.removeprefix("x")), scale, shift
        return
    node = graph.producers().get(name)
    if node is None:
        return
    operator = bare_name(node.operator)
    references = list(references_in(node.arguments))
    if node.kind in ("view", "movement") or operator in PASSED_THROUGH:
        for other in references[:1] if operator in PASSED_THROUGH else references:
            yield from _traced(graph, other, scale, shift)
        return
    number = next((arg for arg in node.arguments if isinstance(arg, (int, float)) and not isinstance(arg, bool)), None)
    if operator == "neg" and references:
        yield from _traced(graph, references[0], -scale, shift)
    if number is None or len(references) != 1 or not isinstance(node.arguments[0], Reference):
        return
    if operator == "mul" and number:
        yield from _traced(graph, references[0], scale * number, shift)
    elif operator in ("div", "true_divide") and number and node.argument("rounding_mode") is None:
        yield from _traced(graph, references[0], scale / number, shift)
    elif operator in ("add", "sub") and len(node.arguments) == 2:
        yield from _traced(graph, references[0], scale, shift + scale * (number if operator == "add" else -number))


def _boundaries(node: Node, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]) -> torch.Tensor | None:
    position = BOUNDARIES.get(bare_name(node.operator))
    argument = node.arguments[position] if position is not None and len(node.arguments) > position else None
    if not isinstance(argument, Reference):
        return None
    if argument.name.startswith("x"):
        return tensors[int(argument.name.removeprefix("x"))]
    return known.get(argument.name.partition(":")[2])


def _beside(
    graph: OperatorGraph, feed: Feed, name: str, tensors: Sequence[torch.Tensor], known: dict[str, torch.Tensor]
) -> Feed:
    """Add the other operand of a comparison: a number, or an input or parameter that it is a view of."""
    others = [other for other in references_in(feed.node.arguments) if other != name]
    if not others and feed.scale:
        numbers = [it for it in feed.node.arguments[:2] if isinstance(it, int | float) and not isinstance(it, bool)]
        sound = [float(number - feed.shift) / feed.scale for number in numbers if math.isfinite(number)]
        whole = not tensors[feed.position].is_floating_point()
        return dataclasses.replace(feed, numbers=tuple(it for it in sound if it.is_integer() or not whole))
    if len(others) != 1:
        return feed
    seen = [others[0]]
    while (node := graph.producers().get(seen[-1])) is not None and node.kind == "view":
        seen.append(next(iter(node.references())))
    origin = seen[-1]
    position = int(origin.removeprefix("x")) if origin in graph.inputs else None
    found = known.get(origin.partition(":")[2]) if position is None else tensors[position]
    if found is None:
        return feed
    values = graph.values()
    shapes = [values[it].shape for it in seen if it in values and math.prod(values[it].shape) == found.numel()]
    shape = shapes[0] if shapes else found.shape
    return dataclasses.replace(feed, boundaries=found.reshape(shape), beside=position)


__all__ = ["COMPARING", "DIRECTED", "NOT_FINITE", "TIES", "Directed", "directed"]
