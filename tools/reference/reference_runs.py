"""Runs a copy of the reference under the user's precision and autocast, to get the expectation of a case."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from triton_agent.tools.errors import InstrumentError, ProblemError
from triton_agent.tools.processes.payloads import Payload
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.reference.tensor_cores import Around, as_the_user_runs_it, at_the_coarsest
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import (
    NUDGES,
    NUDGES_AT_FIRST,
    Behaviour,
    Expectation,
    OriginalFailed,
    behaviour,
    bytes_of,
    changed,
    expect,
    single_answer,
)
from triton_agent.tools.truth.ties import hinges_on_ties, with_free_places

Closer = Callable[[Payload], Expectation]
"""Makes an expectation with more randomly rounded runs."""

TRIES = 2
"""How often a reference that has run in float64 before is tried there. It may have lacked memory of the GPU."""
SMALL_BYTES = 64 << 20
"""Largest inputs whose reference is run again beside a candidate. Larger ones would take too much memory."""


def _no_pause() -> None:
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OriginalRuns:
    """Runs the reference under the user's precision and autocast."""

    reference: Reference
    settings: EvaluatorSettings
    pause: Callable[[], None] = _no_pause
    """Called before each run that makes an expectation."""
    _models_in_double: set[type] = dataclasses.field(default_factory=set)
    """Classes of models that have run in float64."""

    def expect(
        self, model: torch.nn.Module, inputs: list[Any] | Payload, scales: dict[str, float], *, brief: bool = False
    ) -> Expectation:
        """Return the expectation of a case. If the inputs are small, an answer that is refused has a closer one made.

        With `brief` the first one has no randomly rounded runs then. The model may change to the other mode meanwhile,
        but its parameters may not change.
        """
        self.pause()
        if _size_of(inputs) > SMALL_BYTES:
            return self._expect(model, inputs, scales, NUDGES_AT_FIRST)
        closest = self._closer(model, scales, NUDGES)
        if not brief:
            return self._expect(model, inputs, scales, NUDGES_AT_FIRST, closest)
        return self._expect(model, inputs, scales, 0, self._closer(model, scales, NUDGES_AT_FIRST, closest))

    def _closer(
        self, model: torch.nn.Module, scales: dict[str, float], draws: int, closer: Closer | None = None
    ) -> Closer:
        """Return a function that makes an expectation with so many draws in the model's present mode."""
        train = model.training

        def closer_one(packed: Payload) -> Expectation:
            try:
                return self._expect(copied_module(model).train(train), packed, scales, draws, closer)
            except OriginalFailed as error:  # it ran before, on the same inputs
                raise InstrumentError(
                    f"the reference failed: {error}", remedy="evaluate the candidate again"
                ) from error

        return closer_one

    def _expect(
        self,
        model: torch.nn.Module,
        inputs: list[Any] | Payload,
        scales: dict[str, float],
        draws: int,
        closer: Closer | None = None,
    ) -> Expectation:
        coarse = at_the_coarsest(self.settings.conditions, self.settings.device)
        for _ in range(TRIES):
            with self._running():
                found = expect(
                    model, inputs, scales=scales, around=self._around, coarse=coarse, draws=draws, closer=closer
                )
            if found.lifted:
                self._models_in_double.add(type(model))
            if found.lifted or type(model) not in self._models_in_double:
                return found
        # Its own outputs would be no truth: they are as inexact as a candidate's.
        raise OriginalFailed("it did not run in float64, although it had done so before")

    def hinges_on_ties(self, model: torch.nn.Module, expectation: Expectation) -> bool:
        with self._running():
            return hinges_on_ties(model, expectation)

    def with_free_places(
        self, model: torch.nn.Module, expectation: Expectation, others: Sequence[list[Any] | Payload] = ()
    ) -> Expectation:
        with self._running():
            found = with_free_places(model, expectation, others, around=self._around)
        closer = changed(expectation.closer, lambda it: self.with_free_places(model, it, others))
        return dataclasses.replace(found, closer=closer)

    def behaviour(self, model: torch.nn.Module, packed: Payload) -> Behaviour:
        with self._running():
            return behaviour(model, packed, self._around)

    def answer(self, model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
        """Run the reference once and return its outputs. The run may change the model and the inputs."""
        self.pause()
        with self._running():
            return single_answer(model, inputs, self._around)

    def when_asked(
        self, model: torch.nn.Module, packed: Payload, scales: dict[str, float], *, train: bool
    ) -> Callable[[], Expectation | None]:
        """Return a function that makes an expectation at its first call; few candidates need it."""

        @functools.cache
        def made() -> Expectation | None:
            with contextlib.suppress(OriginalFailed):
                return self.expect(copied_module(model).train(train), packed, scales)
            return None

        return made

    @property
    def _around(self) -> Around:
        return as_the_user_runs_it(self.settings.conditions, self.settings.device)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        failed = None
        try:
            with self.reference.running("forward"):
                try:
                    yield
                except OriginalFailed as error:
                    if error.__cause__ is not None:
                        raise error.__cause__  # noqa: B904  the user's error, which names the line
                    failed = error
        except ProblemError as error:
            raise OriginalFailed(error.what, where=error.where, remedy=error.remedy) from error
        if failed is not None:
            raise failed


def _size_of(inputs: list[Any] | Payload) -> int:
    return inputs.size_bytes if isinstance(inputs, Payload) else bytes_of(nested_tensors(inputs))
