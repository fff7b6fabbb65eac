"""Makes the cases of one variant with other parameters: as constructed, of one sign, large, far from zero, or NaN."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Protocol

import torch

from triton_agent.tools.cases import state_cases
from triton_agent.tools.cases.directed import passes_nan_on
from triton_agent.tools.cases.distributions import OPPOSED_BACK, OPPOSED_FAR, has_both_signs
from triton_agent.tools.cases.feeds import reach_of
from triton_agent.tools.cases.number_cases import is_astray
from triton_agent.tools.cases.plan import ALONE_BYTES_AT_MOST, AS_GIVEN, Case
from triton_agent.tools.cases.versions import off_the_diagonal, stored_in
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.graph.operator_groups import CONVOLUTIONS, FIRST, LOOKING_UP, NORMS, PRODUCTS
from triton_agent.tools.graph.operators import ORDERING, bare_name
from triton_agent.tools.graph.written_out import is_centring
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import Expectation, OriginalFailed, is_as_finite, state_of
from triton_agent.tools.truth.expectation_measures import nan_share

PARTS_AT_MOST = 64
"""Largest number of elements of a parameter that counts as a scale for each of several parts."""
AWAY = (1000.0, 100.0)
"""Numbers to add to parameters before a norm; the first one that the reference accepts is used."""
GROWN_SCALARS = (30, 8, 3)
"""Factors for scalars, the first that the reference accepts: thirty takes most exponentials beyond float32."""


class Maker(state_cases.Maker, Protocol):
    """Makes the cases of one variant."""

    settings: EvaluatorSettings
    given: Expectation
    """The expectation for inputs as given."""
    latest: int

    def expected(self, model: torch.nn.Module, distribution: str, *, brief: bool = False) -> Expectation: ...

    def try_distribution(self, cases: list[Case], distribution: str, train: bool, *, version: int = 0) -> None: ...


class ParameterCases:
    """The cases of one variant with a module of their own."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    def add(self, cases: list[Case]) -> None:
        self._add_plain(cases)
        self._add_grown_scalars(cases)
        self._add_offset_parameters(cases)
        self._add_nan_in_parameters(cases)

    def _latest_model(self) -> torch.nn.Module:
        return copied_module(self._maker.models[self._maker.latest])

    def _add_plain(self, cases: list[Case]) -> None:
        """Add a case with the module as it is constructed, and one in which no parameter is negative.

        In the second, one row of each matrix is zero if the reference accepts that.
        """
        fresh = self._maker.reference.make_model(secret_seed()).to(self._maker.settings.device)
        positive = self._latest_model()
        for parameter in positive.parameters():
            if parameter.is_floating_point():
                parameter.data.abs_()
        without, generator = copied_module(positive), torch.Generator().manual_seed(secret_seed())
        for parameter in without.parameters():
            if parameter.dim() > 1 and parameter.numel() and 0 not in parameter.stride():
                parameter.data[int(torch.randint(len(parameter), (1,), generator=generator))] = 0
        with contextlib.suppress(OriginalFailed):
            self._add_with(cases, fresh, "module as constructed", self._is_finite)
        for model, what in ((without, "positive parameters, rows of zeros"), (positive, "positive parameters")):
            with contextlib.suppress(OriginalFailed):
                if self._add_with(cases, model, what, self._is_finite):
                    break

    def _is_finite(self, expectation: Expectation) -> bool:
        return is_as_finite(expectation, self._maker.given)

    def _is_accurate(self, expectation: Expectation) -> bool:
        return self._is_finite(expectation) and not is_astray(expectation)

    def _add_with(
        self,
        cases: list[Case],
        model: torch.nn.Module,
        what: str,
        is_sound: Callable[[Expectation], bool],
        distribution: str = AS_GIVEN,
    ) -> bool:
        """Add a case with this module and inputs of this distribution, if the answer is sound."""
        expectation = self._maker.expected(model.train(self._maker.modes[0]), distribution, brief=True)
        if not is_sound(expectation):
            return False
        cases.append(self._maker.case_with(model, expectation, distribution, self._maker.modes[0], what))
        return True

    def add_opposed(self, cases: list[Case], name: str) -> None:
        """Add a case in which the first input has one sign, and other inputs and all parameters the other one.

        For scores far below zero the signs of parameters take turns: queries and keys may come from the same input.
        """
        model = self._latest_model()
        own = [it for it in model.parameters() if it.is_floating_point() and has_both_signs(it)]
        for number, parameter in enumerate(own):
            is_positive = number % 2 if name == OPPOSED_FAR else name == OPPOSED_BACK
            parameter.data.abs_().mul_(1.0 if is_positive else -1.0)
        if not own or sum(it.nbytes for it in state_of(model).values()) > ALONE_BYTES_AT_MOST:
            self._maker.try_distribution(cases, name, self._maker.modes[0])
            return
        with contextlib.suppress(OriginalFailed):
            self._add_with(cases, model, name, self._is_finite, distribution=name)

    def _add_grown_scalars(self, cases: list[Case]) -> None:
        """Add a case in which scales are many times as large: parameters of one element, or of one for each of several
        parts, such as the heads of an attention, and buffers of one element.
        """
        for times in GROWN_SCALARS:
            model = self._latest_model()
            single = [name for name, it in model.named_parameters() if it.is_floating_point() and _is_a_scale(it)]
            single += [name for name, it in model.named_buffers() if it.is_floating_point() and it.numel() == 1]
            for name in single:  # one version may have half of what the constructor gave
                own, *others = (stored_in(it)[name] for it in (model, *self._maker.models))
                largest = max(float(other.abs().max()) for other in others)
                own.copy_(torch.full_like(own, times * largest).copysign(others[0]))
            with contextlib.suppress(OriginalFailed):
                what = f"scalar parameters times {times}"
                if not single or self._add_with(cases, model, what, self._is_accurate):
                    return

    def _add_offset_parameters(self, cases: list[Case]) -> None:
        """Add a case in which parameters before a norm are far from zero, as far as the reference accepts.

        These are biases, tables, and weights that are normalised themselves. A variance computed as the mean of squares
        less the square of the mean loses its digits then.
        """
        graph = self._maker.graph
        if graph is None or not self._maker.operators & NORMS:
            return
        norms = {name for node in graph.nodes if bare_name(node.operator) in NORMS for name in node.references()}
        for away in AWAY:
            model, found = self._latest_model(), False
            for name, parameter in model.named_parameters():
                takers = {bare_name(it.operator) for it in graph.nodes if f"p:{name}" in it.references()}
                is_bias = parameter.dim() == 1 and takers <= PRODUCTS | {"add"}
                is_centred = any(is_centring(graph, it) for it in graph.nodes if f"p:{name}" in it.references())
                before = bool(reach_of(graph, f"p:{name}").operators & NORMS) and f"p:{name}" not in norms
                moves = is_bias or is_centred or takers <= LOOKING_UP
                if takers and before and moves and parameter.is_floating_point():
                    parameter.data.add_(away)
                    found = True
            with contextlib.suppress(OriginalFailed):
                what = "parameters far from zero"
                if not found or self._add_with(cases, model, what, self._is_accurate):
                    return

    def _add_nan_in_parameters(self, cases: list[Case]) -> None:
        """Add a case with NaN in one element of each parameter from which the reference passes it on.

        A convolution may or may not multiply it by padding.
        """
        graph = self._maker.graph
        if graph is None or self._maker.operators & (ORDERING | FIRST | CONVOLUTIONS):
            return
        model, generator = self._latest_model(), torch.Generator().manual_seed(secret_seed())
        passing = [it for name, it in model.named_parameters() if passes_nan_on(graph, reach_of(graph, f"p:{name}"))]
        own = [it for it in passing if it.is_floating_point() and it.numel() and 0 not in it.stride()]
        for parameter in [it for it in own if it.numel() > 1] or own:
            parameter.data[off_the_diagonal(parameter.shape, generator)] = math.nan
        with contextlib.suppress(OriginalFailed, RuntimeError):
            if own:
                self._add_with(cases, model, "NaN in parameters", lambda it: nan_share(it) > 0)


def _is_a_scale(parameter: torch.Tensor) -> bool:
    return parameter.numel() == 1 or (parameter.shape[-1:] == (1,) and 0 < parameter.numel() <= PARTS_AT_MOST)
