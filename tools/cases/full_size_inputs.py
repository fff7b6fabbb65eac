"""Inputs for a size at which few calls are made: each holds several distributions at once.

What the reference accepts is known from the cases at a size that is checked completely (`told_by`). Integers only
become negative where the reference accepted many negative ones, and no index is made out of bounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch

from triton_agent.tools.cases.directed import FAINT, LIMITS, NUMBERS, OFFSET, TIES
from triton_agent.tools.cases.distributions import (
    BLANK,
    EXTREMES,
    FLAGS,
    LEAST_SPREADS,
    NOT_FINITE,
    OUTLIER_SPREADS,
    OVERFLOW_MARGIN,
    WHOLE,
    WITH_EMPTY,
    first_with_several,
    has_both_signs,
    put_under,
    real_valued_in,
)
from triton_agent.tools.cases.input_changes import BEYOND_EXP, FAINT_POWERS, NARROW_WHOLE
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.cases.whole_numbers import EQUAL
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.input_tensors import is_plain
from triton_agent.tools.truth.expectation import Expectation

MIXED = {"x3": 3.0, "x0.01": 0.01}
"""Factors for elements of a call that holds several distributions at once, by the distribution's name."""
NEGATED_SHARE = 0.25
"""Share of samples that become negative in inputs at full size, if all elements are positive."""
FAINT_SHARE = 1 / 6
"""Share of samples that become as small as an epsilon in such a call, if the reference accepts that."""
NEGATED_WHOLES = 1 / 3
"""Share of integers that become negative in such a call, if the reference accepts that."""
FEWEST_NEGATIVE = 3
"""With fewer different negative numbers, these are labels to ignore or indices counted from the end."""
SPOILED_KINDS = ("", EXTREMES, EXTREMES, NOT_FINITE, NOT_FINITE, BLANK)
"""What happens to the samples of a call with extreme inputs."""
SPOILED_IF_KNOWN = (OFFSET, TIES, FAINT, FAINT)
"""What else may happen to a sample, if the reference accepts it."""
KINDS_IN_TURN = len(SPOILED_KINDS) + len(SPOILED_IF_KNOWN)
"""Number of consecutive samples that hold all kinds. Programs are chosen so that they meet each (`spot_checks.py`)."""
SPOILED_SHARES = {EXTREMES: 1 / 16, NOT_FINITE: 1 / 64}
"""Share of the elements that change in a sample of each kind."""
WHOLE_OFFSET = 100.0
"""Distance of a whole tensor from zero, in standard deviations, that a norm is asked for."""
FAR_SPREADS = 128.0
"""Distance of samples from zero, in standard deviations: a variance in one pass then loses 14 of 24 bits."""
FAR_BEYOND_EXP = 2 * BEYOND_EXP
"""Largest outlier, if the reference accepts huge numbers."""
MIXED_AT_ONCE = 1 << 20
"""Number of elements processed at once, since their factors take memory too."""
MAJORITY = (0.6, 1.0)
"""Range of the share of equal whole numbers in a call in which most are equal, as pixels of a background are."""
LARGEST_SHARE, LARGEST_OF_A_LINE = 1 / 6, 7 / 8
"""Share of such rows, and of such columns, and share of their elements: sums of equal numbers are round."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the reference accepts, as far as cases at another size tell."""

    names: frozenset[str] = frozenset()
    """Names of distributions."""
    infinities: tuple[float, ...] = ()
    """Infinities that may stand beside NaN."""
    holding_nan: frozenset[int] | None = None
    """Numbers of the input tensors that may hold NaN; None stands for all."""
    negated: frozenset[int] = frozenset()
    """Numbers of the input tensors whose integers may become negative."""
    equal: frozenset[int] = frozenset()
    """Numbers of the input tensors whose integers may all be equal."""
    changes: Mapping[str, Callable[[list[Any], torch.Generator], None]] = dataclasses.field(default_factory=dict)
    """By distribution, what changes integers and flags to values at which the reference's operators behave specially.
    """


def told_by(cases: Iterable[Case]) -> Told:
    names, infinities, negated, equal, holding_nan = set[str](), set[float](), set[int](), set[int](), set[int]()
    changes: dict[str, Callable[[list[Any], torch.Generator], None]] = {}
    for case in cases:
        given = [it for it in case.expectation.inputs_after if not it.is_meta]
        name, floats = case.distribution, [it for it in given if it.is_floating_point()]
        if name == NOT_FINITE:
            holders = {at for at, it in enumerate(given) if it.is_floating_point() and bool(it.isnan().any())}
            holding_nan |= holders
            is_told = bool(holders) and not _is_free(case.expectation)
            if is_told and not any(out.yard.unbounded is not None for out in case.expectation.outputs):
                infinities |= {way for way in (math.inf, -math.inf) for it in floats if bool((it == way).any())}
        elif name == OFFSET:  # of a whole tensor, as for a norm; rows that are off belong to a softmax
            is_told = any(it.numel() > 1 and float(it.mean().abs()) > WHOLE_OFFSET * float(it.std()) for it in floats)
        else:
            is_told = name != TIES or not _is_free(case.expectation, of_floats=True)
        if is_told:
            names.add(name)
        if case.change is not None:
            changes[name] = case.change
        if name == EQUAL:
            equal |= {at for at, it in enumerate(given) if not _is_real(it) and _has_one_number(it)}
        if name == NUMBERS:
            negated |= {at for at, it in enumerate(given) if not _is_real(it) and _has_many_negative(it)}
    return Told(
        names=frozenset(names),
        infinities=tuple(sorted(infinities)),
        holding_nan=frozenset(holding_nan),
        negated=frozenset(negated),
        equal=frozenset(equal),
        changes=changes,
    )


def _is_free(expectation: Expectation, *, of_floats: bool = False) -> bool:
    """Return True if elements of an output may be what they like: positions of NaN, or of one of several equals."""
    yards = [output.yard for output in expectation.outputs]
    return any(yard.span is not None and (of_floats or not yard.original.is_floating_point()) for yard in yards)


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool


def _has_one_number(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all())


def _has_many_negative(tensor: torch.Tensor) -> bool:
    return len(torch.unique(tensor[tensor < 0])) >= FEWEST_NEGATIVE


def mix(inputs: list[Any], known: Collection[str], seed: int, negated: Collection[int] = ()) -> None:
    """Put elements under several distributions at once, in place.

    `known` are the distributions that the reference accepts at another size. Of those of floats each gets a share of
    the elements, and one share stays as given. If all elements of a tensor have one sign, so do those of a sample: its
    sum would cancel otherwise. `negated` are the numbers of tensors whose integers may become negative.
    """
    factors = [1.0, *(factor for name, factor in MIXED.items() if name in known)]
    for name in (FLAGS, *[it for it in (WITH_EMPTY, WHOLE) if it in known][:1]):
        if name in known:
            put_under(name, inputs, seed)
    with torch.no_grad():
        for number, whole in enumerate(nested_tensors(inputs)):
            if number in negated and is_plain(whole):
                generator = torch.Generator(whole.device).manual_seed(seed)
                drawn = torch.rand(whole.shape, generator=generator, device=whole.device)
                whole.copy_(torch.where(drawn < NEGATED_WHOLES, -whole, whole))
        for tensor in real_valued_in(inputs):
            generator = torch.Generator(tensor.device).manual_seed(seed)
            choices = torch.tensor(factors, device=tensor.device, dtype=tensor.dtype)
            axis = first_with_several(tensor)
            samples = tensor.reshape(1) if axis is None else tensor.movedim(axis, 0)
            negates = "one sign" in known and not has_both_signs(samples)
            for part in torch.split(samples, max(1, MIXED_AT_ONCE * len(samples) // max(1, samples.numel()))):
                chosen = torch.randint(len(factors), part.shape, generator=generator, device=part.device)
                part.mul_(choices[chosen])
                negative = torch.rand(len(part), generator=generator, device=part.device) < NEGATED_SHARE
                if negates:
                    part[negative] = -part[negative]
                if FAINT in known:
                    drawn = torch.rand(len(part), generator=generator, device=part.device)
                    _make_faint(part, (drawn < FAINT_SHARE).nonzero().flatten(), generator)


def spoil(inputs: list[Any], told: Told, seed: int) -> None:
    """Put outliers, zeros, NaN, equal elements and a distance from zero into random samples, in place.

    Each happens if its distribution is among those told. NaN and the distance get into one tensor only, since an answer
    may depend on all elements of another. Rows and columns of narrow integers become as large as the largest. Labels,
    indices, flags and other integers change as they were told.
    """
    chance = torch.Generator().manual_seed(seed)
    for name, change in told.changes.items():
        if name in told.names:
            change(inputs, chance)
    with torch.no_grad():
        ready = [it for it in real_valued_in(inputs) if not it.is_complex()]
        given = enumerate(nested_tensors(inputs))
        holders = {it.data_ptr() for at, it in given if told.holding_nan is None or at in told.holding_nan}
        fitting = [at for at, it in enumerate(ready) if it.data_ptr() in holders] or [*range(len(ready))]
        chosen = fitting[int(torch.randint(len(fitting), (1,), generator=chance))] if ready else 0
        for number, tensor in enumerate(ready):
            _spoil_samples(tensor, told, chance, is_chosen=number == chosen)
        for tensor in nested_tensors(inputs):
            if tensor.dtype in NARROW_WHOLE and is_plain(tensor) and tensor.dim() > 1 and tensor.numel():
                largest = int(tensor.max())
                for axis in (0, -1):
                    lines = torch.rand(tensor.shape[axis], generator=chance) < LARGEST_SHARE
                    moved = tensor.movedim(axis, 0)
                    taken = torch.rand(moved.shape, generator=chance) < LARGEST_OF_A_LINE
                    taken &= lines.reshape(-1, *(1 for _ in moved.shape[1:]))
                    moved[taken] = largest


def make_most_equal(inputs: list[Any], chosen: Collection[int], seed: int) -> bool:
    """Set most elements of the chosen input tensors to their least number, in place; return False if there are none.

    A count of a class then needs more bits. The least number often stands for the background or for padding.
    """
    chance, changed = torch.Generator().manual_seed(seed), False
    with torch.no_grad():
        for number, whole in enumerate(nested_tensors(inputs)):
            if number in chosen and is_plain(whole) and whole.numel() > 1:
                share = MAJORITY[0] + (MAJORITY[1] - MAJORITY[0]) * float(torch.rand((), generator=chance))
                generator = torch.Generator(whole.device).manual_seed(seed + number)
                flat, least = whole.reshape(-1), int(whole.min())
                for part in torch.split(flat, MIXED_AT_ONCE):
                    drawn = torch.rand(part.shape, generator=generator, device=part.device)
                    part.masked_fill_(drawn < share, least)
                if flat.data_ptr() != whole.data_ptr():
                    whole.copy_(flat.reshape(whole.shape))
                changed = True
    return changed


def _make_faint(samples: torch.Tensor, chosen: torch.Tensor, generator: torch.Generator) -> None:
    """Make each of the chosen samples as small as some epsilon, unless their dtype is too narrow for that."""
    if samples.element_size() >= 4:
        at = torch.randint(len(FAINT_POWERS), (len(chosen),), generator=generator, device=generator.device)
        factors = 10.0 ** torch.tensor(FAINT_POWERS, device=at.device)[at]
        samples[chosen] *= factors.to(samples).reshape(-1, *(1 for _ in samples.shape[1:]))


def _spoil_samples(tensor: torch.Tensor, told: Told, chance: torch.Generator, *, is_chosen: bool) -> None:
    axis = first_with_several(tensor)
    samples = tensor.reshape(1) if axis is None else tensor.movedim(axis, 0)
    parts = torch.split(samples, max(1, MIXED_AT_ONCE * len(samples) // max(1, samples.numel())))
    squares = sum(float(part.double().nan_to_num(0.0, 0.0, 0.0).square_().sum()) for part in parts)
    spread = math.sqrt(squares / samples.numel())
    largest = torch.finfo(tensor.dtype).max / OVERFLOW_MARGIN
    kinds = [name for name in (*SPOILED_KINDS, *SPOILED_IF_KNOWN) if not name or name in told.names]
    kinds = [name for name in kinds if is_chosen or name not in (NOT_FINITE, OFFSET)]
    order = torch.randperm(KINDS_IN_TURN, generator=chance)
    in_turn = [kinds[int(at) % len(kinds)] for at in order]
    first = 0
    for part in parts:
        kind = torch.arange(first, first + len(part)) % KINDS_IN_TURN
        first += len(part)
        for name in dict.fromkeys(in_turn):
            mine = torch.tensor([it == name for it in in_turn])[kind].nonzero().flatten()
            if name == BLANK:
                part[mine] = 0
            elif name == OFFSET and tensor.element_size() >= 4:
                part[mine] += FAR_SPREADS * spread
            elif name == FAINT:
                _make_faint(part, mine, chance)
            elif name == TIES and spread:
                part[mine] = (part[mine] / (spread / 2)).round_().clamp_(-3, 3) * (spread / 2)
            elif name in SPOILED_SHARES:
                drawn = torch.rand((len(mine), *part.shape[1:]), generator=chance) < SPOILED_SHARES[name]
                which, *places = drawn.nonzero(as_tuple=True)
                index = (mine[which], *places)
                if name == NOT_FINITE:
                    values = torch.tensor([math.nan, *told.infinities], dtype=part.dtype)
                    part[index] = values[torch.randint(len(values), (len(which),), generator=chance)]
                    continue
                most = OUTLIER_SPREADS
                if LIMITS in told.names and tensor.element_size() >= 4 and spread:
                    most = max(most, FAR_BEYOND_EXP / spread)
                powers = torch.rand(len(which), generator=chance) * math.log(most / LEAST_SPREADS)
                sizes = (spread * LEAST_SPREADS * powers.exp()).to(part.dtype).clamp(max=largest)
                part[index] = torch.where(part[index] < 0, -sizes, sizes)  # keeps the sign
