"""Makes the cases of one variant: draws inputs, changes them, and runs the reference on them.

Cases depend only on the reference and are made once per problem. Their seeds are drawn here and never leave this
process. Cases with other parameters are made in `parameter_cases.py`, those with inputs of other magnitudes in
`magnitudes.py`, those with numbers that a candidate's kernels name in `number_cases.py`, and those of modules that keep
a state in `state_cases.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from triton_agent.tools.answers.checks import mutated_inputs
from triton_agent.tools.cases.directed import (
    DIRECTED,
    FLIPPED,
    NOT_FINITE,
    NUMBERS,
    OF_WHOLES,
    OFFSET,
    RELATED,
    SHARE_JUDGED,
    Directed,
    directed,
    kind_of,
)
from triton_agent.tools.cases.distributions import (
    BLANK,
    DISTRIBUTIONS,
    EXTREMES,
    FEW,
    FLAGS,
    MODERATE,
    OPPOSED_FAR,
    OPPOSING,
    POSITIVE,
    QUIETER,
    ROUNDED,
    STRUCTURED,
    WHOLE,
    WITH_EMPTY,
    has_both_signs,
    has_flags,
    has_one_sign,
    has_positions_or_lengths,
    has_wide_floats,
    negate_some,
    put_under,
    share_memory,
)
from triton_agent.tools.cases.input_changes import makes_scores
from triton_agent.tools.cases.layouts import (
    APART,
    GAPS,
    INNER,
    LAYOUTS,
    MIXED,
    OTHER_VALUES,
    TRANSPOSED,
    relaid,
    safe,
)
from triton_agent.tools.cases.magnitudes import MagnitudeCases
from triton_agent.tools.cases.number_cases import NumberCases
from triton_agent.tools.cases.parameter_cases import ParameterCases
from triton_agent.tools.cases.plan import (
    ALONE_BYTES_AT_MOST,
    AS_GIVEN,
    ONE_CHANGED,
    SHUFFLED,
    Case,
    Chain,
)
from triton_agent.tools.cases.state_cases import StateCases
from triton_agent.tools.cases.versions import all_changed, off_the_diagonal
from triton_agent.tools.cases.whole_numbers import FAR
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.operator_groups import ATTENTION, NORMS, STILL
from triton_agent.tools.graph.operators import ORDERING
from triton_agent.tools.graph.own_limits import Limit, OwnLimits
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.graph.values import order_in_memory
from triton_agent.tools.graph.written_out import operators_of
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.tensors import float_tensors, nested_tensors
from triton_agent.tools.reference.input_tensors import map_tensors, own_copy
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.reference.reference_runs import OriginalRuns
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import (
    Behaviour,
    Expectation,
    OriginalFailed,
    is_as_finite,
    scales_of,
    state_of,
    with_any_infinity,
    with_slack,
)
from triton_agent.tools.truth.expectation_measures import (
    count_not_finite,
    is_as_accurate,
    judged_share,
    nan_share,
)

_MENTIONED = re.compile(rf"\b(arg)?({'|'.join(ORDERING)})\b")
NAN_STANDS_FOR = 6e4
"""Magnitude of the numbers that take the place of NaN to see which places of elements hang on it."""
DRAWS_AT_MOST = 4
"""Maximum number of draws of inputs to find one without ties. If all have ties, ties are typical of these inputs."""
LARGE_BYTES = 32 << 20
TOO_LARGE_BYTES = 4 << 30
"""Inputs between these sizes are drawn `LARGE_BASES` times, and each case changes a copy of a draw. Smaller inputs are
drawn for each case. So are larger ones, because kept copies of them would not fit in memory."""
LARGE_BASES = 2
SIGNS_FROM = 2
"""First version of the parameters in which parameters with elements of a single sign get both signs."""
REFUSALS = 3
"""Number of attempts to make a case that the reference accepts. Each attempt changes less."""
INSTEAD = ((WITH_EMPTY, WHOLE), (EXTREMES, MODERATE), (STRUCTURED, QUIETER))
"""Distributions with the weaker forms of them, which are used if the reference does not accept the first."""
IN_EACH_MODE = (EXTREMES, "x0.01", "one sign", BLANK, POSITIVE)
"""Distributions for the second mode, if the reference does something else in it."""
SLACK_WHERE_RELATED = 8.0
"""Factor on the limits for inputs made from each other. Their difference may be zero in one formula, and a rounding
error in another."""
DIRECTED_IN_EACH_MODE, LAYOUTS_IN_EACH_MODE = (NOT_FINITE, NUMBERS, OFFSET), (TRANSPOSED, GAPS, MIXED, INNER)
"""Directed cases and layouts for that mode."""
NO_LAYOUTS = (
    "inputs in other memory layouts were not checked: the reference ended its process, or broke the GPU, with some"
)


def mode_name(train: bool) -> str:
    return "train" if train else "eval"


class CaseMaker:
    """Draws inputs and runs the reference for one variant."""

    def __init__(
        self,
        reference: Reference,
        variant: str,
        models: list[torch.nn.Module],
        settings: EvaluatorSettings,
        notes: list[str],
        pause: Callable[[], None],
        build_seed: int,
    ) -> None:
        self.reference = reference
        self.build_seed = build_seed
        self.runs = OriginalRuns(reference=reference, settings=settings, pause=pause)
        self.variant = variant
        self.models = models
        self.settings = settings
        self.notes = notes
        self.scales: dict[str, float] = {}
        self.last: list[Any] = []
        self._bases: list[list[Any]] = []
        self.put_in_order: frozenset[int] = frozenset()
        self.latest = len(models) - 1
        """The last version with changed parameters; those that follow are for one case each."""
        self.number_cases = NumberCases(self)
        self.modes = self._modes()
        self._one_at_a_time = threading.Lock()
        self._at_other_branches: tuple[Case, ...] | None = None
        self._with_other_parameters: tuple[tuple[Case, Payload], ...] | None = None
        self._chains: dict[tuple[bool, bool, int], Chain | None] = {}
        if settings.remedies:
            self._mix_signs()

    def _modes(self) -> list[bool]:
        """Return the training flags to check. The run with the first flag becomes the first case."""
        seen: dict[bool, Behaviour] = {}
        reasons: dict[str, OriginalFailed] = {}
        for mode in self.settings.modes:
            train = mode == "train"
            self.models[0].train(train)
            try:
                if not seen:
                    self.given = self.expected(self.models[0], AS_GIVEN)
                    seen[train] = Behaviour.of(self.given)
                else:
                    seen[train] = self.runs.behaviour(self.models[0], self.given.packed_inputs)
            except OriginalFailed as error:
                reasons[mode] = error
        if not seen:
            raise next(iter(reasons.values()))
        self.notes += [
            f"{mode} mode was not checked, so a shipped file runs the reference there: {why}"
            for mode, why in reasons.items()
        ]
        first, *others = seen.values()
        self.modes_agree = len(seen) == 2 and first.agrees(*others)
        return list(seen)

    def _mix_signs(self) -> None:
        """Give parameters and buffers with elements of a single sign both signs, in the later versions.

        For example, a scale that is initially one may become negative in training. The change is undone if the
        reference then fails, or returns more non-finite values.
        """
        later = self.models[SIGNS_FROM:]
        if not later:
            return
        fresh = dict(self.models[0].named_parameters())
        buffers = {name: it for name, it in self.models[0].named_buffers() if "running_" not in name}
        for kind in (fresh, buffers):
            names = [name for name, value in kind.items() if has_one_sign(value)]
            for model in later if names else ():
                negate_some(model, names)
            if names and not self._is_as_finite(later[0]):
                for model in later:
                    negate_some(model, names)

    def _is_as_finite(self, model: torch.nn.Module) -> bool:
        """Return True if the reference runs with these parameters, and returns no more infinities and NaN."""
        with contextlib.suppress(OriginalFailed):
            found = self.runs.behaviour(model.train(self.modes[0]), self.given.packed_inputs).outputs
            return count_not_finite(found) <= count_not_finite([output.yard.original for output in self.given.outputs])
        return False

    def _first_case(self) -> Case:
        """Return the case with inputs as given. Its outputs set the scale for all other expectations."""
        self.scales = scales_of(self.given)
        return self.case_of(self.given, AS_GIVEN, self.modes[0])

    def main_cases(self) -> list[Case]:
        self.put_in_order = _put_in_order(self.graph) if self.graph is not None else frozenset()
        cases = [self._first_case()]
        if self.settings.remedies:
            self.try_distribution(cases, ONE_CHANGED, self.modes[0])
        names = [name for name in DISTRIBUTIONS[1:] if self.settings.remedies and self._is_useful(name, cases[0])]
        last_version = len(self.models) - 1
        # If the reference only moves elements, a candidate may leave other layouts to `contiguous()`.
        computes = self.graph is None or any(node.kind not in STILL for node in self.graph.nodes)
        for i, name in enumerate(name for name in names if name not in OPPOSING):
            if (cases[-1].distribution, name) in INSTEAD:
                continue
            version = min(i, last_version)
            self.try_distribution(cases, name, self.modes[0], version=version)
        if self.settings.remedies:
            self._add_directed_cases(cases, last_version, DIRECTED, train=self.modes[0])
            for layout in self._layouts(LAYOUTS) if computes else ():
                self._try_layout(cases, layout, last_version, train=self.modes[0])
        for train in self.modes[1:]:  # last, since buffers that a call changes stay changed
            self.try_distribution(cases, AS_GIVEN, train)  # a candidate's modes may differ where the reference's agree
            if self.settings.remedies and not self.modes_agree:
                known = {case.distribution for case in cases}
                for name in (name for name in IN_EACH_MODE if name in known or name == EXTREMES):
                    self.try_distribution(cases, name, train, version=last_version)
                self._add_directed_cases(cases, last_version, DIRECTED_IN_EACH_MODE, train=train)
                for layout in self._layouts(LAYOUTS_IN_EACH_MODE) if computes else ():
                    self._try_layout(cases, layout, last_version, train=train)
        size_bytes = sum(value.nbytes for value in state_of(self.models[0]).values())
        if self.settings.remedies and size_bytes:
            if size_bytes <= ALONE_BYTES_AT_MOST and len(self.models) > 1:
                ParameterCases(self).add(cases)
            StateCases(self).add(cases)
        for name in (name for name in OPPOSING if name in names):
            ParameterCases(self).add_opposed(cases, name)
        if self.settings.remedies:
            MagnitudeCases(self).add(cases)
        return cases

    def in_other_mode(self, cases: Sequence[Case]) -> tuple[Case, ...]:
        """Return the cases of the first mode for the other one, if the reference does the same in both."""
        if not self.modes_agree or not self.settings.remedies:
            return ()
        first = (case for case in cases[1:] if case.train == self.modes[0] and not case.expectation.state_after)
        return tuple(
            dataclasses.replace(case, train=self.modes[1], name=f"{case.name} / {mode_name(self.modes[1])}")
            for case in first
        )

    @functools.cached_property
    def graph(self) -> OperatorGraph | None:
        """The operators that the reference runs on inputs as given; None if they cannot be recorded."""
        return self.graph_in(self.modes[0])

    def graph_in(self, train: bool, inputs: list[Any] | None = None) -> OperatorGraph | None:
        refused = (ProblemError, NotImplementedError, RuntimeError, TypeError, LookupError, ValueError)
        with contextlib.suppress(*refused), self.reference.running("forward"):
            return extract(self.models[0].train(train), self.fresh() if inputs is None else inputs)
        return None

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """The names of these operators; those that order elements if they are not known."""
        return operators_of(self.graph) if self.graph else ORDERING

    def _add_directed_cases(self, cases: list[Case], version: int, names: Sequence[str], *, train: bool) -> None:
        """Add the directed cases with these names of the reference's operators.

        For each kind, try weaker forms until the reference accepts one in which most of the answer can be judged.
        """
        is_known = train == self.modes[0] and not share_memory(self.last)
        graph = self.graph if is_known else self.graph_in(train, self._fresh_apart())
        if graph is None:
            return
        model, given = self.models[version].train(train), cases[0].expectation
        asked = directed(graph, self._fresh_apart(), state_of(model))
        expected_share = judged_share(self.runs.with_free_places(model, given) if asked.picks else given)
        for name in asked.cases(names):
            for refused in range(REFUSALS):
                expectation = self._directed_expectation(model, asked, name, refused)
                if expectation is None:
                    continue
                judged = judged_share(expectation) + (nan_share(expectation) if name == NOT_FINITE else 0.0)
                sound = name == NOT_FINITE or is_as_finite(expectation, given)
                if name in (FAR, FLIPPED, RELATED):
                    sound = sound and is_as_accurate(expectation, given)
                if sound and judged >= SHARE_JUDGED * expected_share:
                    if name == RELATED:
                        expectation = with_slack(expectation, SLACK_WHERE_RELATED)
                    kind = kind_of(name)
                    change = functools.partial(asked.change, name, refused=refused) if kind in OF_WHOLES else None
                    case = self.case_of(expectation, kind, train, version=version)
                    own_name = case.name.replace(kind, name)
                    cases.append(dataclasses.replace(case, name=own_name, change=change))
                    break

    def _directed_expectation(
        self, model: torch.nn.Module, asked: Directed, name: str, refused: int
    ) -> Expectation | None:
        """Return what the reference makes of inputs changed for a directed case; None if it refuses them.

        `refused` is the number of forms of the case that it refused before; the more, the weaker is this one.
        """
        inputs, generator = self._fresh_apart(), torch.Generator().manual_seed(secret_seed())
        plain = pack(inputs) if name == NOT_FINITE and asked.picks and not asked.orders else None
        adds_infinity = name == NOT_FINITE and asked.sums and not asked.orders and refused < REFUSALS - 1
        try:
            if name == NOT_FINITE:
                values = self._plantable(model, asked, refused)
                values += [math.inf, -math.inf] if adds_infinity else []
                values += [0.0] if asked.pointwise and not refused else []  # its logarithm, for example, is infinite
                asked.plant(inputs, values, generator, twice=not refused, late=refused > 0)
                if asked.neutral is not None and self._may_fill(model, asked, values):
                    asked.fill_lines(inputs, asked.neutral, generator)
            else:
                asked.change(name, inputs, generator, refused)
            by_order = plain is not None or asked.orders
            expectation = self.runs.expect(model, inputs, self.scales, brief=not by_order)
            if by_order:
                others = [plain, *_without_nan(inputs, generator)] if plain is not None else []
                expectation = self.runs.with_free_places(model, expectation, others)
            if adds_infinity:
                spoiled = self.runs.behaviour(model, pack([map_tensors(it, _infinities_to_nan) for it in inputs]))
                expectation = with_any_infinity(expectation, spoiled)
        except (OriginalFailed, RuntimeError, IndexError, ValueError):
            return None
        return expectation

    def _plantable(self, model: torch.nn.Module, asked: Directed, refused: int) -> list[float]:
        """Return the special values to plant: NaN, and those infinities that the reference does not turn into NaN.

        NaN is left out if elements are ordered, and infinities if elements are summed or at the last attempt. A sum
        gets both beside these, where NaN and any infinity count as right.
        """
        nan, infinities = [] if asked.orders else [math.nan], []
        for value in () if asked.sums or refused == REFUSALS - 1 else (math.inf, -math.inf):
            inputs = self._fresh_apart()
            asked.plant(inputs, [value], torch.Generator().manual_seed(secret_seed()))
            outputs = self.runs.behaviour(model, pack(inputs)).outputs
            if not any(bool(torch.isnan(output).any()) for output in outputs if output.is_floating_point()):
                infinities.append(value)
        return [*nan, *infinities]

    def _may_fill(self, model: torch.nn.Module, asked: Directed, values: Sequence[float]) -> bool:
        """Return True if a sample may hold nothing but the neutral infinity: the reference makes no NaN of it.

        Where an extremum is sought, a kernel may begin with a finite number.
        """
        if asked.neutral is None or asked.neutral not in values or asked.sums or asked.orders:
            return False
        inputs = self.fresh()
        asked.fill_lines(inputs, asked.neutral, torch.Generator().manual_seed(secret_seed()))
        outputs = self.runs.behaviour(model, pack(inputs)).outputs
        return not any(bool(torch.isnan(output).any()) for output in outputs if output.is_floating_point())

    def _layouts(self, names: Sequence[str]) -> Sequence[str]:
        if not self.settings.layouts:
            self.notes.append(NO_LAYOUTS)
            return ()
        attends = bool(self.operators & ATTENTION)
        return safe(names) if attends and self.settings.device == "cuda" else names

    def _try_layout(self, cases: list[Case], name: str, version: int, *, train: bool) -> None:
        inputs = relaid(name, self.fresh(), self.build_seed)
        # Where elements lie in one memory and are changed, the answer depends on the order of the changes.
        if inputs is None or (name in OTHER_VALUES and mutated_inputs(cases[0])):
            return
        with contextlib.suppress(OriginalFailed, RuntimeError):
            model = self.models[version].train(train)
            expectation = self.runs.expect(model, inputs, self.scales, brief=not self.goes_by_order)
            if self.goes_by_order:
                expectation = self.runs.with_free_places(model, expectation)
            if is_as_finite(expectation, cases[0].expectation):
                cases.append(self.case_of(expectation, name, train, version=version))

    def fresh(self) -> list[Any]:
        """Return new inputs as given; large ones are copied from a kept draw."""
        if self._bases:
            return [map_tensors(value, _copied) for value in self._bases[-1]]
        return self._moved(self.reference.make_inputs_on(self.settings.device, secret_seed()))

    def _fresh_apart(self) -> list[Any]:
        """Return new inputs, each with memory of its own, so that one can change alone."""
        inputs = self.fresh()
        return relaid(APART, inputs) or inputs

    def _is_useful(self, distribution: str, given: Case) -> bool:
        """Return True if a distribution applies here. For example, positions in a sample of zeros are all ties."""
        if distribution == ROUNDED and not has_wide_floats(self.last):
            return False
        if distribution in (BLANK, FEW, STRUCTURED, QUIETER, ROUNDED):
            outputs = [output.yard.original for output in given.expectation.outputs]
            floats = all(it.is_floating_point() or it.is_complex() or it.dtype is torch.bool for it in outputs)
            # a norm of equal elements is only rounding error
            is_rounding = distribution == FEW and bool(self.operators & NORMS)
            return floats and not self.goes_by_order and not is_rounding
        if distribution == OPPOSED_FAR and not makes_scores(self.operators):
            return False
        if distribution in OPPOSING:
            return sum(map(has_both_signs, (*float_tensors(self.last), *self.models[self.latest].parameters()))) > 1
        if distribution == POSITIVE:
            return any(bool((it > 0).any() and (it < 0).any()) for it in float_tensors(self.last))
        if distribution in (WITH_EMPTY, WHOLE):
            return has_positions_or_lengths(self.last)
        return distribution != FLAGS or has_flags(self.last)

    @functools.cached_property
    def goes_by_order(self) -> bool:
        """True if the reference sorts elements and uses their positions.

        Finding out takes a run, which is skipped if the file mentions no such operator.
        """
        if not _MENTIONED.search(self.reference.spec.source().text):
            return False
        with contextlib.suppress(ProblemError, NotImplementedError, RuntimeError, TypeError):
            graph = extract(self.models[0], self.last)
            used = {name for node in graph.nodes for name in node.references()} | set(graph.outputs)
            orders = (node for node in graph.nodes if node.operator.removeprefix("aten.") in ORDERING)
            return any(node.output_name(1) in used for node in orders)
        return False

    def variant_cases(self) -> list[Case]:
        cases = [self._first_case()]
        if self.settings.remedies:
            for name in (EXTREMES, MODERATE):
                if cases[-1].distribution == AS_GIVEN:
                    self.try_distribution(cases, name, self.modes[0 if self.modes_agree else -1])
        return cases

    def cases_at_other_branches(self) -> tuple[Case, ...]:
        """Return the cases of the main variant that a variant leaves out, except other versions of parameters."""
        return self._made_once(self.modes[0], DISTRIBUTIONS[1:], DIRECTED)

    def with_other_parameters(self) -> tuple[tuple[Case, Payload], ...]:
        """Return a call with other parameters and buffers, and these, for a variant that has one version of them."""
        if not self.settings.remedies or len(self.models) > 1 or not self.models[0].state_dict():
            return ()
        with self._one_at_a_time, contextlib.suppress(OriginalFailed, RuntimeError):
            if self._with_other_parameters is None:
                self._with_other_parameters = ()
                generator = torch.Generator().manual_seed(secret_seed())
                model = all_changed(self.models[0], generator).train(self.modes[0])
                state = pack(state_of(model))
                expectation = self.expected(model, AS_GIVEN, brief=True)
                if is_as_finite(expectation, self.given):
                    case = self.case_of(expectation, AS_GIVEN, self.modes[0])
                    self._with_other_parameters = ((dataclasses.replace(case, stale=None), state),)
        return self._with_other_parameters or ()

    def cases_in_second_mode(self) -> tuple[Case, ...]:
        """Return the cases of the first mode that the second one leaves out, if the reference differs in it."""
        if len(self.modes) < 2 or self.modes_agree:
            return ()
        return self._made_once(
            self.modes[1],
            [name for name in DISTRIBUTIONS[1:] if name not in IN_EACH_MODE],
            [name for name in DIRECTED if name not in DIRECTED_IN_EACH_MODE],
        )

    def chain(self, given: Case, last: Case | None, count: int) -> Chain | None:
        """Return a chain of calls; see `StateCases.chain`. It is made once, when a candidate needs it."""
        with self._one_at_a_time:
            key = given.train, last is not None, count
            if key not in self._chains:
                self._chains[key] = StateCases(self).chain(given, last, count)
            return self._chains[key]

    def _made_once(self, train: bool, distributions: Sequence[str], kinds: Sequence[str]) -> tuple[Case, ...]:
        """Make cases of these distributions and directed cases of these kinds when the first candidate asks."""
        if not self.settings.remedies:
            return ()
        with self._one_at_a_time:
            if self._at_other_branches is None:
                # other threads may use the model in the other mode, and the problem's notes are complete
                self.models[0], self.notes = copied_module(self.models[0]).train(train), []
                cases = [self.case_of(self.given, AS_GIVEN, self.modes[0])]
                for name in (name for name in distributions if self._is_useful(name, cases[0])):
                    self.try_distribution(cases, name, train)
                self._add_directed_cases(cases, 0, kinds, train=train)
                self._at_other_branches = tuple(cases[1:])
            return self._at_other_branches

    def own_limits(self, case: Case) -> frozenset[Limit]:
        """Return the limits of the reference's own that no value reaches in this case."""
        limits, model = OwnLimits(), copied_module(self.models[min(case.version, len(self.models) - 1)])
        with limits, contextlib.suppress(OriginalFailed):
            self.runs.behaviour(model.train(case.train), case.expectation.packed_inputs)
        return frozenset(limits.found)

    def looks(self, count: int, cases: Sequence[Case]) -> list[Case]:
        """Return cases for timed calls; none if a call depends on earlier calls.

        Drawing large inputs takes long, so shuffled ones are used if the reference accepts them in any order.
        """
        if cases[0].expectation.state_after:
            return []
        changed = len(self._bases) == LARGE_BASES and any(case.distribution == SHUFFLED for case in cases)
        more = list(cases[:1])
        for _ in range(count):
            self.try_distribution(more, SHUFFLED if changed else AS_GIVEN, self.modes[0])
        return more[1:]

    def try_distribution(self, cases: list[Case], distribution: str, train: bool, *, version: int = 0) -> None:
        """Add a case, or a note that says why the reference cannot be used for it."""
        try:
            model = self.models[version].train(train)
            expectation = self.expected(model, distribution, brief=True)
            case = self.case_of(expectation, distribution, train, version=version)
        except OriginalFailed as error:
            self.notes.append(f"distribution {distribution!r} was not used: {error}")
            return
        if not is_as_finite(case.expectation, cases[0].expectation):
            why = "the reference gives NaN, or more infinities than for the inputs as given"
            self.notes.append(f"distribution {distribution!r} was not used: {why}")
            return
        cases.append(case)

    def case_of(self, expectation: Expectation, distribution: str, train: bool, *, version: int = 0) -> Case:
        if not expectation.lifted:
            self.notes.append("the reference does not run in float64; its own outputs serve as the truth")
        packed, stale = expectation.packed_inputs, None
        if version:
            stale = self.runs.when_asked(self.models[version - 1], packed, self.scales, train=train)
        return Case(
            name=f"{self.variant} / {distribution}" + (" / train" if train else ""),
            variant=self.variant,
            distribution=distribution,
            train=train,
            version=version,
            expectation=expectation,
            stale=stale,
            put_in_order=self.put_in_order if distribution not in LAYOUTS else frozenset(),
        )

    def case_with(
        self, model: torch.nn.Module, expectation: Expectation, distribution: str, train: bool, what: str
    ) -> Case:
        """Return a case with this module as a new version, which differs from the one before in many places."""
        self.models.append(model)
        case = self.case_of(expectation, distribution, train, version=len(self.models) - 1)
        return dataclasses.replace(case, stale=None, name=f"{self.variant} / {what}")

    def expected(self, model: torch.nn.Module, distribution: str, *, brief: bool = False) -> Expectation:
        """Run the reference on drawn inputs. Draw again if elements tie by chance and their positions are returned.

        If they tie in each draw, as probabilities that underflow do, any of their positions is right.
        """
        for left in reversed(range(DRAWS_AT_MOST)):
            bases = len(self._bases)
            expectation = self.runs.expect(model, self._draw(distribution), self.scales, brief=brief)
            if not self.goes_by_order or not self.runs.hinges_on_ties(model, expectation):
                break
            if not left:
                return self.runs.with_free_places(model, expectation)
            del self._bases[bases:]
        return expectation

    def _draw(self, distribution: str) -> list[Any]:
        if distribution == ONE_CHANGED:
            generator = torch.Generator().manual_seed(secret_seed())
            return [map_tensors(v, lambda tensor: _one_changed(tensor, generator)) for v in own_copy(self.last)]
        seed = secret_seed()
        if len(self._bases) == LARGE_BASES and distribution != AS_GIVEN:
            self._bases.reverse()
            self.last = [map_tensors(value, _copied) for value in self._bases[0]]
            put_under(distribution, self.last, seed)
            return self.last
        inputs = self.reference.make_inputs_on(self.settings.device, seed)
        if share_memory(inputs):  # change them before they are moved one by one, which separates them
            put_under(distribution, inputs, seed)
            self.last = self._moved(inputs)
        else:
            self.last = self._moved(inputs)
            # Two draws of large inputs, each a second on a CPU, are enough for all cases that change them.
            drawn = self.last
            size_bytes = sum(tensor.nbytes for tensor in nested_tensors(drawn))
            if LARGE_BYTES <= size_bytes <= TOO_LARGE_BYTES and len(self._bases) < LARGE_BASES:
                self._bases.append([map_tensors(value, _copied) for value in drawn])
            put_under(distribution, self.last, seed)
        return self.last

    def _moved(self, inputs: list[Any]) -> list[Any]:
        """Move inputs to the candidate's device. On a GPU they are copied, which packs them densely."""
        device, copied = self.settings.device, self.settings.device != "cpu"
        return [map_tensors(value, lambda tensor: tensor.to(device, copy=copied)) for value in inputs]


def _put_in_order(graph: OperatorGraph) -> frozenset[int]:
    """Return the outputs that depend on an operator which changes the order of elements in memory."""
    values, producers, found = graph.values(), graph.producers(), set()
    for i, output in enumerate(graph.outputs):
        waiting, seen = [output], set[str]()
        while waiting:
            node = producers.get(waiting.pop())
            if node is None or node.output_name() in seen:
                continue
            seen.add(node.output_name())
            given = [values[name] for name in node.references() if name in values]
            orders = {order_in_memory(it.shape, it.strides) for it in (*given, *node.outputs)}
            if node.kind == "movement" and len(orders) > 1 and len({it.shape for it in (*given, *node.outputs)}) == 1:
                found.add(i)
            waiting += node.references()
    return frozenset(found)


def _without_nan(inputs: Sequence[Any], generator: torch.Generator) -> list[Payload]:
    """Return the inputs with small, large and random numbers in place of NaN, where no place of it is specified."""

    def replaced(tensor: torch.Tensor, low: float, high: float) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        numbers = low + (high - low) * torch.rand(tensor.shape, generator=generator)
        return torch.where(tensor.isnan(), numbers.to(tensor), tensor)

    most = NAN_STANDS_FOR
    return [
        pack([map_tensors(it, functools.partial(replaced, low=low, high=high)) for it in inputs])
        for low, high in ((-most, -most), (most, most), (0.0, most))
    ]


def _infinities_to_nan(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(tensor.isinf(), math.nan, tensor) if tensor.is_floating_point() else tensor


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _one_changed(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Multiply one random element by -1.5; integers and flags stay as they are.

    The change is made in place, which keeps strides. An expanded tensor is copied first.
    """
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        tensor = tensor.clone()
    if tensor.is_floating_point() and tensor.numel() and tensor.dim():
        where = off_the_diagonal(tensor.shape, generator)
        with torch.no_grad():
            tensor[where] = torch.where(tensor[where] == 0, 1.0, tensor[where] * -1.5)
    return tensor
