"""Makes the cases whose inputs, parameters and buffers hold numbers that a candidate's kernels name or met.

Unlike other cases they depend on the candidate, so they are made when the first candidate asks for them. A number is
planted only if the reference accepts it: its answer must stay finite and near the float64 truth.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from triton_agent.tools.cases.distributions import share_memory
from triton_agent.tools.cases.feeds import reach_of
from triton_agent.tools.cases.input_changes import largest_asked, makes_scores
from triton_agent.tools.cases.named_numbers import (
    ORDINARY,
    Numbers,
    fill_with,
    groups,
    magnitudes,
    make_equal,
    plant,
    room_in,
)
from triton_agent.tools.cases.plan import ALONE_BYTES_AT_MOST, Case
from triton_agent.tools.cases.whole_numbers import is_written_at
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.operator_groups import NORMS, SUMMING, WHOLE_OPERATORS
from triton_agent.tools.graph.operators import ORDERING, bare_name
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.protocol import MetNumbers
from triton_agent.tools.processes.tensors import nested_tensors, real_parts, real_valued
from triton_agent.tools.reference.input_tensors import is_sorted
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference_runs import OriginalRuns
from triton_agent.tools.truth.expectation import (
    Expectation,
    OriginalFailed,
    is_as_finite,
    state_of,
)
from triton_agent.tools.truth.jumps import WHOLE as WHOLE_DTYPES

NUMBERS_NAMED = "numbers that the kernels name"
NUMBERS_MET = "numbers that the kernels combine elements with"
PLANTED_IN = ("everywhere", "parameters", "inputs", "range")
"""Where named numbers are planted, in the order in which it is tried: in all tensors, in parameters and inputs, only in
inputs, and only those numbers that are in the range of the inputs."""
FEWEST_IN_A_TABLE = 4
"""Buffers with fewer different values are masks or constants, and get no named numbers."""
KEPT_BYTES, KEPT_AT_MOST = 16 << 20, 8
"""Size of inputs up to which cases with named numbers are kept, and for how many sets of numbers."""
TURNS_AT_MOST = 12
"""Maximum number of cases for tensors that are too small for all numbers, a single scale for example."""
ASTRAY = 0.01
"""A case is dropped if the reference's own error exceeds this share of the largest element, and half of the element
itself."""


class Source(Protocol):
    """One variant of the reference, with what is known of it."""

    models: list[torch.nn.Module]
    """The reference with each version of its parameters."""
    latest: int
    """The last version with changed parameters; those that follow are for one case each."""
    last: list[Any]
    """The inputs drawn last."""
    given: Expectation
    """The answer to inputs as given."""
    runs: OriginalRuns
    scales: dict[str, float]

    @property
    def graph(self) -> OperatorGraph | None: ...

    @property
    def operators(self) -> frozenset[str]: ...

    def fresh(self) -> list[Any]: ...

    def case_of(self, expectation: Expectation, distribution: str, train: bool, *, version: int = 0) -> Case: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The tensors of one call that numbers are planted in."""

    inputs: list[torch.Tensor]
    parameters: list[torch.Tensor]
    """Empty if parameters keep their values."""
    buffers: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    """Each buffer with its different values, and for each of its elements the place among them. Empty if buffers keep
    their values.
    """

    @property
    def values(self) -> list[torch.Tensor]:
        """The different values of each buffer that is not a mask or a constant."""
        return [values for _, values, _ in self.buffers if len(values) >= FEWEST_IN_A_TABLE]

    def write_buffers(self) -> None:
        """Write the values into the buffers. Elements that were equal stay equal."""
        for buffer, values, places in self.buffers:
            buffer.copy_(values[places].reshape(buffer.shape))


class NumberCases:
    """The cases of one variant that hold named or met numbers."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: dict[tuple[Numbers, bool], tuple[tuple[Case, Payload | None], ...]] = {}
        self._one_at_a_time = threading.RLock()

    def holding(self, numbers: Numbers, train: bool) -> Iterable[tuple[Case, Payload | None]]:
        """Return cases whose inputs and parameters hold these numbers, each with a state of its own, or None.

        Small ones are made when the first candidate asks; most candidates for a problem name the same numbers. Large
        ones are made one by one, and not kept.
        """
        if self._source.given.packed_inputs.size_bytes > KEPT_BYTES:
            return self._made(numbers, train)
        with self._one_at_a_time:
            if (numbers, train) not in self._kept:
                self._kept[numbers, train] = tuple(self._made(numbers, train))
            while len(self._kept) > KEPT_AT_MOST:
                del self._kept[next(iter(self._kept))]
            return self._kept[numbers, train]

    def _made(self, numbers: Numbers, train: bool) -> Iterator[tuple[Case, Payload | None]]:
        largest = max((float(it.abs().max()) for it in real_valued(self._source.last)), default=1.0)
        for group in groups(numbers, largest or 1.0):
            for turn in (0, *range(1, 1 + self._turns(group, numbers))):
                with self._one_at_a_time:
                    case = self._case_holding(group, numbers, train, turn)
                if case is not None:
                    yield case

    def _case_holding(
        self, floats: tuple[float, ...], numbers: Numbers, train: bool, turn: int = 0
    ) -> tuple[Case, Payload | None] | None:
        """Plant numbers in inputs, parameters and buffers; after refusals in fewer, and at last only those in range.

        If floats are cast to integers, only values in the range of the inputs are planted: other casts are undefined.
        Later turns plant other numbers first, and only in tensors that are too small for all of them.
        """
        generator = torch.Generator().manual_seed(secret_seed())
        latest = self._source.models[self._source.latest]
        small = sum(value.nbytes for value in state_of(latest).values()) <= ALONE_BYTES_AT_MOST
        takes_any = self._source.graph is not None and self._source.operators <= WHOLE_OPERATORS
        sizes = [abs(number) for number in floats]
        # Without neighbours: an honest kernel may lose some accuracy in each of many small numbers.
        alone = frozenset(it for it in magnitudes(generator) if min(sizes) <= abs(it) <= max(sizes))
        for places in PLANTED_IN:
            inputs = self._source.fresh()
            if share_memory(inputs):
                return None
            ceiling = min(
                (largest_asked(self._source.operators, it.dtype) for it in real_valued(inputs)), default=math.inf
            )
            chosen = self._accepted((*floats, *sorted(alone)), inputs, ceiling, in_range=places == "range")
            model = copied_module(latest).train(train) if small else _in_mode(latest, train)
            version = len(self._source.models)
            with torch.no_grad():
                told = [
                    it for it, is_fixed in zip(real_parts(nested_tensors(inputs)), self._written_at) if not is_fixed
                ]
                target = _target_in(told, model, places if small else "inputs")
            try:
                with torch.no_grad():
                    if turn:
                        _fill_small(target, [number for number in numbers.named() if number in chosen], turn, generator)
                    else:
                        anywhere = takes_any and places != "range"
                        self._plant_all(target, chosen, ceiling, numbers, generator, anywhere=anywhere, alone=alone)
                    target.write_buffers()
                case = self._if_sound(model, inputs, NUMBERS_NAMED, train)
            except (OriginalFailed, RuntimeError, IndexError, ValueError):
                continue
            if case is not None and not target.parameters and not target.values:
                return dataclasses.replace(case, version=self._source.latest), None
            if case is not None:
                return dataclasses.replace(case, version=version), pack(state_of(model))
        return None

    def _accepted(
        self, floats: tuple[float, ...], inputs: list[Any], ceiling: float, *, in_range: bool
    ) -> tuple[float, ...]:
        """Return the numbers up to the ceiling, if there is one, and with `in_range` only those among the inputs."""
        chosen = tuple(number for number in floats if abs(number) <= ceiling or not self._is_bounded)
        if in_range or self._casts_to_whole():
            within = [(float(it.min()), float(it.max())) for it in real_valued(inputs)]
            chosen = tuple(number for number in chosen if all(low <= number <= high for low, high in within))
        return chosen

    def _plant_all(
        self,
        target: _Target,
        chosen: tuple[float, ...],
        ceiling: float,
        numbers: Numbers,
        generator: torch.Generator,
        *,
        anywhere: bool,
        alone: frozenset[float],
    ) -> None:
        """Plant the chosen numbers in inputs, and those that do not overflow in parameters and buffers as well."""
        # a norm of equal elements is only rounding error
        rows = self._source.graph is not None and not self._source.operators & NORMS
        plant(target.inputs, chosen, numbers, generator, rows=rows, anywhere=anywhere, alone=alone)
        fitting = chosen
        if self._is_bounded:
            fitting = tuple(number for number in chosen if abs(number) <= ceiling ** (1 / max(1, self._products)))
        many = [it for it in target.parameters if it.dim()]
        plant(many, fitting, numbers, generator, rows=False, anywhere=False, alone=alone)
        for values in target.values:  # a buffer's range is what the module is made for, such as scales above 0
            inside = _within(fitting, values)
            plant([values], inside, numbers, generator, rows=False, anywhere=False, alone=alone)
        make_equal(target.inputs, [*target.parameters, *target.values], generator)

    def _if_sound(self, model: torch.nn.Module, inputs: list[Any], distribution: str, train: bool) -> Case | None:
        """Return the case with planted inputs; None if the reference's answer is not finite or far from the truth."""
        ordered = bool(self._source.operators & ORDERING)
        expectation = self._source.runs.expect(model, inputs, self._source.scales, brief=not ordered)
        if ordered:
            expectation = self._source.runs.with_free_places(model, expectation)
        if not is_as_finite(expectation, self._source.given) or is_astray(expectation):
            return None
        return self._source.case_of(expectation, distribution, train)

    @property
    def _is_bounded(self) -> bool:
        """True if correct kernels agree with the reference only up to some magnitude of the inputs."""
        return (
            self._source.graph is None
            or bool(self._source.operators & SUMMING or self._products)
            or any(it.is_complex() for it in nested_tensors(self._source.last))  # products of parts are summed
            or makes_scores(self._source.operators)
        )

    def meeting(self, case: Case, counterparts: Sequence[MetNumbers]) -> Case | None:
        """Return the case with some elements of its inputs set to numbers that a kernel combined them with.

        Each is set with a probability of one half, so that rows keep other elements. If the reference refuses, only
        numbers that are not much larger than the inputs are used.
        """
        names, is_bounded = self._source.operators, self._is_bounded
        model = _in_mode(self._source.models[case.version], case.train)
        for times in (math.inf, ORDINARY):
            inputs = case.expectation.packed_inputs.unpack()
            told = real_parts(nested_tensors(inputs))
            if share_memory(inputs) or self._casts_to_whole():
                return None
            with torch.no_grad():
                for number, tensor in enumerate(told):
                    if not tensor.is_contiguous() or not tensor.numel() or self._written_at[number]:
                        continue
                    mine = [it for it in counterparts if it.input == number]
                    if not tensor.is_floating_point():
                        self._meet_wholes(tensor, [pair for it in mine for pair in zip(it.at, it.numbers)])
                        continue
                    most = min(times * (float(tensor.abs().nan_to_num(0.0, 0.0, 0.0).max()) or 1.0), 3e38)
                    most = min(most, largest_asked(names, tensor.dtype)) if is_bounded else most
                    for it in mine:
                        at, values = torch.tensor(it.at), torch.tensor(it.numbers, dtype=torch.float64)
                        taken = torch.rand(len(at), generator=torch.Generator().manual_seed(secret_seed())) < 0.5
                        taken &= (values.abs() <= most) & (at >= 0) & (at < tensor.numel())  # not NaN, either
                        tensor.view(-1)[at[taken].to(tensor.device)] = values[taken].to(tensor)
            with contextlib.suppress(OriginalFailed, RuntimeError, ValueError):
                made = self._if_sound(model, inputs, NUMBERS_MET, case.train)
                if made is not None:
                    return dataclasses.replace(made, version=case.version)
        return None

    def _meet_wholes(self, tensor: torch.Tensor, pairs: Sequence[tuple[int, float]]) -> None:
        """Set about half of these integers: any if the reference accepts all, else those in the range of the tensor."""
        flat = tensor.view(-1)
        if tensor.dtype not in WHOLE_DTYPES or is_sorted(tensor):  # may be offsets or positions
            return
        ends = torch.iinfo(tensor.dtype)
        low, high = (
            (ends.min, ends.max) if self._source.operators <= WHOLE_OPERATORS else (int(flat.min()), int(flat.max()))
        )
        generator = torch.Generator().manual_seed(secret_seed())
        for at, value in pairs:
            is_fit = 0 <= at < len(flat) and value == int(value) and low <= int(value) <= high
            if is_fit and bool(torch.rand((), generator=generator) < 0.5):
                flat[at] = int(value)

    def _turns(self, floats: tuple[float, ...], numbers: Numbers) -> int:
        """Return how many cases are needed for the smallest tensor to hold all of these numbers that are named."""
        latest = self._source.models[self._source.latest]
        tensors = [*real_valued(self._source.fresh()), *latest.parameters(), *latest.buffers()]
        named = sum(number in floats for number in numbers.named())
        room = min((room_in(it) for it in tensors if it.is_floating_point() and it.numel()), default=named)
        return min(TURNS_AT_MOST, math.ceil(named / room)) if room else 0

    @functools.cached_property
    def _written_at(self) -> tuple[bool, ...]:
        """For each input: True if an operator writes to the places that it gives, which therefore have to differ."""
        tensors, graph = list(nested_tensors(self._source.last)), self._source.graph
        if graph is None or len(graph.inputs) != len(tensors):
            return len(tensors) * (False,)
        return tuple(is_written_at(it, reach_of(graph, f"x{number}")) for number, it in enumerate(tensors))

    @property
    def _products(self) -> int:
        """Number of products in the reference, where a recurrent cell counts as one.

        Huge parameters in several products overflow in some orders of sums.
        """
        nodes = self._source.graph.nodes if self._source.graph is not None else ()
        return sum(node.kind == "heavy" for node in nodes)

    def _casts_to_whole(self) -> bool:
        return self._source.graph is not None and any(
            "quantize" in node.operator
            or (bare_name(node.operator) == "_to_copy" and not any("float" in it.dtype for it in node.outputs))
            for node in self._source.graph.nodes
        )


def _in_mode(model: torch.nn.Module, train: bool) -> torch.nn.Module:
    """Return the module itself if it is in this mode, else a copy: other threads use it as well."""
    return model if model.training == train else copied_module(model).train(train)


def _target_in(inputs: list[torch.Tensor], model: torch.nn.Module, places: str) -> _Target:
    """Return the tensors for `places`, one of `PLANTED_IN`. Variances and sorted buffers keep their values."""
    parameters = [it.data for it in model.parameters()] if places in ("everywhere", "parameters") else []
    buffers = []
    for name, buffer in model.named_buffers() if places == "everywhere" else ():
        if "running_var" not in name and buffer.is_floating_point() and not is_sorted(buffer):
            buffers.append((buffer, *torch.unique(buffer, return_inverse=True)))
    return _Target(inputs=inputs, parameters=parameters, buffers=buffers)


def _fill_small(target: _Target, named: Sequence[float], turn: int, generator: torch.Generator) -> None:
    """Fill each tensor that is too small for all named numbers with some of them, in each turn with others."""
    fitting = [(tensor, tuple(named)) for tensor in (*target.inputs, *target.parameters)]
    fitting += [(values, _within(named, values)) for values in target.values]
    for tensor, numbers in fitting:
        if numbers and tensor.is_floating_point() and room_in(tensor) < len(named):
            fill_with(tensor, numbers, turn, generator)


def _within(numbers: Iterable[float], tensor: torch.Tensor) -> tuple[float, ...]:
    """Return the numbers of a size between those of the tensor's elements, negative ones only if it has some."""
    sizes = tensor.abs()
    low, high, has_negative = float(sizes.min()), float(sizes.max()), bool((tensor < 0).any())
    return tuple(number for number in numbers if low <= abs(number) <= high and (number > 0 or has_negative))


def is_astray(expectation: Expectation) -> bool:
    """Return True if the reference itself is plainly wrong somewhere, because an intermediate value overflowed.

    For example, torch's attention on a CPU returns zeros for a row with an infinite score, where NaN is as correct.
    """
    for yard in (output.yard for output in expectation.outputs):
        if yard.original.is_floating_point() and yard.original.numel():
            found, wanted = yard.decided(yard.original.double()), yard.truth.double()
            error, size = (found - wanted).abs(), torch.maximum(found.abs(), wanted.abs())
            if bool((error > torch.clamp(size / 2, min=ASTRAY * float(wanted.abs().max()))).any()):
                return True
    return False
