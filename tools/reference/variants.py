"""The family of a problem: other sizes at which a candidate has to be correct.

A kernel with a hard-coded shape passes only at that shape, so the family holds sizes that no block size divides: a
batch larger by one, a batch of one, prime feature sizes, and each size two to four times as large. If the sizes given
are no powers of two, one variant has such sizes. Each variant is proven: the reference ran there, its shapes differ,
and its outputs are finite where they were before. Offsets still end at the size of what they divide (the rows of a
packed batch). Variants only change sizes that a candidate is given. Variants at which the module calls other functions,
because it loops over a size or branches on one, come last and are few, since a kernel file may lack a program for them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.reference.footprint import FULL_SIZE, Footprint, Limits
from triton_agent.tools.reference.scaling import scaled_by
from triton_agent.tools.reference.size_trials import LEADING, Trials
from triton_agent.tools.reference.sizes import AS_GIVEN, INPUTS, SIZES, SMALL, Variant, twin_changed

MOST_VARIANTS = 5
"""Maximum number of variants besides the first and larger ones. Each costs a candidate a compilation and calls."""
GROWN_LOAD, GROWN_WORK = 0.5, 10.0
"""Share of the limits, and multiple of the anchor's load, that a larger variant may use: enough for two sizes three
times as large."""
ENOUGH = 2
"""With this many variants that call the same functions, none with other functions is added."""


def family(
    spec: ProblemSpec,
    seed: int,
    *,
    limits: Limits = FULL_SIZE,
    base: Variant = AS_GIVEN,
    device: str = "cpu",
    pause: Callable[[], None] = lambda: None,
) -> list[Variant]:
    """Return `base` and up to seven proven variants (`MOST_VARIANTS` and two larger ones), all with different shapes.

    If `base` exceeds the limits, it is not run, and the variants belong to a scaled-down problem. `pause` is called
    between runs.
    """
    trials = Trials(spec, seed, limits, device, pause)
    anchor = base
    if not trials.fits(base):
        small = scaled_by(trials)
        if small is None:
            return [base]
        anchor = small.variant
    proven = trials.prove(anchor)
    if proven is None:
        return [base]
    found: list[Variant] = []
    others: list[Variant] = []
    shapes = {_shapes(proven)}
    sizes = _Neighbours(trials, anchor, proven)
    offsets = trials.offsets(anchor)

    def keeps_offsets(variant: Variant) -> bool:
        """Return False if offsets no longer end at the size of what they divide, which a kernel may rely on."""
        if not offsets:
            return True
        kept = offsets & trials.offsets(variant)
        return {number for number, *_ in kept} == {number for number, *_ in offsets}

    for variant in sizes.proposals():
        if len(found) == MOST_VARIANTS or trials.out_of_time:
            break
        real = trials.prove(variant)
        if real is None or real.load(trials.limits) > 1 or _shapes(real) in shapes or not _is_like(real, proven):
            continue
        if not keeps_offsets(variant):
            continue
        shapes.add(_shapes(real))
        if real.calls != proven.calls:
            others.append(variant)
            continue
        sizes.taken.add(variant)
        found.append(variant)
    few = others[: max(0, ENOUGH - len(found))]
    load_at_most = min(GROWN_LOAD, GROWN_WORK * proven.load(trials.limits))

    def serves(variant: Variant) -> bool:
        real = None if trials.out_of_time else trials.prove(variant)
        if real is None or real.load(trials.limits) > load_at_most or _shapes(real) in shapes:
            return False
        return _is_like(real, proven) and real.calls == proven.calls and keeps_offsets(variant)

    return [base, *found, *sizes.grown(serves), *few]


def _is_like(footprint: Footprint, proven: Footprint) -> bool:
    """Return False if numbers are not finite, or a result is empty, only here: the module is not meant for the size."""
    return footprint.finite == proven.finite and footprint.makes_empty <= proven.makes_empty


def _shapes(footprint: Footprint) -> object:
    return footprint.input_shapes, footprint.output_shapes, footprint.parameter_elements


class _Neighbours:
    """Proposes sizes near an anchor, the most revealing first."""

    def __init__(self, trials: Trials, anchor: Variant, footprint: Footprint) -> None:
        self.trials = trials
        self.at = trials.sizes | dict(anchor.constants)
        self.footprint = footprint
        sizes = [shape[0] for shape in footprint.input_shapes if shape]
        if sizes:
            self.at[LEADING] = max(set(sizes), key=sizes.count)
        self.given = dict(trials.sizes)
        self.anchor = anchor
        self.taken: set[Variant] = set()
        """Accepted proposals; later proposals depend on them."""

    def proposals(self) -> Iterator[Variant]:
        """Yield variants: odd lengths; a batch of one; powers of two; features prime, or twice as large; and others.

        Kernels often leave out masks for powers of two, and the sizes given need not be any.
        """
        lengths, features = self._kinds()
        if lengths:
            yield from self._together_or_each({key: odd_above(self.at[key]) for key in lengths})
            for key in lengths:  # a leading dimension of one, where broadcasting and `squeeze` go wrong
                single = self.trials.estimate(self._variant({key: 1}))
                if single is not None and all(shape[0] == 1 for shape in single.input_shapes[:1] if shape):
                    yield self._variant({key: 1})
                    break
        powers = powers_near({key: self.at[key] for key in (*lengths, *features) if self.at[key] > SMALL})
        if any(value != self.at[key] for key, value in powers.items()):
            yield from self._together_or_each(powers)
        if features:
            yield from self._together_or_each({key: prime_below(self.at[key]) for key in features})
            yield from self._together_or_each({key: 2 * self.at[key] + 1 for key in features})
            yield from self._together_or_each({key: three_quarters(self.at[key]) for key in features})
            yield from self._other_multiples(features)
        if lengths:
            # Odd and even in turn, so that sizes that are equal or equally far apart in other variants differ here.
            apart = self._variant({key: odd_below(self.at[key]) + i % 2 for i, key in enumerate(lengths)})
            yield apart
            if len(lengths) > 1 and apart not in self.taken:
                yield from self._together_or_each({key: odd_below(self.at[key]) for key in lengths})
            yield from self._other_multiples(lengths)
        if LEADING in self.at and not self.taken:
            others = (1, odd_below(self.at[LEADING])) if self.at[LEADING] > 1 else (2,)
            for value in (odd_above(self.at[LEADING]), *others):
                yield self._variant({LEADING: value})

    def grown(self, serves: Callable[[Variant], bool]) -> list[Variant]:
        """Return one variant that serves with all sizes two or three times as large, or two with half of them each."""
        lengths, features = self._kinds()
        keys = [*lengths, *features]
        together = self._first_grown([keys], serves)
        if together or len(keys) < 2:
            return together
        half = len(keys) // 2
        found: list[Variant] = []
        for part in (keys[half:], keys[:half]):  # a single one of a part, the last first, if they cannot grow together
            found += self._first_grown([part, *([key] for key in reversed(part))], serves)
        return found

    def _first_grown(self, choices: Sequence[Sequence[str]], serves: Callable[[Variant], bool]) -> list[Variant]:
        """Return the first variant that serves in which all sizes of a choice grow, or nothing."""
        proposals = itertools.chain.from_iterable(map(self._times, choices))
        return list(itertools.islice(filter(serves, proposals), 1))

    def _times(self, keys: Sequence[str]) -> Iterator[Variant]:
        """Yield variants with these sizes two to four times as large, the others as given or as small as accepted."""
        small = self._smallest()
        for others in ({}, {key: value for key, value in small.items() if key not in keys}):
            for times in (3, 2) if len(keys) > 1 else (4, 3, 2):
                yield self._variant(others | {key: times * self.at[key] + 1 for key in keys})
                if len(keys) == 1:
                    yield self._variant(others | {key: times * self.at[key] for key in keys})

    def _kinds(self) -> tuple[list[str], list[str]]:
        """Return lengths, which change inputs but no parameters, and features, which change parameters."""
        lengths, features = [], []
        for key in self.at:
            if key == LEADING or twin_changed(key, self.at, self.given):
                continue
            changed = self._probe(key)
            if changed is None or _shapes(changed) == _shapes(self.footprint):
                continue
            if changed.parameter_elements != self.footprint.parameter_elements:
                shapes_inputs = changed.input_shapes != self.footprint.input_shapes
                features += [key] if self.at[key] > SMALL or shapes_inputs else []
            elif changed.input_shapes != self.footprint.input_shapes:
                lengths.append(key)
        return _without_doubles(lengths, features), _without_doubles(features, ())

    def _probe(self, key: str) -> Footprint | None:
        """Return the footprint with this size changed to the first nearby value at which the reference runs."""
        size = self.at[key]
        for value in (odd_above(size), prime_below(size), three_quarters(size), max(1, size // 2), 2 * size):
            if value != size:
                found = self.trials.estimate(self._variant({key: value}))
                if found is not None:
                    return found
        return None

    def _together_or_each(self, changes: Mapping[str, int]) -> Iterator[Variant]:
        together = self._variant(changes)
        yield together
        if len(changes) > 1 and together not in self.taken:
            for key, value in changes.items():
                yield self._variant({key: value})

    def _other_multiples(self, keys: list[str]) -> Iterator[Variant]:
        """Propose multiples of other divisors for sizes that no accepted variant changes.

        Such a size must be a multiple of a number that is not written anywhere. A kernel with a hard-coded
        `channels // groups` would be correct at all other variants. Larger sizes come first, with other sizes as small
        as in the accepted variants if need be: half of a size may be a single group, for which torch runs other
        operators.
        """
        for key in keys:
            for n in divisors_of(self.at[key]):
                larger, smaller = self._variant({key: self.at[key] + n}), self._variant({key: self.at[key] - n})
                for variant in (larger, self._with_small_others(larger), smaller):
                    if any(other.constants.get(key, self.given[key]) != self.at[key] for other in self.taken):
                        break
                    if variant is not None:
                        yield variant

    def _with_small_others(self, variant: Variant) -> Variant | None:
        """Return a variant above the limits with its other sizes as small as in accepted variants; else None."""
        real = self.trials.prove(variant)
        if real is None or real.load(self.trials.limits) <= 1:
            return None
        return self._variant(dict(variant.constants) | self._smallest())

    def _smallest(self) -> dict[str, int]:
        """Return the smallest size by key in accepted variants, where it is smaller than the anchor's."""
        small: dict[str, int] = {}
        for variant in self.taken:
            for key, value in variant.constants.items():
                if value < small.get(key, self.at.get(key, value)):
                    small[key] = value
        return small

    def _variant(self, changes: Mapping[str, int]) -> Variant:
        sizes = {key: value for key, value in self.at.items() if key != LEADING} | dict(changes)
        if self.anchor.batch is not None:
            sizes.setdefault(LEADING, self.anchor.batch)
        return self.trials.variant(sizes, self.given)


def _without_doubles(keys: list[str], preferred: list[str] | tuple[str, ...]) -> list[str]:
    """Drop `inputs 512` if there is `sizes 512`, so that each written value has one key."""
    everywhere = {key.removeprefix(SIZES) for key in (*keys, *preferred) if key.startswith(SIZES)}
    return [key for key in keys if not (key.startswith(INPUTS) and key.removeprefix(INPUTS) in everywhere)]


def odd_above(value: int) -> int:
    return value + 1 if value % 2 == 0 else value + 2


def odd_below(value: int) -> int:
    """Return the largest prime up to three quarters of the size."""
    return prime_below(value * 3 // 4 + 1)


def prime_below(value: int) -> int:
    """Return the largest prime less than this, or 1 if there is none."""
    candidates = range(value - 1, 1, -1)
    return next((n for n in candidates if all(n % d for d in range(2, math.isqrt(n) + 1))), 1)


def divisors_of(value: int) -> list[int]:
    """Return the divisors except 1 and the number itself, in rising order."""
    small = [n for n in range(2, math.isqrt(value) + 1) if value % n == 0]
    return sorted({*small, *(value // n for n in small)})


def powers_near(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return a power of two for each size, mostly the one below it; different sizes get different ones."""
    power_of = dict[int, int]()
    for size in sorted(set(sizes.values())):
        power = 1 << size.bit_length() - 1
        while power in power_of.values():
            power *= 2
        power_of[size] = power
    return {key: power_of[size] for key, size in sizes.items()}


def three_quarters(value: int) -> int:
    """Return a multiple of 8 near three quarters, for modules that need divisible sizes; the size itself below 32."""
    return value * 3 // 4 // 8 * 8 if value >= 32 else value
