"""Makes the cases of one variant whose inputs are multiplied by powers of two, far up and far down.

Powers of two are exact, so ordinary numbers keep their digits. A homogeneous reference (copies, sums, products, norms)
then gives a power of two times the answer to the inputs as given, until an intermediate value overflows or loses
digits. A few runs find out how far that is. The cases stay at about half of that exponent, so a kernel may square a
number that the reference does not. float16 has no room for that: its cases stay two doublings below that exponent.

Not covered: references that are not homogeneous, or that use exponentials and the like. Right kernels compute these by
formulas with an absolute error, such as 2 sigmoid(2x) - 1, which is zero for tiny numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from triton_agent.tools.cases import state_cases
from triton_agent.tools.cases.distributions import OVERFLOW_MARGIN, real_valued_in
from triton_agent.tools.cases.number_cases import is_astray
from triton_agent.tools.cases.plan import ALONE_BYTES_AT_MOST, Case
from triton_agent.tools.graph.operator_groups import ATTENTION, CANCELLING, PEAKED, PERIODIC
from triton_agent.tools.graph.operators import words
from triton_agent.tools.reference.input_tensors import own_copy
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.truth.expectation import (
    Expectation,
    Output,
    is_as_finite,
    state_of,
    with_slack,
)
from triton_agent.tools.truth.expectation_measures import is_as_accurate
from triton_agent.tools.truth.random_rounding import SMALLEST_NORMAL

FAR_DOWN, FAR_UP, UNEVEN = "far smaller inputs", "far larger inputs", "one input far larger, others far smaller"
VANISHING = "inputs so small that their products are zero"
"""Distributions of these cases. In the last one only an answer near zero is right, as the reference's is zero."""

EXPONENTS = (56, 40, 24, 16, 12)
"""Exponents to try, the largest first. Extremes reach 2**7 standard deviations, and inputs times 0.01 are at 2**-7.
Squares of numbers near 2**56, and fourth powers near 2**24, leave room in float32 for a sum of thousands."""
EXPONENTS_OF_HALF, MARGIN_OF_HALF = range(12, 7, -1), 2
"""Exponents to try where float16 limits them, and how much more the reference has to bear. Elsewhere it has to bear the
double exponent."""
VANISHING_EXPONENT = 84
"""Inputs times 2**-84 are normal float32 numbers, and products of two are below the smallest subnormal, 2**-149."""
GUARD_BITS, GUARD_BITS_OF_HALF = 24, 2
"""The mean magnitude of an input stays so many powers of two above the smallest normal number of its dtype. float16 has
ten bits below that number, so two suffice there, if the case is about another input."""
NO_END = 1000
"""Room of a tensor of zeros."""
LIKE_BEFORE = 2.0**-7
"""Relative difference up to which an answer counts as a power of two times another one. Inputs of float16 lose bits as
subnormals, and the epsilon of a norm loses its effect."""
SLACK = 8.0
"""Factor on the limits: the error of a power that is computed by logarithms grows with the exponent."""
NEAR_ZERO = 2.0**26 * SMALLEST_NORMAL
"""Largest magnitude that counts as zero where the reference gives zero."""
CURVED = words(
    """
    exp exp2 log log2 log10 erfc gelu silu elu selu celu mish cosh asinh acosh atan atan2 asin acos logaddexp2
    log_sigmoid_forward log_sigmoid hardsigmoid hardswish lgamma digamma erfinv xlogy logit ctc_loss _ctc_loss nll_loss
    binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss kl_div lstm gru rnn_tanh
    """
)
CURVED |= ATTENTION | CANCELLING | PEAKED | PERIODIC | words("logaddexp")
"""Operators that are no powers of their operands."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    """Exponents of the powers of two by which inputs and parameters are multiplied."""

    first: int = 0
    """Exponent for the first floating input."""
    others: int = 0
    """Exponent for the other floating inputs."""
    vectors: int = 0
    """Exponent for parameters with at most one dimension: biases, weights of norms."""
    matrices: int = 0
    """Exponent for all other parameters."""

    @property
    def of_parameters(self) -> bool:
        return bool(self.vectors or self.matrices)

    def times(self, count: int) -> Powers:
        return Powers(**{name: count * getattr(self, name) for name in self.__dataclass_fields__})

    def exponents(self, inputs: list[Any], model: torch.nn.Module) -> list[tuple[torch.Tensor, int]]:
        """Return the tensors that change, each memory once, with their exponents."""
        given, own = list(real_valued_in(inputs)), list(real_valued_in([list(model.parameters())]))
        found = [(tensor, self.others if number else self.first) for number, tensor in enumerate(given)]
        found += [(tensor, self.matrices if tensor.dim() > 1 else self.vectors) for tensor in own]
        return [(tensor, exponent) for tensor, exponent in found if exponent]

    def put(self, inputs: list[Any], model: torch.nn.Module) -> None:
        """Multiply inputs and parameters in place."""
        with torch.no_grad():
            for tensor, exponent in self.exponents(inputs, model):
                tensor.copy_(scaled(tensor, exponent))

    def room(self, inputs: list[Any], model: torch.nn.Module, guard_bits: int = GUARD_BITS) -> int:
        """Return how many times these powers may be applied before a tensor comes near an end of its dtype's range."""
        rooms = [room(it, sign, guard_bits) // abs(sign) for it, sign in self.exponents(inputs, model)]
        return min(rooms, default=0)

    def __str__(self) -> str:
        if len(set(dataclasses.astuple(self))) == 1:
            return f"inputs and parameters times 2**{self.first}"
        names = {"parameter vectors": self.vectors, "parameter matrices": self.matrices}
        if self.first == self.others or not self.others:
            names = {"inputs": self.first, **names}
        else:
            names = {"first input": self.first, "other inputs": self.others, **names}
        return ", ".join(f"{name} times 2**{exponent}" for name, exponent in names.items() if exponent)


def scaled(tensor: torch.Tensor, exponent: int) -> torch.Tensor:
    """Return the tensor times this power of two, which float32 may not hold itself."""
    values = tensor if tensor.dtype in (torch.float64, torch.complex64, torch.complex128) else tensor.float()
    half = exponent // 2
    return (values * 2.0**half * 2.0 ** (exponent - half)).to(tensor.dtype)


def room(tensor: torch.Tensor, sign: int, guard_bits: int = GUARD_BITS) -> int:
    """Return how many doublings (or halvings, for a negative sign) keep the tensor well within its dtype's range."""
    limits, (largest, length) = torch.finfo(tensor.dtype), _sizes(_finite(tensor))
    if not largest:
        return NO_END
    if sign > 0:
        return math.floor(math.log2(limits.max / OVERFLOW_MARGIN / largest))
    return math.floor(math.log2(length / math.sqrt(tensor.numel()) / limits.tiny)) - guard_bits


def degree(found: torch.Tensor, given: torch.Tensor) -> int:
    """Return the exponent of the power of two by which an answer is larger than another one, rounded."""
    if not _is_measured(given):
        return 0
    lengths = [_sizes(_finite(tensor))[1] for tensor in (found, given)]
    return round(math.log2(lengths[0] / lengths[1])) if all(lengths) else 0


def follows(found: torch.Tensor, given: torch.Tensor, exponent: int) -> bool:
    """Return True if an answer is this power of two times another one."""
    if found.shape != given.shape or found.dtype != given.dtype:
        return False
    if not _is_measured(given):
        return torch.equal(found, given)
    if not torch.equal(torch.isfinite(_wide(found)), torch.isfinite(_wide(given))):
        return False
    wanted = _finite(given)
    difference = scaled(_finite(found), -exponent) - wanted
    return _sizes(difference)[1] <= LIKE_BEFORE * _sizes(wanted)[1]


def _is_measured(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float32 or a wider dtype, with zeros for NaN and infinities."""
    wide = _wide(tensor)
    return torch.where(torch.isfinite(wide), wide, 0.0)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype.itemsize >= 4 else tensor.float()


def _sizes(tensor: torch.Tensor) -> tuple[float, float]:
    """Return the largest magnitude and the root of the sum of squares, which float32 need not hold."""
    largest = float(tensor.abs().max()) if tensor.numel() else 0.0
    return largest, largest * float(torch.linalg.vector_norm(tensor / largest)) if largest else 0.0


class Maker(state_cases.Maker, Protocol):
    """Makes the cases of one variant."""

    @property
    def goes_by_order(self) -> bool: ...


class MagnitudeCases:
    """The cases of one variant with inputs of other magnitudes."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._model = maker.models[maker.latest].train(maker.modes[0])

    @functools.cached_property
    def _inputs(self) -> list[Any]:
        return self._maker.fresh()

    @functools.cached_property
    def _given(self) -> list[torch.Tensor]:
        """The answer that others are compared with; empty if the reference refuses these inputs."""
        return self._answer(Powers()) or []

    def add(self, cases: list[Case]) -> None:
        if cases[0].is_large or self._maker.graph is None or self._maker.operators & CURVED or not self._given:
            return
        whole = [Powers(first=1, others=1), Powers(first=1, others=1, vectors=1)]
        whole.append(Powers(first=1, others=1, vectors=1, matrices=1))
        direction, degrees = self._first_homogeneous(whole)
        if direction is not None:
            down = direction.times(-1)
            self._add(cases, FAR_DOWN, down, [-it for it in degrees])
            self._add(cases, FAR_UP, direction, degrees)
            self._add_vanishing(cases, down, degrees)
        several = len(list(real_valued_in(self._inputs))) > 1
        ways = [Powers(first=1, others=-1), Powers(first=-1, others=1)] if several else [Powers(first=1, matrices=-1)]
        for way in ways:
            direction, degrees = self._first_homogeneous([way])
            if direction is not None:
                self._add(cases, UNEVEN, direction, degrees, GUARD_BITS_OF_HALF)

    def _first_homogeneous(self, directions: Sequence[Powers]) -> tuple[Powers | None, list[int]]:
        """Return the first direction in which a step multiplies each output by a power of two, and its exponents."""
        tried = set[int]()
        for direction in directions:
            changed = direction.exponents(self._inputs, self._model)
            signs = {math.copysign(1, exponent) for _, exponent in changed}
            wanted = {math.copysign(1, it) for it in dataclasses.astuple(direction) if it}
            if len(changed) in tried or signs != wanted:  # no such inputs or parameters
                continue
            tried.add(len(changed))
            found = self._answer(direction)
            if found is not None and len(found) == len(self._given):
                degrees = [degree(it, given) for it, given in zip(found, self._given)]
                if self._follow(found, degrees):
                    return direction, degrees
        return None, []

    def _add(
        self,
        cases: list[Case],
        distribution: str,
        direction: Powers,
        degrees: Sequence[int],
        guard_bits: int = GUARD_BITS,
    ) -> None:
        """Add a case at the largest exponent that is within the reference's range, with a margin."""
        most = direction.room(self._inputs, self._model, guard_bits)
        is_wide = most >= EXPONENTS_OF_HALF[0] + MARGIN_OF_HALF
        for exponent in (it for it in (EXPONENTS if is_wide else EXPONENTS_OF_HALF) if it <= most):
            beyond = min(2 * exponent, most) if is_wide else exponent + MARGIN_OF_HALF
            found = self._answer(direction.times(beyond))
            if found is not None and self._follow(found, [beyond * it for it in degrees]):
                self._add_case(cases, distribution, direction.times(exponent), self._sound)
                return

    def _add_vanishing(self, cases: list[Case], down: Powers, degrees: Sequence[int]) -> None:
        """Add a case in which all products are below the smallest float32 number, if the reference then gives zeros."""
        if down.room(self._inputs, self._model) < VANISHING_EXPONENT or min(degrees, default=0) < 2:
            return
        found = self._answer(down.times(VANISHING_EXPONENT))
        if found is not None and not any(bool(it.any()) for it in found) and all(bool(it.any()) for it in self._given):
            self._add_case(cases, VANISHING, down.times(VANISHING_EXPONENT), changes_nothing_else, near_zero)

    def _sound(self, expectation: Expectation) -> bool:
        given = self._maker.given
        is_sound = is_as_finite(expectation, given) and not is_astray(expectation)
        return is_sound and is_as_accurate(expectation, given)

    def _add_case(
        self,
        cases: list[Case],
        distribution: str,
        powers: Powers,
        is_sound: Callable[[Expectation], bool],
        loosened: Callable[[Expectation], Expectation] = lambda it: with_slack(it, SLACK),
    ) -> None:
        maker, train = self._maker, self._maker.modes[0]
        model = copied_module(self._model) if powers.of_parameters else self._model
        if powers.of_parameters and sum(it.nbytes for it in state_of(model).values()) > ALONE_BYTES_AT_MOST:
            return
        inputs = own_copy(self._inputs)
        powers.put(inputs, model)
        with contextlib.suppress(*state_cases.REFUSED):
            expectation = maker.runs.expect(model.train(train), inputs, maker.scales, brief=not maker.goes_by_order)
            if maker.goes_by_order:
                expectation = maker.runs.with_free_places(model, expectation)
            if not is_sound(expectation):
                return
            expectation = loosened(expectation)
            if powers.of_parameters:
                cases.append(maker.case_with(model, expectation, distribution, train, str(powers)))
                return
            case = maker.case_of(expectation, distribution, train, version=maker.latest)
            cases.append(dataclasses.replace(case, name=case.name.replace(distribution, str(powers))))

    def _answer(self, powers: Powers) -> list[torch.Tensor] | None:
        """Return what the reference gives for inputs and parameters times these powers; None if it refuses them."""
        model = copied_module(self._model)
        inputs = own_copy(self._inputs)
        powers.put(inputs, model)
        with contextlib.suppress(*state_cases.REFUSED):
            answer = self._maker.runs.answer(model, inputs)
            if all(it.layout is torch.strided and not it.is_nested for it in answer):
                return [it.resolve_conj().resolve_neg() for it in answer]
        return None

    def _follow(self, found: Sequence[torch.Tensor], exponents: Sequence[int]) -> bool:
        return len(found) == len(self._given) and all(map(follows, found, self._given, exponents))


def changes_nothing_else(expectation: Expectation) -> bool:
    """Return True if the call changes no buffer and no input."""
    return not expectation.state_after and not expectation.inputs_changed


def near_zero(expectation: Expectation) -> Expectation:
    """Expect zeros, and accept any number that is near zero."""

    def opened(output: Output) -> Output:
        zeros = torch.zeros_like(output.yard.truth)
        yard = dataclasses.replace(
            output.yard,
            truth=zeros,
            original=torch.zeros_like(output.yard.original),
            nudged=(),
            coarse=(),
            scale=0.0,
            span=(zeros - NEAR_ZERO, zeros + NEAR_ZERO),
        )
        return dataclasses.replace(output, yard=yard)

    return dataclasses.replace(expectation, outputs=tuple(map(opened, expectation.outputs)), brief=False, closer=None)
