"""Spot checks: some programs of a launch at sizes that are too large to run completely.

Without a GPU, a large problem is checked at a smaller size, so a kernel that is wrong beyond that size looks correct.
Here the candidate is traced again at the problem's own size, or at a size that reaches the largest position its kernels
name. A few programs of the launches on that tape run: some at random, and those next to positions that the kernels
name. The values they write are compared with the reference, coarsely, since rounding was judged before. Only elements
that do not depend on skipped programs count. If programs wait for each other, a note says that this was not checked.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import itertools
import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.answers.authorship import OriginalWork, work_during
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.errors import ProblemError
from triton_agent.tools.executor.memory import poisoned, told_from_answers
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.parsing import parse
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.tensors import DTYPES, nested_tensors, real_parts
from triton_agent.tools.reference.footprint import Limits
from triton_agent.tools.reference.input_tensors import leading_size
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference, load
from triton_agent.tools.reference.size_trials import LEADING, Trials
from triton_agent.tools.reference.sizes import AS_GIVEN, Variant
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.slicing import effects_of
from triton_agent.tools.tape.tape import (
    Allocate,
    Constant,
    Constexpr,
    Launch,
    Operate,
    Place,
    Step,
    Tape,
    View,
    views_in,
)
from triton_agent.tools.truth.distributions import (
    BLANK,
    EXTREMES,
    NOT_FINITE,
    has_one_sign,
    mix,
    negate_some,
    randomise,
    spoil,
)
from triton_agent.tools.truth.expectation import Expectation, Output, state_of, tensors_of
from triton_agent.tools.truth.layouts import TRANSPOSED, relaid
from triton_agent.tools.truth.named_numbers import Numbers, strew
from triton_agent.tools.truth.plan import Case, Trial, secret_seed
from triton_agent.tools.truth.yardstick import Yardstick

LIMITS = Limits(elements_at_most=1 << 26, flops_at_most=20_000_000_000, seconds_at_most=20.0)
"""Limits of one run of the reference: about a second and a GiB."""
FARTHEST = 1 << 24
"""Largest position to visit: later ones would need memory of that size."""
AT_RANDOM, NAMED_AT_MOST = 8, 24
"""Number of programs to run: random ones, and those at named positions."""
GROSS = {4: 0.02, 8: 0.02}
"""Allowed error relative to the magnitude of element and output, by item size; 0.1 for narrower dtypes."""
IMPRECISE = 64.0
"""Factor on the average error allowed at the size that is checked completely, for floats of 32 bits and more: sums are
longer here, and the reference's own answer is the standard. Half-precision intermediates err several times as much."""
USUAL_SHARE, SHARE_IF_JUMPS = 0.999, 0.99
"""Share of elements whose error is averaged; if a result jumps, a few elements may fall on the other side."""
FILLS = ((-3e4, 0), (3e4, 3))
"""Fill values for memory, a float and an integer each, to find out which elements depend on skipped programs."""
WRONG_WHOLES, RARELY_WRONG = 0.02, 0.001
"""Share of integers that may differ because of rounding and ties, if the reference computes with floats; and if none of
at least a thousand did at the size that is checked completely."""
IMPRECISE_NARROW = 3.0
"""Like `IMPRECISE`, for floats of 16 bits: only the rounding at the end is unavoidable, however long a sum is."""
MOSTLY_NUMBERS = 0.6
"""Largest share of NaN in an answer to extreme inputs."""
COVERED = 0.6
"""Share of an output below which its programs are said to leave a part unwritten; some write more than others."""
SPOILED_EVERY = 97
"""Distance of the elements that are changed between two calls in the same memory; no tile has this width."""


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


class Spots:
    """The sizes of one problem at which candidates are spot-checked. Each is made on first use."""

    def __init__(self, spec: ProblemSpec, main: Variant, trials: Iterable[Trial], *, scaled: bool) -> None:
        self._spec = spec
        self._main = main
        trials = list(trials)
        tensors = [
            tensor
            for trial in trials
            for case in trial.cases[:1]
            for tensor in (*case.expectation.inputs_after, *(it.yard.original for it in case.expectation.outputs))
        ]
        self.visited = max((tensor.numel() for tensor in tensors), default=0)
        """Elements of the largest tensor at the sizes that are checked completely."""
        self._scaled = scaled
        cases = [case for trial in trials for case in trial.cases]
        # where elements are ordered, infinities are planted and NaN is not
        self._accepted = {case.distribution for case in cases if case.distribution != NOT_FINITE or _holds_nan(case)}
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

    def _at(self, variant: Variant) -> Spot | None:
        if variant not in self._known:
            self._known[variant] = None
            with contextlib.suppress(ProblemError, RuntimeError, MemoryError):
                if Trials(self._spec, secret_seed(), LIMITS).prove(variant) is not None:
                    name = "full size" if variant == AS_GIVEN else variant.name
                    calls = _Calls(load(self._spec, variant.constants, batch=variant.batch), name, self._accepted)
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
                    )
        return self._known[variant]


class _Calls:
    """Makes calls of the reference at one size."""

    def __init__(self, reference: Reference, name: str, accepted: Collection[str]) -> None:
        self.reference = reference
        self.model = reference.make_model(secret_seed()).eval()
        randomise(self.model, secret_seed())
        self._negated = [name for name, value in self.model.named_parameters() if has_one_sign(value)]
        negate_some(self.model, self._negated)
        self._name = name
        self._accepted = accepted
        self._holding: dict[Numbers, Case | None] = {}
        self._one_at_a_time = threading.Lock()

    def given(self) -> tuple[Case, OriginalWork]:
        """Return a case with inputs of several magnitudes and signs, and the work of the reference.

        Parameters of a single sign get both signs, unless the answer is not finite then.
        """
        inputs = self.reference.make_inputs(secret_seed())
        mix(inputs, self._accepted, secret_seed())
        packed = pack(inputs)
        try:
            outputs, work = work_during(lambda: self.reference.call(copied_module(self.model), inputs))
            if _are_finite(outputs):
                return self._case_of(packed, inputs, outputs, ""), work
        except (ProblemError, RuntimeError):
            if not self._negated:
                raise
        if self._negated:
            negate_some(self.model, self._negated)
            self._negated = []
            return self.given()
        return self._case(self.reference.make_inputs(secret_seed()), ""), work

    def extreme(self) -> list[Case]:
        """Return a case with outliers and NaN in some samples, with less of them if the reference refuses, or none."""
        wanted = {EXTREMES, NOT_FINITE, BLANK} & set(self._accepted)
        for left_out in (set[str](), {NOT_FINITE}, {EXTREMES}):
            if wanted and not left_out - wanted:
                inputs = self.reference.make_inputs(secret_seed())
                spoil(inputs, wanted - left_out, secret_seed())
                with contextlib.suppress(ProblemError, RuntimeError):
                    case = self._case(inputs, ", extreme inputs")
                    if _is_sound(case):
                        return [case]
        return []

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
        if TRANSPOSED not in self._accepted:
            return None
        inputs = relaid(TRANSPOSED, given.expectation.packed_inputs.unpack())
        if inputs is None:
            return None
        after = tuple(nested_tensors(inputs))
        expectation = dataclasses.replace(given.expectation, packed_inputs=pack(inputs), inputs_after=after)
        name = f"{given.name}, {TRANSPOSED}"
        return dataclasses.replace(given, name=name, distribution=TRANSPOSED, expectation=expectation)

    def _case(self, inputs: list[Any], what: str) -> Case:
        packed = pack(inputs)
        return self._case_of(packed, inputs, self.reference.call(copied_module(self.model), inputs), what)

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
        return Case(name=f"{self._name}{what}", variant=self._name, distribution="", expectation=expectation)


def _holds_nan(case: Case) -> bool:
    return any(bool(it.isnan().any()) for it in case.expectation.inputs_after if not it.is_meta)


def _are_finite(outputs: Any) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors_of(outputs)[0])


def _is_sound(case: Case, nan_at_most: float = MOSTLY_NUMBERS) -> bool:
    """Return True if the reference's answer has no infinities, and at most this share of NaN."""
    floats = [it.yard.original for it in case.expectation.outputs if it.yard.original.is_floating_point()]
    return not any(
        bool(it.isinf().any()) or int(it.isnan().count_nonzero()) > nan_at_most * it.numel() for it in floats
    )


def _largest(spot: Spot) -> int:
    expectation = spot.trial.cases[0].expectation
    return max(it.numel() for it in (*expectation.inputs_after, *(out.yard.original for out in expectation.outputs)))


def position_named(numbers: Numbers, tape: Tape, visited: int) -> int:
    """Return the farthest unvisited position that kernels name: that of an element, or of a program's first element.

    Numbers in the text may be program numbers. Arguments of launches are sizes and tiles, so they count elements only.
    """
    programs = max((math.prod(choice.grid) for launch in tape.launches() for choice in launch.choices), default=0)
    tile = max(_tiles(tape), default=1)
    wanted = [number for number in numbers.given if _is_whole(number) and visited < number <= FARTHEST]
    for number in filter(_is_whole, numbers.in_text):
        if isinstance(number, int) and programs < number <= FARTHEST // tile:
            wanted.append(number * tile)
        elif visited < number <= FARTHEST:
            wanted.append(number)
    return int(max(wanted, default=0))


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number == int(number)


def _tiles(tape: Tape) -> set[int]:
    """Return products of up to two integer compile-time arguments: the possible number of elements per program."""
    found: set[int] = set()
    for launch in tape.launches():
        for choice in launch.choices:
            values = [value.value for _, value in choice.arguments if isinstance(value, Constexpr)]
            plain = [value.get("value") if isinstance(value, dict) else value for value in values]
            sizes = [value for value in plain if type(value) is int and 1 < value <= 1 << 16]
            found |= {*sizes, *(one * two for one, two in itertools.combinations(sizes, 2))}
    return found


def programs_to_run(numbers: Numbers, tape: Tape) -> list[int]:
    """Return program numbers, x fastest: random ones, the first and last, and those next to named positions.

    Each launch runs those of its programs whose number is among them.
    """
    grids = {launch.choices[0].grid for launch in tape.launches()}
    count = max(map(math.prod, grids))
    named = sorted(abs(int(number)) for number in numbers.in_text | numbers.given if _is_whole(number))
    near = {
        at + step for number in named for tile in {1, *_tiles(tape)} for at in [number // tile] for step in (-1, 0, 1)
    }
    inside = sorted(at for at in near if 0 < at < count - 1)
    chance = random.SystemRandom()
    chosen = chance.sample(inside, min(len(inside), NAMED_AT_MOST))
    for x, y, z in grids:  # a number may also be that of a row or a layer of the grid
        for size, stride in ((y, x), (z, x * y)):
            rows = [at for at in sorted(near) if 0 < at < size]
            rows = chance.sample(rows, min(len(rows), NAMED_AT_MOST))
            chosen += [row * stride + chance.randrange(stride) for row in rows]
    return sorted({0, count - 1, *chosen, *(chance.randrange(count) for _ in range(AT_RANDOM))})


def configurations_of(tape: Tape) -> int:
    """Return how many configurations the launch with the most of them has."""
    return max((len(launch.choices) for launch in tape.launches()), default=1)


def beginning_with(tape: Tape, turn: int) -> Tape:
    """Return the tape with another configuration of each autotuned launch as the first."""
    steps = [
        dataclasses.replace(
            step, choices=step.choices[turn % len(step.choices) :] + step.choices[: turn % len(step.choices)]
        )
        if isinstance(step, Launch)
        else step
        for step in tape.steps
    ]
    return dataclasses.replace(tape, steps=tuple(steps))


def tells_by_parts(tape: Tape, kernels: KernelSet) -> bool:
    """Return True if a subset of programs produces final elements of the answer.

    It does not if programs wait for each other, or if launches with different grids write the outputs.
    """
    nodes = [node for function in kernels.functions.values() for node in ast.walk(parse(function.source))]
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if any(isinstance(node, ast.While) for node in nodes) and any(name.startswith("atomic_") for name in named):
        return False
    outputs = {view.buffer for view in tape.outputs}
    effects = effects_of(tape.steps, tape.buffers, WrittenParameters(kernels))
    finishing = [step for step, effect in zip(tape.steps, effects) if effect.writes & outputs]
    grids = {choice.grid for step in finishing if isinstance(step, Launch) for choice in step.choices[:1]}
    return len(grids) == 1


def fillings(tape: Tape, kernels: KernelSet) -> list[Tape]:
    """Return the tape twice: memory that kernels write is first filled with one number, then with another. Return no
    tapes if a single launch writes memory without initial contents, and poison shows what it left out.

    Elements that depend on the fill value depend on skipped programs, or on contents they add to. Memory that torch
    copied data into and that one launch updates keeps its contents: a program finds its own part there.
    """
    fresh = {number for number, buffer in enumerate(tape.buffers) if buffer.place is Place.FRESH}
    steps = list(zip(tape.steps, effects_of(tape.steps, tape.buffers, WrittenParameters(kernels))))
    writers = Counter(n for step, effect in steps if isinstance(step, Launch) for n in effect.writes & fresh)
    begun = [(step, effect) for step, effect in steps if isinstance(step, (Operate, Constant))]
    begun = [(step, effect) for step, effect in begun if effect.writes & set(writers)]
    single = sum(1 for _ in tape.launches()) == 1 and not begun
    single = single and all(told_from_answers(DTYPES[view.dtype]) for view in tape.outputs)
    if single and not any("atomic_" in function.source for function in kernels.functions.values()):
        return []
    copied = {
        number
        for step, effect in begun
        if effect.reads - effect.writes and isinstance(step, Operate) and kind_of(step.operator) != "allocation"
        for number in effect.writes
    }
    filled = {number for number, count in writers.items() if count > 1 or number not in copied}
    return [_filled(tape, filled, *values) for values in FILLS]


def _filled(tape: Tape, numbers: set[int], for_floats: float, for_wholes: int) -> Tape:
    """Fill each of these buffers before the first launch that receives it."""
    left, steps = set(numbers), list[Step]()
    for step in tape.steps:
        for view in _views(step) if isinstance(step, Launch) else ():
            dtype = DTYPES[view.dtype]
            if view.buffer in left:
                left.remove(view.buffer)
                size = tape.buffers[view.buffer].size_bytes // dtype.itemsize
                whole = dataclasses.replace(view, shape=(size,), strides=(1,), offset=0)
                value = for_floats if dtype.is_floating_point or dtype.is_complex else for_wholes
                steps.append(Operate(operator="aten.fill_.Scalar", args=(whole, value), kwargs=(), results=(whole,)))
        steps.append(step)
    return dataclasses.replace(tape, steps=tuple(steps))


def called_twice(tape: Tape) -> Tape:
    """Return a tape that makes the call twice in the same memory, where some elements are changed in between.

    Memory from torch's allocator often still holds the result of an earlier call. Memory that torch computes is new in
    the second call, too.
    """
    made = {step.buffer for step in tape.steps if isinstance(step, Allocate)}
    spoiling: list[Step] = []
    for view in {view.buffer: view for launch in tape.launches() for view in _views(launch)}.values():
        dtype = DTYPES[view.dtype]
        count = -(-(tape.buffers[view.buffer].size_bytes // dtype.itemsize) // SPOILED_EVERY)
        if view.buffer in made and count:
            some = dataclasses.replace(view, shape=(count,), strides=(SPOILED_EVERY,), offset=0)
            value = FILLS[1][0] if dtype.is_floating_point or dtype.is_complex else FILLS[1][1]
            spoiling.append(Operate(operator="aten.fill_.Scalar", args=(some, value), kwargs=(), results=(some,)))
    again = [step for step in tape.steps if not isinstance(step, Allocate)]
    return dataclasses.replace(tape, steps=(*tape.steps, *spoiling, *again))


def _views(launch: Launch) -> list[View]:
    return [view for _, value in launch.choices[0].arguments for view in views_in(value)]


def check_coverage(case: Case, tape: Tape, only: Sequence[int], got: Sequence[torch.Tensor]) -> None:
    """Raise `Failed` if all programs together cannot write an output, if each writes about as much as these did.

    Of several launches, a later one may have fewer programs, or write what an earlier one left out.
    """
    launches = list(tape.launches())
    count = math.prod(launches[0].choices[0].grid)
    ran = sum(number < count for number in only)
    if len(launches) > 1 or not ran:
        return
    for output, tensor in zip(case.expectation.outputs, got):
        if told_from_answers(tensor.dtype) and tensor.numel():
            written = int((~poisoned(tensor)).count_nonzero())
            if 0 < written * count / ran < COVERED * tensor.numel():
                raise Failed(
                    Finding.UNWRITTEN_OUTPUT,
                    f"case {case.name}: {ran} of {count} programs write {written} of {tensor.numel()} elements of "
                    f"output {output.name}; all programs together cannot write the whole",
                )


def check_keeps(case: Case, tape: Tape, kernels: KernelSet, inputs: Iterable[int], buffers: Iterable[str]) -> None:
    """Raise `Failed` unless the call writes each of these inputs and buffers, which the reference changes."""
    effects = effects_of(tape.steps, tape.buffers, WrittenParameters(kernels))
    written = {number for effect in effects for number in effect.writes}
    for i in inputs:
        if i < len(tape.inputs) and tape.inputs[i].buffer not in written:
            what = f"the input with index {i} is left as it is; the reference changes it"
            raise Failed(Finding.MUTATED_INPUT, f"case {case.name}: {what}")
    known, rebound = dict(tape.state), dict(tape.rebound)
    for name in buffers:
        if name in known and name not in rebound and known[name].buffer not in written:
            raise Failed(Finding.STATE, f"case {case.name}: buffer {name} is left as it is; the reference changes it")


def compare_changed(case: Case, changed: Sequence[Mapping[int, torch.Tensor]], inputs: Iterable[int]) -> None:
    """Raise `Failed` if what some programs wrote into an input is far from what the reference leaves there.

    `changed` are the inputs that calls changed, as in `compare_written`.
    """
    given = list(nested_tensors(case.expectation.packed_inputs.unpack()))
    for i in inputs:
        before, after = given[i], case.expectation.inputs_after[i]
        if before.is_complex() or any(i not in each or each[i].shape != before.shape for each in changed):
            continue
        got, *others = (each[i] for each in changed)
        written = (got != before) & ~((got != got) & (before != before))
        for other in others:
            written &= got == other
        have, want = got[written].double(), after[written].double()
        size = float(want.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) if want.numel() else 0.0
        off = (have - want).abs() > GROSS.get(got.element_size(), 0.1) * (want.abs() + size)
        wrong = torch.where(torch.isfinite(want), off | ~torch.isfinite(have), torch.isfinite(have))
        if bool(wrong.any()):
            raise Failed(
                Finding.MUTATED_INPUT,
                f"case {case.name}: {int(wrong.sum())} of {want.numel()} elements that some programs wrote into the "
                f"input with index {i} are wrong",
            )


def compare_again(case: Case, answers: Sequence[Sequence[torch.Tensor]], again: Sequence[torch.Tensor]) -> None:
    """Raise `Failed` if a second call in the same memory left elements that a first one wrote, as they were."""
    for output, got, second, written in zip(case.expectation.outputs, answers[0], again, finished(answers)):
        wide, now = (_as_numbers(it[written]) for it in (got, second))
        size = float(wide.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()) if wide.numel() else 0.0
        off = (now - wide).abs() > GROSS.get(got.element_size(), 0.1) * (wide.abs() + size)
        left = torch.where(torch.isfinite(wide), off | ~torch.isfinite(now), torch.isfinite(now))
        if bool(left.any()):
            raise Failed(
                Finding.UNWRITTEN_OUTPUT,
                f"case {case.name}: if fresh memory still holds the results of an earlier call, {int(left.sum())} of "
                f"{left.numel()} elements of output {output.name} are taken from there",
            )


def finished(answers: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """Return the elements of each output that programs wrote and that do not depend on skipped ones.

    `answers` come from tapes with different fill values of unwritten memory: poison, and the two of `FILLS`.
    """
    found = []
    for got, *others in zip(*answers):
        written = ~poisoned(got)
        for other in others:
            written &= got == other
        found.append(written)
    return found


def compare_written(
    case: Case, answers: Sequence[Sequence[torch.Tensor]], checked: Case, within: Sequence[torch.Tensor] = ()
) -> None:
    """Raise `Failed` if the written values are far from the reference's.

    `within` are the elements of each output that are looked at, if others equal the same number by chance.

    `answers` come from tapes with different fill values of unwritten memory: poison, and the two of `FILLS`. `checked`
    is a case at the size that is checked completely.
    """
    smaller = [output.yard for output in checked.expectation.outputs]
    for number, (output, yard, got) in enumerate(zip(case.expectation.outputs, smaller, answers[0])):
        want: Any = output.yard.original
        if got.shape != want.shape or got.dtype != want.dtype:
            found, wanted = (f"{it.dtype}{list(it.shape)}" for it in (got, want))
            raise Failed(Finding.SHAPE, f"case {case.name}: output {output.name} is {found}, and not {wanted}")
        written = finished([answer[number : number + 1] for answer in answers])[0]
        written = written & within[number] if within else written
        have, want = _as_numbers(got[written]), _as_numbers(want.to(got.device)[written])
        if want.numel() == 0:
            continue
        is_real_valued = got.is_floating_point() or got.is_complex()
        if is_real_valued:
            size = float(want.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
            off = (have - want).abs() > GROSS.get(got.element_size(), 0.1) * (want.abs() + size)
            wrong = torch.where(torch.isfinite(want), off | ~torch.isfinite(have), torch.isfinite(have))
            allowed = 0.0
        else:
            rounds = any(it.is_floating_point() for it in case.expectation.inputs_after)
            is_sure = yard.truth.numel() * RARELY_WRONG >= 1 and not (yard.flips.count or yard.span or yard.places)
            share = (RARELY_WRONG if is_sure else WRONG_WHOLES) if rounds else 0.0
            wrong, allowed = have != want, share * want.numel()
        if float(wrong.sum()) > allowed:
            at = int(wrong.to(torch.uint8).argmax())
            where = int(written.reshape(-1).nonzero()[at // (2 if got.is_complex() else 1)])
            raise Failed(
                Finding.VALUES,
                f"case {case.name}: {int(wrong.sum())} of {want.numel()} elements that some programs wrote are wrong; "
                f"the first at flat index {where}: got {float(have[at]):g}, expected {float(want[at]):g}",
            )
        if is_real_valued and yard.limits is not None and len(want):
            errors = (have - want).abs().nan_to_num_(0.0, 0.0, 0.0)
            share = USUAL_SHARE if yard.span is None else SHARE_IF_JUMPS
            most = errors.kthvalue(max(1, int(share * len(errors)))).values
            usual = torch.isfinite(want) & (errors <= most)
            error = float(errors[usual].norm() / want[usual].norm().clamp(min=1e-300))
            bound = (IMPRECISE if got.element_size() >= 4 else IMPRECISE_NARROW) * yard.limits.allowed["l2"]
            if error > bound:
                raise Failed(
                    Finding.PRECISION,
                    f"case {case.name}: {output.name} is less accurate than the reference where some programs wrote "
                    f"it: error (l2) {error:.3g}, allowed {bound:.3g}",
                )


def _as_numbers(elements: torch.Tensor) -> torch.Tensor:
    """Return a row of elements in float64; the parts of complex ones one after the other."""
    return (torch.view_as_real(elements).flatten() if elements.is_complex() else elements).double()
