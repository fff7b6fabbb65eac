"""Makes the cases of a module whose calls change buffers: as after other calls, or after very many.

Buffers of a new module are zero, and a few calls change little. So a kernel may read the first entries of a cache only,
count in floats, or leave out what happens when a buffer reaches a limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from triton_agent.tools.cases.distributions import real_valued_in
from triton_agent.tools.cases.number_cases import Source, is_astray
from triton_agent.tools.cases.plan import Case, Chain, Following
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.operators import bare_name, words
from triton_agent.tools.graph.values import Argument
from triton_agent.tools.processes.payloads import pack
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.input_tensors import map_tensors, own_copy
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.truth.expectation import (
    Expectation,
    OriginalFailed,
    Output,
    changed,
    non_finite_share,
    state_of,
    with_slack,
)
from triton_agent.tools.truth.yardstick import near

AFTER_OTHERS = "as given, after other calls"
REFUSED = (OriginalFailed, ProblemError, RuntimeError)
"""Errors of a reference that does not accept other inputs or another state: it gets no such case."""
CALLS_BEFORE = 2
"""Calls before the checked one, for a module that keeps a state."""
LOUDNESS = ((1.0, 1.0), (30.0, 1.0), (1.0, 0.2), (1.0, 0.01))
"""Factors on the inputs of the calls before, and on those of the checked one: what is kept of louder calls, such as a
peak, shows in a quieter one only."""
MANY_CALLS = (1_000, 100_000)
"""Numbers of calls by which counters are raised: a warm-up is over then."""
MORE_THAN_FLOATS_HOLD = 20_000_001
"""The last of these numbers for counters that are integers: one that float32 cannot hold."""
PERIODS, PERIODS_AT_MOST = words("remainder fmod floor_divide eq ne ge gt le lt"), 4
"""Operators whose constants a counter is made to reach, such as the 5 in `count % 5`, and the most such constants."""
LIMITING = PERIODS | words("clamp clamp_min clamp_max hardtanh threshold")
"""Operators whose constants are limits that buffers are set to."""
CALLS_BEFORE_A_LIMIT = 6
"""So many that a running minimum, for example, stays as it is in most of the calls that follow."""
QUIET = 0.01
"""Factor on inputs: what counts quiet calls starts again at a loud one."""
AT_LIMITS = (1.0, 0.5, 1.5)
"""Values of buffers relative to a limit. Whole numbers are one less or one more."""
BEYOND_AN_END = (0, 0.5)
"""A call takes a counter of samples to such a number, or beyond it by half of the call's samples, as a ring buffer that
wraps within the call."""

DRAWS = 2
"""Draws of inputs that take turns in a chain of calls."""


class Repeated(torch.nn.Module):
    """Calls a module so often, with several inputs in turns, and returns all answers.

    What the reference does in a chain of calls is then what this module does in one: the float64 truth and the randomly
    rounded runs carry on states of their own.
    """

    def __init__(self, module: torch.nn.Module, modes: Sequence[bool]) -> None:
        """`modes` has the training flag of each call."""
        super().__init__()
        self.module = module
        self.modes = tuple(modes)

    def forward(self, *draws: list[Any]) -> Any:
        answers = []
        for number, train in enumerate(self.modes):
            answer = self.module.train(train)(*own_copy(list(draws[number % len(draws)])))
            answers.append(map_tensors(answer, torch.clone))  # a later call may change what this one returned
        return answers


class Maker(Source, Protocol):
    """Makes the cases of one variant."""

    reference: Reference
    modes: list[bool]
    """Training flags to check."""

    def graph_in(self, train: bool, inputs: list[Any] | None = None) -> OperatorGraph | None: ...

    def case_with(
        self, model: torch.nn.Module, expectation: Expectation, distribution: str, train: bool, what: str
    ) -> Case: ...


class StateCases:
    """The cases of one variant that begin with the state after other calls."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    def add(self, cases: list[Case]) -> None:
        """If calls change buffers, add a case that starts from the buffers after the reference's first calls."""
        stateful = next((case for case in cases if case.expectation.state_after), None)
        if stateful is None:
            return
        for before, now in LOUDNESS:
            model = self._latest_model(stateful.train)
            with contextlib.suppress(*REFUSED):
                self._call(model, CALLS_BEFORE, before)
                expectation = self._maker.runs.expect(model, self._fresh(now), self._maker.scales, brief=True)
                louder = f" times {before:g}" if before != 1 else ""
                quieter = f", inputs times {now:g}" if now != 1 else ""
                what = AFTER_OTHERS + louder + quieter + (" / train" if stateful.train else "")
                if not non_finite_share(expectation):
                    cases.append(self._maker.case_with(model, expectation, AFTER_OTHERS, stateful.train, what))
        for count in MANY_CALLS:
            self._count_on(cases, stateful, count)
        for end in self._periods(stateful.train):
            for beyond in BEYOND_AN_END:
                self._count_on(cases, stateful, end, beyond=beyond)
        self._count_on(cases, stateful, 0, beyond=0)
        self._count_many_on(cases, stateful)
        self._reach_limits(cases, stateful)

    def chain(self, given: Case, last: Case | None, count: int) -> Chain | None:
        """Return a chain of so many calls in the mode of this case, from the state of a module as drawn.

        The last call is in the mode of `last` if there is one. Rounding may err in one direction in all calls, so
        limits are wider than those of single calls.
        """
        draws = [self._maker.fresh() for _ in range(DRAWS)]
        cases = [given] * (count - 1) + [last or given]
        repeated = Repeated(copied_module(self._maker.models[0]), [case.train for case in cases])
        with contextlib.suppress(*REFUSED):
            scales = {
                name.replace("out", f"out[{number}]", 1) if name.startswith("out") else name: scale
                for name, scale in self._maker.scales.items()
                for number in range(count)
            }
            found = self._maker.runs.expect(repeated, draws, scales, brief=True)
            found = with_slack(found, math.sqrt(count), gross_only=not found.brief)
            names = {output.name.replace("module.", "", 1) for output in found.state_after}
            alike = names >= {output.name for output in given.expectation.state_after}
            wanted = sum(len(case.expectation.outputs) for case in cases)
            if not alike or len(found.outputs) != wanted or non_finite_share(found) or is_astray(found):
                return None
            packed = [pack(draw) for draw in draws]
            after = [tuple(map(near, nested_tensors(draw))) for draw in draws]
            calls, begin = [], 0
            for number, case in enumerate(cases):
                end = begin + len(case.expectation.outputs)
                expectation = dataclasses.replace(
                    _of_one_call(found, case.expectation, begin, end),
                    packed_inputs=packed[number % DRAWS],
                    inputs_after=after[number % DRAWS],
                )
                name = f"{case.variant} / as given, call {number + 1} of {count} in a row" + " / train" * case.train
                calls.append(
                    dataclasses.replace(
                        case, name=name, distribution=AFTER_OTHERS, version=0, expectation=expectation, stale=None
                    )
                )
                begin = end
            return Chain(cases=tuple(calls))
        return None

    def following(
        self, given: Case, inputs: Mapping[int, torch.Tensor], buffers: Mapping[str, torch.Tensor]
    ) -> Following | None:
        """Return a call like this one that gets these inputs, by number, and begins with these buffers.

        None if the reference refuses them, or its answer is not finite.
        """
        model = copied_module(self._maker.models[given.version]).train(given.train)
        own = given.expectation.packed_inputs.unpack()
        with contextlib.suppress(*REFUSED), torch.no_grad():
            for number, tensor in enumerate(nested_tensors(own)):
                if number in inputs:
                    tensor.copy_(inputs[number])
            for name, buffer in model.named_buffers():
                if name in buffers:
                    buffer.copy_(buffers[name])
            state = pack(state_of(model))
            expectation = self._maker.runs.expect(model, own, self._maker.scales, brief=True)
            if non_finite_share(expectation) or is_astray(expectation):
                return None
            name = f"{given.variant} / with what the call before returned" + " / train" * given.train
            case = dataclasses.replace(given, name=name, distribution=AFTER_OTHERS, expectation=expectation, stale=None)
            return Following(case=case, state=state)
        return None

    def _periods(self, train: bool) -> list[int]:
        """Return whole numbers at which or at multiples of which something may happen.

        These are numbers that the reference names, and places in the middle and at the end of a buffer.
        """
        graph = self._graph(train)
        if graph is None:
            return []
        named = [it for node in graph.nodes if bare_name(node.operator) in PERIODS for it in node.arguments]
        wholes = {it for it in named if isinstance(it, int) and not isinstance(it, bool) and it > 1}
        lengths = {buffer.shape[0] for buffer in self._maker.models[0].buffers() if buffer.dim()}
        places = {place for length in lengths for place in (length // 2, length) if place > 1}
        return sorted(wholes)[:PERIODS_AT_MOST] + sorted(places - wholes)[:PERIODS_AT_MOST]

    def _count_on(self, cases: list[Case], stateful: Case, count: int, *, beyond: float | None = None) -> None:
        """Add a case in which buffers that count calls or samples have counted so many more of them.

        With `beyond`, the call itself takes them to the number and by this share of its step beyond it, also if they
        count down. Other buffers may change then, too. Zero is a number for those that count down.
        """
        before = stateful.expectation.state_before
        changed = {it.name.removeprefix("buffer "): it.yard.original for it in stateful.expectation.state_after}
        steps = {
            name: float(after.double() - before[name].double())
            for name, after in changed.items()
            if after.numel() == 1 and after.dtype is not torch.bool and not after.is_complex()
        }
        counting = [name for name, step in steps.items() if step > 0 and step.is_integer() and count]
        if beyond is not None:
            counting += [name for name, step in steps.items() if step < 0 and step.is_integer()]
        if not counting or (beyond and all(abs(steps[name]) == 1 for name in counting)):
            return  # no counter, or one that stops at each number
        model = self._latest_model(stateful.train)
        if count == MANY_CALLS[-1] and not any(before[name].is_floating_point() for name in counting):
            count = MORE_THAN_FLOATS_HOLD
        with contextlib.suppress(*REFUSED):  # a narrow counter may not hold the number
            for name, buffer in model.named_buffers():
                if name in counting and beyond is not None:
                    buffer.fill_(count - steps[name] + int(beyond * steps[name]))
                elif name in counting:
                    buffer.add_(count)
                elif (
                    beyond is not None and name in changed and buffer.is_floating_point() and not buffer.count_nonzero()
                ):
                    buffer.copy_(torch.randn(buffer.shape))  # what earlier calls have stored
            self._add_after_calls(cases, stateful, model, count, same_buffers=beyond is None)

    def _count_many_on(self, cases: list[Case], stateful: Case) -> None:
        """Add a case in which whole numbers of buffers with several counters, as of kinds, have become large."""
        before, model = stateful.expectation.state_before, self._latest_model(stateful.train)
        counting = {
            output.name.removeprefix("buffer ")
            for output in stateful.expectation.state_after
            if output.yard.original.dtype in (torch.int32, torch.int64)
            and output.yard.original.numel() > 1
            and bool((output.yard.original >= before[output.name.removeprefix("buffer ")]).all())
        }
        with contextlib.suppress(*REFUSED):
            for name, buffer in model.named_buffers():
                if name in counting:
                    buffer.add_(MORE_THAN_FLOATS_HOLD)
            if counting:
                self._add_after_calls(cases, stateful, model, MORE_THAN_FLOATS_HOLD, same_buffers=True)

    def _reach_limits(self, cases: list[Case], stateful: Case) -> None:
        """Add cases in which buffers are near the numbers that the reference compares them with."""
        limits = self._limits(stateful.train)
        for turn, now in itertools.product((0, 1), (1.0, QUIET)) if limits else ():
            model = self._latest_model(stateful.train)
            with contextlib.suppress(*REFUSED):
                self._call(model, CALLS_BEFORE_A_LIMIT, now)
                for name, buffer in model.named_buffers():
                    if name in limits:
                        _set_near(buffer, limits[name], turn)
                expectation = self._maker.runs.expect(model, self._fresh(now), self._maker.scales, brief=True)
                if not non_finite_share(expectation):
                    what = f"as given, buffers {('at', 'beyond')[turn]} their limits, inputs times {now:g}"
                    cases.append(self._maker.case_with(model, expectation, AFTER_OTHERS, stateful.train, what))

    def _call(self, model: torch.nn.Module, count: int, times: float) -> None:
        """Call the module so often with inputs times this factor."""
        for _ in range(count):
            self._maker.reference.call(model, self._fresh(times))

    def _fresh(self, times: float) -> list[Any]:
        """Draw inputs, and multiply all that are not whole numbers by this factor."""
        inputs = self._maker.fresh()
        for tensor in real_valued_in(inputs) if times != 1 else ():
            tensor.mul_(times)
        return inputs

    def _limits(self, train: bool) -> dict[str, list[float]]:
        """Return the numbers that each buffer which calls change is compared with or limited to."""
        graph = self._graph(train)
        if graph is None:
            return {}
        found = {source.removeprefix("b:"): _limits_of(graph, source) for source in graph.updates}
        return {name: limits for name, limits in found.items() if limits}

    def _graph(self, train: bool) -> OperatorGraph | None:
        return self._maker.graph if train == self._maker.modes[0] else self._maker.graph_in(train)

    def _add_after_calls(
        self, cases: list[Case], stateful: Case, model: torch.nn.Module, count: int, *, same_buffers: bool
    ) -> None:
        """Add a case with this module, whose buffers are as after so many calls.

        It has to change the buffers that the first call changes, and with `same_buffers` no others.
        """
        changed = {output.name for output in stateful.expectation.state_after}
        expectation = self._maker.runs.expect(model, self._maker.fresh(), self._maker.scales, brief=True)
        found = {output.name for output in expectation.state_after}
        if (found == changed if same_buffers else found >= changed) and not non_finite_share(expectation):
            what = f"as given, after {count:,} calls"
            cases.append(self._maker.case_with(model, expectation, AFTER_OTHERS, stateful.train, what))

    def _latest_model(self, train: bool) -> torch.nn.Module:
        return copied_module(self._maker.models[self._maker.latest]).train(train)


def _of_one_call(found: Expectation, given: Expectation, begin: int, end: int) -> Expectation:
    """Return what `Repeated` does as the expectation of one of its module's calls, which has these outputs."""
    prefix = "module."

    def renamed(output: Output) -> Output:
        return dataclasses.replace(output, name=output.name.replace(prefix, "", 1))

    return dataclasses.replace(
        given,
        outputs=tuple(
            dataclasses.replace(own, yard=output.yard)
            for own, output in zip(given.outputs, found.outputs[begin:end], strict=True)
        ),
        state_before={name.removeprefix(prefix): value for name, value in found.state_before.items()},
        state_after=tuple(map(renamed, found.state_after)),
        lifted=found.lifted,
        brief=found.brief,
        closer=changed(found.closer, lambda it: _of_one_call(it, given, begin, end)),
    )


def _limits_of(graph: OperatorGraph, source: str) -> list[float]:
    """Return the numbers that values made of the source are compared with; flags are not followed."""
    values, named = {source}, list[Argument]()
    for node in graph.nodes:
        if values.isdisjoint(node.references()):
            continue
        if bare_name(node.operator) in LIMITING:
            named += [*node.arguments, *node.keywords.values()]
        values |= {node.output_name(k) for k, made in enumerate(node.outputs) if made.dtype != "bool"}
    return sorted({float(it) for it in named if isinstance(it, (int, float)) and not isinstance(it, bool) and it})


def _set_near(buffer: torch.Tensor, limits: list[float], turn: int) -> None:
    """Set the elements near one of the limits: a single one to the limit or beyond it, several to values around it."""
    limit = limits[turn % len(limits)]
    if buffer.dtype is torch.bool or buffer.is_complex():
        return
    around = torch.tensor([limit * share for share in AT_LIMITS] if buffer.is_floating_point() else [0.0, -1.0, 1.0])
    around = around if buffer.is_floating_point() else around + limit
    chosen = torch.randint(len(around), buffer.shape) if buffer.numel() > 1 else torch.full(buffer.shape, 2 * turn)
    buffer.copy_(around[chosen].to(buffer))
