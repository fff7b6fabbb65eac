"""The sizes of one problem at which candidates are spot-checked, and the calls of the reference there.

A size is made when the first candidate asks for it: the problem's own size if it was scaled down, or a larger one that
reaches the positions that kernels name. The reference runs a few times, on inputs that hold several distributions at
once (`truth/full_size_inputs.py`); its own answer is the standard (`spot_checks.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from triton_agent.tools.answers.authorship import OriginalWork, work_during
from triton_agent.tools.cases.directed import OF_WHOLES
from triton_agent.tools.cases.distributions import (
    BLANK,
    EXTREMES,
    NOT_FINITE,
    has_one_sign,
    negate_some,
    randomise,
)
from triton_agent.tools.cases.full_size_inputs import Told, make_most_equal, mix, spoil, told_by
from triton_agent.tools.cases.input_changes import NARROW_WHOLE
from triton_agent.tools.cases.layouts import TRANSPOSED, relaid
from triton_agent.tools.cases.named_numbers import Numbers, strew
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.tensors import nested_tensors, real_parts
from triton_agent.tools.reference.footprint import Limits
from triton_agent.tools.reference.input_tensors import leading_size
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.size_trials import LEADING, Trials
from triton_agent.tools.reference.sizes import AS_GIVEN, Variant
from triton_agent.tools.truth.expectation import Expectation, Output, state_of, tensors_of
from triton_agent.tools.truth.ties import NotesOrdering, with_open_order
from triton_agent.tools.truth.yardstick import Yardstick

LIMITS = Limits(elements_at_most=1 << 26, flops_at_most=20_000_000_000, seconds_at_most=20.0)
"""Limits of one run of the reference: about a second and a GiB."""
GROWN_SHARE, GROWN_AT_MOST = 1 / 8, 8.0
"""Share of the elements of a parameter that become larger, and the largest factor."""
MOSTLY_NUMBERS = 0.6
"""Largest share of NaN in an answer to extreme inputs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The reference at one size."""

    trial: Trial
    """Its cases are calls with ordinary inputs and, if the reference accepts them, with extreme ones."""
    work: OriginalWork
    is_as_given: bool
    holding: Callable[[Numbers], Case | None]
    """Makes a case whose inputs are full of these numbers."""
    transposed: Callable[[], Case | None]
    """Makes the first case again, with inputs that lie transposed in memory; None if the reference refuses that."""
    in_other_mode: tuple[Case, ...] = ()
    """Such cases in the second mode, if the reference does something else in it."""


class Spots:
    """The sizes of one problem at which candidates are spot-checked. Each is made on first use."""

    def __init__(self, spec: ProblemSpec, main: Variant, trials: Iterable[Trial], *, scaled: bool) -> None:
        self._spec = spec
        self._main = main
        trials = list(trials)
        first = trials[0]
        self._modes = [first.cases[0].train]
        if len(first.modes) > 1 and not first.other_mode:
            self._modes.append(not first.cases[0].train)
        tensors = [
            tensor
            for trial in trials
            for case in trial.cases[:1]
            for tensor in (*case.expectation.inputs_after, *(it.yard.original for it in case.expectation.outputs))
        ]
        self.visited = max((tensor.numel() for tensor in tensors), default=0)
        """Elements of the largest tensor at the sizes that are checked completely."""
        self._scaled = scaled
        self._told = told_by(case for trial in trials for case in trial.cases)
        laid = [trial for trial in trials if any(case.distribution == TRANSPOSED for case in trial.cases)]
        self._layout_seed = laid[0].build_seed if laid else 0
        """Tells which inputs are transposed, as in the case that the reference accepted."""
        self._known: dict[Variant, Spot | None] = {}
        self._one_at_a_time = threading.Lock()

    def reaching(self, position: int) -> Spot | None:
        """Return the problem as given if it was scaled down, or larger if the position requires it; None if neither."""
        with self._one_at_a_time:
            as_given = self._at(AS_GIVEN) if self._scaled else None
            if position <= max(self.visited, _largest(as_given) if as_given else 0):
                return as_given
            leading, largest = self._leading_and_largest()
            if not leading:
                return as_given
            size = -(-position * 5 // 4) * leading // largest + 1
            return self._at(Variant(name=f"{LEADING}={size}", constants=self._main.constants, batch=size)) or as_given

    def _leading_and_largest(self) -> tuple[int, int]:
        """Return the common leading size of the inputs at the main size (0 if none), and the largest input's size."""
        with contextlib.suppress(ProblemError):
            inputs = load(self._spec, self._main.constants, batch=self._main.batch).make_inputs(secret_seed())
            return leading_size(inputs) or 0, max((tensor.numel() for tensor in nested_tensors(inputs)), default=0)
        return 0, 0

    @functools.cached_property
    def _calls(self) -> tuple[str, ...] | None:
        """Return what the reference calls at the main size. A loop over a size calls more at a larger one, for which a
        kernel need not be written.
        """
        proof = Trials(self._spec, secret_seed(), LIMITS).prove(self._main)
        return None if proof is None else proof.calls

    def _at(self, variant: Variant) -> Spot | None:
        if variant not in self._known:
            self._known[variant] = None
            with contextlib.suppress(ProblemError, RuntimeError, MemoryError):
                proof = Trials(self._spec, secret_seed(), LIMITS).prove(variant)
                if proof is not None and (variant == AS_GIVEN or proof.calls == self._calls):
                    name = "full size" if variant == AS_GIVEN else variant.name
                    reference = load(self._spec, variant.constants, batch=variant.batch)
                    calls = _Calls(reference, name, self._told, self._layout_seed, train=self._modes[0])
                    given, work = calls.given()
                    trial = Trial(
                        variant=name,
                        packed_init=pack(calls.reference.told_arguments()),
                        by_keyword=calls.reference.keyword_only(),
                        build_seed=secret_seed(),
                        states=(pack(state_of(calls.model)),),
                        cases=(given, *calls.extreme()),
                    )
                    as_given = variant == AS_GIVEN
                    self._known[variant] = Spot(
                        trial=trial,
                        work=work,
                        is_as_given=as_given,
                        holding=calls.holding,
                        transposed=functools.partial(calls.transposed, given),
                        in_other_mode=tuple(case for mode in self._modes[1:] for case in calls.in_mode(mode)),
                    )
        return self._known[variant]


class _Calls:
    """Makes calls of the reference at one size."""

    def __init__(self, reference: Reference, name: str, told: Told, layout_seed: int, *, train: bool) -> None:
        self.reference = reference
        self._layout_seed = layout_seed
        self.model = reference.make_model(secret_seed()).train(train)
        self._were_equal = randomise(self.model, secret_seed())
        self._name = name
        self._told = told
        self._holding: dict[Numbers, Case | None] = {}
        self._one_at_a_time = threading.Lock()
        self._orders = False
        """True if the reference leaves the order of equal elements open."""

    def given(self) -> tuple[Case, OriginalWork]:
        """Return a case with inputs of several magnitudes and signs, and the work of the reference.

        Parameters of a single sign get both signs, and some that were equal are larger, unless the answer is not finite
        then.
        """
        drawn = self.model
        one_sign = [name for name, value in drawn.named_parameters() if has_one_sign(value)]
        ways = [(False, False), *([(False, True)] if one_sign else []), *([(True, True)] if self._were_equal else [])]
        for grows, negates in reversed(ways):
            self.model = copied_module(drawn)
            if negates:
                negate_some(self.model, one_sign)
            if grows:
                _grow_some(self.model, self._were_equal)
            try:
                case, work = self._mixed()
                if all(bool(torch.isfinite(it.yard.original).all()) for it in case.expectation.outputs):
                    return case, work
            except (ProblemError, RuntimeError):
                if not grows and not negates:
                    raise
        return self._case(self.reference.make_inputs(secret_seed()), ""), work

    def _mixed(self) -> tuple[Case, OriginalWork]:
        inputs = self.reference.make_inputs(secret_seed())
        mix(inputs, self._told.names, secret_seed(), self._told.negated)
        packed = pack(inputs)
        with NotesOrdering() as noted:
            outputs, work = work_during(lambda: self.reference.call(copied_module(self.model), inputs))
        self._orders = noted.met
        return self._case_of(packed, inputs, outputs, ""), work

    def extreme(self) -> list[Case]:
        """Return a case with outliers and NaN in some samples, and one in which most whole numbers are equal.

        Each is left out if the reference refuses it.
        """
        return [*self._spoiled(), *self._most_equal()]

    def _most_equal(self) -> list[Case]:
        """Return a case in which most whole numbers of an input are equal, or none."""
        with contextlib.suppress(ProblemError, RuntimeError, IndexError, ValueError):
            inputs = self.reference.make_inputs(secret_seed())
            if make_most_equal(inputs, self._told.equal, secret_seed()):
                case = self._case(inputs, ", most whole numbers equal")
                if _is_sound(case, nan_at_most=0.0):
                    return [case]
        return []

    def _spoiled(self) -> list[Case]:
        """Return a case with outliers and NaN in some samples, with less of them if the reference refuses, or none."""
        told = self._told
        wholes = set(OF_WHOLES)
        for left_out in (set[str](), {NOT_FINITE}, {EXTREMES}, wholes, wholes | {NOT_FINITE}, wholes | {EXTREMES}):
            inputs = self.reference.make_inputs(secret_seed())
            is_narrow = any(it.dtype in NARROW_WHOLE for it in nested_tensors(inputs))
            is_known = left_out - wholes <= told.names and (not left_out & wholes or wholes & told.names)
            if not is_known or not (told.names & {EXTREMES, NOT_FINITE, BLANK, *wholes} or is_narrow):
                continue
            with contextlib.suppress(ProblemError, RuntimeError, IndexError, ValueError):
                spoil(inputs, dataclasses.replace(told, names=told.names - left_out), secret_seed())
                case = self._case(inputs, ", extreme inputs")
                if _is_sound(case, infinities=bool(told.infinities) and NOT_FINITE not in left_out):
                    return [case]
        return []

    def in_mode(self, train: bool) -> list[Case]:
        """Return a case as given and one with extreme inputs in this mode."""
        before = self.model.training
        self.model.train(train)
        inputs = self.reference.make_inputs(secret_seed())
        mix(inputs, self._told.names, secret_seed(), self._told.negated)
        try:
            case = self._case(inputs, "")
            if not _is_sound(case, nan_at_most=0.0):
                case = self._case(self.reference.make_inputs(secret_seed()), "")
            mode = "train" if train else "eval"
            return [dataclasses.replace(it, name=f"{it.name} / {mode}") for it in (case, *self.extreme())]
        except (ProblemError, RuntimeError):
            return []
        finally:
            self.model.train(before)

    def holding(self, numbers: Numbers) -> Case | None:
        """Return a case in which an eighth of the elements are these numbers, or None if the reference refuses."""
        with self._one_at_a_time:
            if numbers not in self._holding:
                inputs = self.reference.make_inputs(secret_seed())
                self._holding[numbers] = None
                strew(real_parts(nested_tensors(inputs)), numbers, secret_seed())
                with contextlib.suppress(ProblemError, RuntimeError):
                    case = self._case(inputs, ", numbers that the kernels name")
                    self._holding[numbers] = case if _is_sound(case, nan_at_most=0.0) else None
            return self._holding[numbers]

    def transposed(self, given: Case) -> Case | None:
        """Return the case with inputs that lie transposed in memory, or None. It is made anew each time."""
        if TRANSPOSED not in self._told.names:
            return None
        inputs = relaid(TRANSPOSED, given.expectation.packed_inputs.unpack(), self._layout_seed)
        if inputs is None:
            return None
        after = tuple(nested_tensors(inputs))
        expectation = dataclasses.replace(given.expectation, packed_inputs=pack(inputs), inputs_after=after)
        name = f"{given.name}, {TRANSPOSED}"
        return dataclasses.replace(given, name=name, distribution=TRANSPOSED, expectation=expectation)

    def _case(self, inputs: list[Any], what: str) -> Case:
        packed = pack(inputs)
        case = self._case_of(packed, inputs, self.reference.call(copied_module(self.model), inputs), what)
        if not self._orders:
            return case

        def again() -> list[torch.Tensor]:
            return list(nested_tensors(self.reference.call(copied_module(self.model), packed.unpack())))

        outputs = with_open_order(again, case.expectation.outputs)
        return dataclasses.replace(case, expectation=dataclasses.replace(case.expectation, outputs=outputs))

    def _case_of(self, packed: Payload, inputs: list[Any], outputs: Any, what: str) -> Case:
        tensors, tree = tensors_of(outputs)
        expectation = Expectation(
            packed_inputs=packed,
            tree=tree,
            outputs=tuple(
                Output(name=str(i), yard=Yardstick(truth=it, original=it, nudged=(), scale=0.0))
                for i, it in enumerate(tensors)
            ),
            inputs_after=tuple(nested_tensors(inputs)),
        )
        return Case(
            name=f"{self._name}{what}",
            variant=self._name,
            distribution="",
            train=self.model.training,
            expectation=expectation,
        )


def _grow_some(model: torch.nn.Module, names: Iterable[str]) -> None:
    """Make a share of the elements of these parameters up to some times as large, as training may."""
    parameters, generator = dict(model.named_parameters()), torch.Generator().manual_seed(secret_seed())
    for parameter in (parameters[name].data for name in names if name in parameters):
        factors = 1 + (GROWN_AT_MOST - 1) * torch.rand(parameter.shape, generator=generator)
        chosen = torch.rand(parameter.shape, generator=generator) < GROWN_SHARE
        parameter.mul_(torch.where(chosen, factors, 1.0).to(parameter))


def _is_sound(case: Case, nan_at_most: float = MOSTLY_NUMBERS, *, infinities: bool = False) -> bool:
    """Return True if an answer of the reference has at most this share of NaN, and no infinities unless allowed."""
    floats = [it.yard.original for it in case.expectation.outputs if it.yard.original.is_floating_point()]
    if not infinities and any(bool(it.isinf().any()) for it in floats):
        return False
    return all(int((~torch.isfinite(it)).count_nonzero()) <= nan_at_most * it.numel() for it in floats)


def _largest(spot: Spot) -> int:
    expectation = spot.trial.cases[0].expectation
    return max(it.numel() for it in (*expectation.inputs_after, *(out.yard.original for out in expectation.outputs)))
