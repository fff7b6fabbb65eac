"""Finds sizes at which a problem fits given limits, without running it at full size.

Sizes are halved, the largest first, as long as the reference still runs. Sizes that must stay equal are halved
together. Numbers up to 8 (heads, groups, kernel sizes) are not changed. If no size can be changed, the leading
dimension of the inputs is cut.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator

from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.reference.footprint import INTERPRETER, Footprint, Limits
from triton_agent.tools.reference.size_trials import LEADING, Trials
from triton_agent.tools.reference.sizes import AS_GIVEN, INPUTS, SIZES, SMALL, Variant, resize_spec, twin_changed

FLOORS = (32, 8, 1)
"""Sizes are reduced to the first floor before any goes below it, then to the second, then to the third."""

FIXED_PARAMETERS_AT_MOST = 1 << 25
"""Number of elements by which parameters of fixed size may exceed the interpreter's limits: twice a linear layer of
4096 by 4096. Each call of such a module takes the interpreter seconds."""
FIXED_ROWS = 8
"""Multiply-adds allowed for each of these parameters, in addition to the limits."""

ROOM_FOR_FINITE = 4
"""Multiple of the interpreter's limits at which outputs may become finite: where labels of the first positions are
ignored, none is left in a short sequence, and the loss is NaN."""

FEWER = 0.75
"""Share of the operators that a smaller size must leave to count as one that decides how many there are."""

STEEP_LOAD = 64
"""From this multiple of the limits on, a problem is scaled down by quarters instead of halves."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A problem scaled down to fit limits."""

    variant: Variant
    sentence: str
    """The changes in words; empty if the problem fits as given."""


def scaled_down(
    spec: ProblemSpec,
    seed: int,
    *,
    limits: Limits = INTERPRETER,
    device: str = "cpu",
    pause: Callable[[], None] = lambda: None,
) -> Scaled | None:
    """Return the problem at sizes within the limits, proven by a run; None if none were found in time.

    Raise `ProblemError` if a run at the given sizes fails: at smaller sizes it would be another problem. `pause` is
    called between runs.
    """
    return scaled_by(Trials(spec, seed, limits, device, pause))


def scaled_for_interpreter(spec: ProblemSpec, seed: int) -> tuple[Scaled | None, Limits]:
    """Return the problem at sizes for the interpreter, and the limits that they keep.

    Parameters whose sizes are written in the class cannot change. If these alone exceed the limits, the limits are
    raised by them, and everything else is scaled down to fit. They are raised, too, where outputs are finite at larger
    sizes only.
    """
    trials, limits = Trials(spec, seed, INTERPRETER), INTERPRETER
    search = _Search(trials)
    found = _found(search)
    fixed = search.reached.parameter_elements if search.reached is not None else 0
    if found is None and INTERPRETER.elements_at_most // 2 < fixed <= FIXED_PARAMETERS_AT_MOST:
        limits = dataclasses.replace(
            INTERPRETER,
            elements_at_most=INTERPRETER.elements_at_most + fixed,
            flops_at_most=INTERPRETER.flops_at_most + 2 * FIXED_ROWS * fixed,
        )
        trials = Trials(spec, seed, limits)
        found = scaled_by(trials)
    if found is None or found.variant == AS_GIVEN or _is_finite(trials.prove(found.variant)):
        return found, limits
    roomy = dataclasses.replace(
        limits,
        elements_at_most=ROOM_FOR_FINITE * limits.elements_at_most,
        flops_at_most=ROOM_FOR_FINITE * limits.flops_at_most,
    )
    trials = Trials(spec, seed, roomy)
    larger = scaled_by(trials)
    if larger is not None and _is_finite(trials.prove(larger.variant)):
        return larger, roomy
    return found, limits


def scaled_by(trials: Trials) -> Scaled | None:
    """Scale down within a search that has already tried other sizes."""
    return _found(_Search(trials))


def _found(search: _Search) -> Scaled | None:
    trials = search.trials
    first = search.find(frozenset())
    if first is None:
        return None
    proven = trials.prove(first)
    if _is_finite(proven):
        return _scaled(first, search)
    changed = [*first.constants, *([LEADING] if first.batch is not None else [])]
    for key in changed:  # fake tensors accept calls that fail on real values, such as an index out of range
        variant = search.find(frozenset({key}))
        found = trials.prove(variant) if variant is not None else None
        if variant is not None and found is not None and (proven is None or _is_finite(found)):
            return _scaled(variant, search)
    return _scaled(first, search) if proven is not None else None


def _is_finite(footprint: Footprint | None) -> bool:
    """Return True if the outputs of a run have no NaN or infinity, unlike the mean of a loss without any element."""
    return footprint is not None and footprint.finite is not None and all(footprint.finite)


def _scaled(variant: Variant, search: _Search) -> Scaled:
    if variant == AS_GIVEN:
        return Scaled(variant=variant, sentence="")
    spec, given = search.trials.spec, search.given
    small = resize_spec(spec, variant.constants)
    steps = [f"{one} -> {other}" for one, other in zip(spec.inputs, small.inputs) if one != other]
    if (spec.init, spec.init_keywords) != (small.init, small.init_keywords):
        told = (f"{given[key]} -> {value}" for key, value in variant.constants.items() if key.startswith(SIZES))
        steps.append(f"{', '.join(told)} in the constructor's arguments")
    if small is spec:
        words = (("size" if key.startswith((INPUTS, SIZES)) else key, key) for key in variant.constants)
        steps += [f"{word} {given[key]} -> {variant.constants[key]}" for word, key in words]
    if variant.batch is not None:
        steps.append(f"leading dimension {given[LEADING]} -> {variant.batch}")
    return Scaled(variant=variant, sentence=f"scaled down: {', '.join(steps)}")


class _Search:
    """A descent from the given sizes, one step at a time, with each step checked on fake tensors."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.footprint = trials.estimate(AS_GIVEN)
        if trials.broken is not None:
            raise trials.broken
        self.given = dict(trials.sizes)
        self.reached = self.footprint
        """The smallest footprint found so far."""
        leading = [shape[0] for shape in self.footprint.input_shapes if shape] if self.footprint else []
        if leading and (common := max(set(leading), key=leading.count)) > 1:
            self.given[LEADING] = common

    def find(self, frozen: frozenset[str]) -> Variant | None:
        """Return sizes that fit by estimate, without changing the frozen ones."""
        sizes, footprint = self.given, self.footprint
        while footprint is None or footprint.load(self.trials.limits) > 1:
            step = self._step(sizes, footprint, frozen)
            if step is None:
                return None
            sizes, footprint = step
            self.reached = footprint
        return self.trials.variant(self._with_fewer_steps(sizes, footprint, frozen), self.given)

    def _with_fewer_steps(
        self, sizes: dict[str, int], footprint: Footprint | None, frozen: frozenset[str]
    ) -> dict[str, int]:
        """Return sizes at which the model calls fewer operators, if it calls too many and a size decides how many: the
        length of a sequence that it goes through step by step.
        """
        most = self.trials.limits.operators_at_most
        while footprint is not None and footprint.operators > most and not self.trials.out_of_time:
            for smaller in self._proposals(sizes, frozen, 4 if footprint.operators > 4 * most else 2):
                found = self.trials.estimate(self.trials.variant(smaller, self.given))
                if found is not None and found.operators < FEWER * footprint.operators:
                    sizes, footprint = smaller, found
                    break
            else:
                break
        return sizes

    def _step(
        self, sizes: dict[str, int], footprint: Footprint | None, frozen: frozenset[str]
    ) -> tuple[dict[str, int], Footprint] | None:
        """Return the first proposal at which the reference runs and does less work."""
        limits = self.trials.limits
        steep = footprint is None or footprint.load(limits) > STEEP_LOAD
        proposals = sorted(self._proposals(sizes, frozen, 4 if steep else 2), key=self._coincidences)  # a stable sort
        for smaller in proposals:
            if self.trials.out_of_time:
                return None
            found = self.trials.estimate(self.trials.variant(smaller, self.given))
            if found is not None and (footprint is None or found.work(limits) < footprint.work(limits)):
                return smaller, found
        return None

    def _coincidences(self, sizes: dict[str, int]) -> int:
        """Count pairs of sizes that are equal here but differ as given.

        A kernel that confuses the two sizes of such a pair is still correct, and its author cannot tell them apart.
        """
        pairs = itertools.combinations([key for key in sizes if key != LEADING], 2)
        return sum(sizes[one] == sizes[other] and self.given[one] != self.given[other] for one, other in pairs)

    def _proposals(self, sizes: dict[str, int], frozen: frozenset[str], divisor: int) -> Iterator[dict[str, int]]:
        """Yield smaller sizes to try next, the most promising first."""
        keys = [
            key
            for key in sizes
            if key != LEADING and self.given[key] > SMALL and key not in frozen
            if not twin_changed(key, sizes, self.given)
        ]
        keys.sort(key=lambda key: -sizes[key])  # stable: equal sizes stay in the order of the text
        for floor in FLOORS:
            reducible = [key for key in keys if sizes[key] > floor]
            for key in reducible:
                yield from _halved(sizes, [key], divisor, floor)
            for key in reducible:
                yield from _halved(sizes, [other for other in reducible if sizes[other] == sizes[key]], 2, floor)
            yield from _halved(sizes, reducible, 2, floor)
        if LEADING in sizes and LEADING not in frozen:
            yield from _halved(sizes, [LEADING], divisor, 1)


def _halved(sizes: dict[str, int], keys: list[str], divisor: int, floor: int) -> Iterator[dict[str, int]]:
    """Yield the sizes with these keys divided by `divisor`, and by 2, unless they are at the floor already."""
    for by in dict.fromkeys((divisor, 2)):
        changed = {key: max(floor, math.ceil(sizes[key] / by)) for key in keys}
        if changed and all(changed[key] < sizes[key] for key in keys):
            yield {**sizes, **changed}
