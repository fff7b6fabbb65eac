"""The shape family of a problem: other sizes at which the same module has to be right.

A kernel with a shape written into it passes at that shape and nowhere else, so the family holds sizes that no block
size divides: a batch of one more, of one, prime feature sizes, and one up to four times as large. Each is proven: the
original was run there, its shapes really differ, and its outputs are as finite as before. Variants never change what a
candidate cannot be told. Those at which the module calls other functions (it loops over a size, or asks for one) come
last: each is a program of its own, and a kernel's file need not hold them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_agent.tools.problem import ProblemSpec
from triton_agent.tools.verify.footprint import FULL_SIZE, INTERPRETER, Footprint, Limits
from triton_agent.tools.verify.scaling import Scaled, scaled_by, scaled_down
from triton_agent.tools.verify.sizes import AS_GIVEN, INPUTS, SIZES, SMALL, Variant, twin_changed
from triton_agent.tools.verify.trials import LEADING, Trials, reference_for

__all__ = [
    "AS_GIVEN",
    "FULL_SIZE",
    "INTERPRETER",
    "Limits",
    "Scaled",
    "Variant",
    "family",
    "reference_for",
    "scaled_down",
]

MOST_VARIANTS = 5
"""Beside the first. Each costs a candidate a compile and a few calls."""
GROWN_LOAD, GROWN_WORK = 0.5, 10.0
"""Of the limits, and times the given size, which a larger one may take: two sizes three times as large."""
ENOUGH = 2
"""So many at which the same functions are called, and no others are asked for."""


def family(
    spec: ProblemSpec,
    seed: int,
    *,
    limits: Limits = FULL_SIZE,
    base: Variant = AS_GIVEN,
    device: str = "cpu",
) -> list[Variant]:
    """`base` first (it is not run here if it is beyond the limits), then up to six proven variants of it."""
    trials = Trials(spec, seed, limits, device)
    anchor = base
    if not trials.fits(base):
        small = scaled_by(trials)
        if small is None:
            return [base]
        anchor = small.variant
    return [base, *_around(trials, anchor)]


def _around(trials: Trials, anchor: Variant) -> list[Variant]:
    """Proven variants near the anchor, whose shapes differ from one another's."""
    proven = trials.prove(anchor)
    if proven is None:
        return []
    found: list[Variant] = []
    others: list[Variant] = []
    shapes = {_shapes(proven)}
    sizes = _Neighbours(trials, anchor, proven)
    for variant in sizes.proposals():
        if len(found) == MOST_VARIANTS or trials.out_of_time:
            break
        real = trials.prove(variant)
        if real is None or real.load(trials.limits) > 1 or real.finite != proven.finite or _shapes(real) in shapes:
            continue
        shapes.add(_shapes(real))
        if real.calls != proven.calls:
            others.append(variant)
            continue
        sizes.accepted(variant)
        found.append(variant)
    grown = next((variant for variant in sizes.grown() if _is_larger(trials, variant, proven, shapes)), None)
    return found + ([grown] if grown is not None else []) + others[: max(0, ENOUGH - len(found))]


def _is_larger(trials: Trials, variant: Variant, proven: Footprint, shapes: set[object]) -> bool:
    """Whether the original runs there, by the same functions, and it is cheap enough and new."""
    real = None if trials.out_of_time else trials.prove(variant)
    return (
        real is not None
        and real.load(trials.limits) <= min(GROWN_LOAD, GROWN_WORK * proven.load(trials.limits))
        and (real.finite, real.calls) == (proven.finite, proven.calls)
        and _shapes(real) not in shapes
    )


def _shapes(footprint: Footprint) -> object:
    return footprint.input_shapes, footprint.output_shapes, footprint.parameter_elements


class _Neighbours:
    """Sizes near an anchor, those first that expose the most."""

    def __init__(self, trials: Trials, anchor: Variant, footprint: Footprint) -> None:
        self.trials = trials
        self.at = trials.sizes | dict(anchor.constants)
        self.footprint = footprint
        sizes = [shape[0] for shape in footprint.input_shapes if shape]
        if sizes:
            self.at[LEADING] = max(set(sizes), key=sizes.count)
        self.given = dict(trials.sizes)
        self.anchor = anchor
        self._taken: set[Variant] = set()

    def accepted(self, variant: Variant) -> None:
        self._taken.add(variant)

    def proposals(self) -> Iterator[Variant]:
        """All lengths odd at once, else one by one; a batch of one; all features prime, or about twice as large."""
        lengths, features = self._kinds()
        if lengths:
            yield from self._together_or_each({key: odd_above(self.at[key]) for key in lengths})
            yield from self._single_row(lengths)
        if features:
            yield from self._together_or_each({key: prime_below(self.at[key]) for key in features})
            yield from self._together_or_each({key: 2 * self.at[key] + 1 for key in features})
            yield from self._together_or_each({key: three_quarters(self.at[key]) for key in features})
            yield from self._other_multiples(features)
        if lengths:
            yield from self._smaller(lengths)
            yield from self._other_multiples(lengths)
        if LEADING in self.at and not self._taken:
            for value in (odd_above(self.at[LEADING]), 1, odd_below(self.at[LEADING])):
                yield self._variant({LEADING: value})

    def grown(self) -> Iterator[Variant]:
        """All sizes about three times as large, else one of them four, three or two times, the last one first."""
        lengths, features = self._kinds()
        keys = [*lengths, *features]
        for times in (3, 2) if len(keys) > 1 else ():
            yield self._variant({key: times * self.at[key] + 1 for key in keys})
        for times in (4, 3, 2):
            for key in reversed(keys):
                yield self._variant({key: times * self.at[key] + 1})
                yield self._variant({key: times * self.at[key]})

    def _kinds(self) -> tuple[list[str], list[str]]:
        """Lengths change the inputs and leave the parameters alone; features change the parameters."""
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
        """The footprint with this size changed a little, however the original lets it be changed."""
        for change in (odd_above, prime_below, three_quarters, _half):
            value = change(self.at[key])
            if value != self.at[key]:
                found = self.trials.estimate(self._variant({key: value}))
                if found is not None:
                    return found
        return None

    def _together_or_each(self, changes: Mapping[str, int]) -> Iterator[Variant]:
        together = self._variant(changes)
        yield together
        if len(changes) > 1 and together not in self._taken:
            for key, value in changes.items():
                yield self._variant({key: value})

    def _smaller(self, lengths: list[str]) -> Iterator[Variant]:
        """Odd and even by turns: what is equal, or as far from each other everywhere else, is not here."""
        apart = self._variant({key: odd_below(self.at[key]) + i % 2 for i, key in enumerate(lengths)})
        yield apart
        if len(lengths) > 1 and apart not in self._taken:
            yield from self._together_or_each({key: odd_below(self.at[key]) for key in lengths})

    def _other_multiples(self, keys: list[str]) -> Iterator[Variant]:
        """For sizes that nothing has changed yet, having to be multiples of a number that is written nowhere: a kernel
        with `channels // groups` in it as a number would be right at all others.
        """
        for key in keys:
            for value in multiples_beside(self.at[key]):
                if any(variant.constants.get(key, self.given[key]) != self.at[key] for variant in self._taken):
                    break
                yield self._variant({key: value})

    def _single_row(self, lengths: list[str]) -> Iterator[Variant]:
        """A leading dimension of one: where broadcasting and `squeeze` go wrong."""
        for key in lengths:
            found = self.trials.estimate(self._variant({key: 1}))
            if found is not None and all(shape[0] == 1 for shape in found.input_shapes[:1] if shape):
                yield self._variant({key: 1})
                return

    def _variant(self, changes: Mapping[str, int]) -> Variant:
        sizes = {key: value for key, value in self.at.items() if key != LEADING} | dict(changes)
        if self.anchor.batch is not None:
            sizes.setdefault(LEADING, self.anchor.batch)
        return self.trials.variant(sizes, self.given)


def _without_doubles(keys: list[str], preferred: list[str] | tuple[str, ...]) -> list[str]:
    """A written value once: `inputs 512` is dropped where `sizes 512` serves."""
    everywhere = {key.removeprefix(SIZES) for key in (*keys, *preferred) if key.startswith(SIZES)}
    return [key for key in keys if not (key.startswith(INPUTS) and key.removeprefix(INPUTS) in everywhere)]


def odd_above(value: int) -> int:
    return value + 1 if value % 2 == 0 else value + 2


def odd_below(value: int) -> int:
    """The largest prime up to three quarters of the size."""
    return prime_below(value * 3 // 4 + 1)


def prime_below(value: int) -> int:
    """The largest prime less than this; 1 where there is none."""
    candidates = range(value - 1, 1, -1)
    return next((n for n in candidates if all(n % d for d in range(2, int(n**0.5) + 1))), 1)


def multiples_beside(value: int) -> Iterator[int]:
    """Of each of its divisors, the finest first."""
    for divisor in range(2, value // 2 + 1):
        if value % divisor == 0:
            yield from (value - divisor, value + divisor)


def three_quarters(value: int) -> int:
    """A multiple of 8 that is no power of two, for modules that need divisible sizes; the size itself below 32."""
    return value * 3 // 4 // 8 * 8 if value >= 32 else value


def _half(value: int) -> int:
    return max(1, value // 2)
