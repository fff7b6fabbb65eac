"""Spot checks: some programs of a launch at sizes that are too large to run completely.

Without a GPU, a large problem is checked at a smaller size, so a kernel that is wrong beyond that size looks correct.
Here the candidate is traced again at the problem's own size, or at a size that reaches the largest position its kernels
name. A few programs of the launches on that tape run: some at random, and those next to positions that the kernels
name. The values they write are compared with the reference, coarsely, since rounding was judged before. Only elements
that do not depend on skipped programs count. If programs wait for each other, a note says that this was not checked.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.cases.full_size_inputs import KINDS_IN_TURN
from triton_agent.tools.cases.named_numbers import Numbers
from triton_agent.tools.cases.plan import Case
from triton_agent.tools.chance import below, some_of
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.executor.memory import poisoned, told_from_answers
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import JitFunction, KernelSet
from triton_agent.tools.kernels.store_addresses import storing_zeros
from triton_agent.tools.parsing import syntax_of
from triton_agent.tools.processes.tensors import DTYPES, nested_tensors
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
from triton_agent.tools.truth.jumps import Span

FARTHEST = 1 << 24
"""Largest position to visit: later ones would need memory of that size."""
NAMED_AT_MOST = 24
"""Number of programs to run at named positions."""
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
DOUBTFUL = 0.97
"""Share of an output below which its programs may leave a part unwritten; some write more than others. More are asked
then."""
COVERED = 0.6
"""Share below which all programs are asked, after `PROGRAMS_TO_COUNT` random ones. If only a fourth of the programs
write an output, the share from so many is near 1.0, with a standard deviation of 0.15."""
PROGRAMS_TO_COUNT = 128
"""Number of programs that are asked if some random ones leave it in doubt."""
STORES_AT_MOST = 1 << 13
"""Maximum number of programs of a launch that run, reduced to where they store, and of tiles that they store."""
PREPARED_BYTES_AT_MOST = 1 << 28
"""Maximum size of what launches get that are run whole for a last one to be run in part: seconds in the interpreter."""
SPOILED_EVERY = 97
"""Distance of the elements that are changed between two calls in the same memory; no tile has this width."""


def position_named(numbers: Numbers, tape: Tape, kernels: KernelSet, visited: int) -> int:
    """Return the farthest unvisited position that kernels name: that of an element, or of a program's first element.

    Numbers in the text may be program numbers. Arguments of launches are sizes and tiles, so they count elements only.
    """
    programs = max((math.prod(choice.grid) for launch in tape.launches() for choice in launch.choices), default=0)
    tile = max(_tiles(tape, kernels), default=1)
    wanted = [number for number in numbers.given if _is_whole(number) and visited < number <= FARTHEST]
    for number in filter(_is_whole, numbers.in_text):
        if isinstance(number, int) and programs < number <= FARTHEST // tile:
            wanted.append(number * tile)
        elif visited < number <= FARTHEST:
            wanted.append(number)
    return int(max(wanted, default=0))


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number == int(number)


def _tiles(tape: Tape, kernels: KernelSet | None = None) -> set[int]:
    """Return products of up to two integer compile-time arguments: the possible number of elements per program.

    With `kernels`, arguments that are no lengths of blocks are left out, as far as their texts tell.
    """
    found: set[int] = set()
    for launch in tape.launches():
        for choice in launch.choices:
            values = {name: value.value for name, value in choice.arguments if isinstance(value, Constexpr)}
            plain = {name: value.get("value") if isinstance(value, dict) else value for name, value in values.items()}
            lengths = _block_lengths(kernels.functions[choice.kernel]) if kernels else frozenset()
            if lengths and lengths <= plain.keys():
                plain = {name: plain[name] for name in lengths}
            sizes = [value for value in plain.values() if type(value) is int and 1 < value <= 1 << 16]
            found |= {*sizes, *(one * two for one, two in itertools.combinations(sizes, 2))}
    return found


@functools.lru_cache(maxsize=256)
def _block_lengths(function: JitFunction) -> frozenset[str]:
    """Return all names in the arguments of `tl.arange`; none if another function may call it as well."""
    if function.references():
        return frozenset()
    calls = [node for node in syntax_of(function.source).nodes if isinstance(node, ast.Call)]
    ranges = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "arange"]
    arguments = [argument for call in ranges for argument in (*call.args, *(key.value for key in call.keywords))]
    return frozenset(node.id for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name))


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
    chosen = some_of(inside, min(len(inside), NAMED_AT_MOST))
    for x, y, z in grids:  # a number may also be that of a row or a layer of the grid
        for size, stride in ((y, x), (z, x * y)):
            rows = [at for at in sorted(near) if 0 < at < size]
            rows = some_of(rows, min(len(rows), NAMED_AT_MOST))
            chosen += [row * stride + below(stride) for row in rows]
    # One program in each turn of the samples' kinds: a program of a row meets all of them.
    turns = range(min(count, KINDS_IN_TURN))
    at_random = (turn + KINDS_IN_TURN * below((count - 1 - turn) // KINDS_IN_TURN + 1) for turn in turns)
    return sorted({0, count - 1, *chosen, *at_random})


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
    nodes = [node for function in kernels.functions.values() for node in syntax_of(function.source).nodes]
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
    copied data into and that one launch updates keeps its contents, unless by atomics: a program finds its own part
    there.
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
    added = {
        number
        for step, effect in steps
        if isinstance(step, Launch) and _has_atomics(step, kernels)
        for number in effect.writes & fresh
    }
    filled = {number for number, count in writers.items() if count > 1 or number not in copied or number in added}
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


def check_coverage(
    case: Case, tape: Tape, kernels: KernelSet, only: Sequence[int], left: Sequence[torch.Tensor]
) -> float:
    """Return the least share of an output that all programs write, if each writes about as much as those in `only` did.

    `left` tells which elements of each output these left out. The share is one if not all of an output comes from one
    launch. Raise `Failed` if programs write equal parts one after another, and these do not reach the end.
    """
    shares = [1.0]
    for output, unwritten, number in zip(case.expectation.outputs, left, finishing_launches(tape, kernels)):
        if number is None or not unwritten.numel() or not told_from_answers(output.yard.original.dtype):
            continue
        launch = tape.steps[number]
        assert isinstance(launch, Launch)
        count, size = math.prod(launch.choices[0].grid), unwritten.numel()
        ran = [number for number in only if number < count]
        written = int((~unwritten).count_nonzero())
        share = written * count / max(1, len(ran)) / size
        part = -(-written // max(1, len(ran)))
        if 0 < part * count < size and torch.equal(~unwritten.reshape(-1), _parts(ran, part, size)):
            raise Failed(
                Finding.UNWRITTEN_OUTPUT,
                f"case {case.name}: {count} programs write {part} elements each, one after another, and output "
                f"{output.name} has {size}",
            )
        shares.append(share)
    return min(shares)


def _parts(programs: Sequence[int], part: int, size: int) -> torch.Tensor:
    """Return which elements these programs write, if each writes so many, one after another."""
    covered = torch.zeros(size, dtype=torch.bool)
    for number in programs:
        covered[number * part : (number + 1) * part] = True
    return covered


def left_unwritten(answers: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    """Return the elements of each output that still hold the values of `FILLS` in two answers, or poison in one.

    What is computed from poison looks like poison, so answers of filled tapes tell more.
    """
    if len(answers) == 1:
        return [poisoned(tensor) for tensor in answers[0]]

    def holds(tensor: torch.Tensor, values: tuple[float, int]) -> torch.Tensor:
        return tensor == values[0 if tensor.is_floating_point() or tensor.is_complex() else 1]

    return [holds(one, FILLS[0]) & holds(other, FILLS[1]) for one, other in zip(*answers)]


def finishing_launches(tape: Tape, kernels: KernelSet) -> list[int | None]:
    """Return, for each output, the step of the launch that alone writes its memory; None if there is no such launch."""
    effects = effects_of(tape.steps, tape.buffers, WrittenParameters(kernels))
    found: list[int | None] = []
    for view in tape.outputs:
        writers = [
            number
            for number, (step, effect) in enumerate(zip(tape.steps, effects))
            if view.buffer in effect.writes and not isinstance(step, Allocate)
        ]
        is_alone = len(writers) == 1 and isinstance(tape.steps[writers[0]], Launch)
        found.append(writers[0] if is_alone else None)
    return found


def storing_zeros_only(tape: Tape, kernels: KernelSet) -> tuple[Tape, KernelSet, tuple[int, ...]] | None:
    """Return the tape with launches that finish outputs reduced to where they store, its kernels, and these launches.

    None if there is no such launch, or if it stores in ways that cannot be reduced, or too many tiles.
    """
    numbers = sorted({number for number in finishing_launches(tape, kernels) if number is not None})
    tile = max(_tiles(tape, kernels), default=1)
    if not numbers or max(view.elements for view in tape.outputs) > STORES_AT_MOST * tile:
        return None
    steps, functions = list(tape.steps), dict(kernels.functions)
    for number in numbers:
        launch = steps[number]
        assert isinstance(launch, Launch)
        choice = launch.choices[0]
        reduced = storing_zeros(kernels.functions[choice.kernel], kernels)
        if reduced is None or math.prod(choice.grid) > STORES_AT_MOST:
            return None
        functions[reduced.identity] = reduced
        steps[number] = dataclasses.replace(launch, choices=(dataclasses.replace(choice, kernel=reduced.identity),))
    return dataclasses.replace(tape, steps=tuple(steps)), KernelSet(functions=functions), tuple(numbers)


def launches_before(tape: Tape, kernels: KernelSet) -> tuple[int, ...]:
    """Return the steps of launches that only prepare the last one; none if a few programs of that finish no part, or if
    the others do too much to be run whole.
    """
    last = set(finishing_launches(tape, kernels))
    launches = {number: step for number, step in enumerate(tape.steps) if isinstance(step, Launch)}
    if len(last) != 1 or None in last:
        return ()
    others = [number for number in launches if number not in last]

    views = {view for number in others for view in _views(launches[number])}
    size_bytes = sum(view.elements * DTYPES[view.dtype].itemsize for view in views)
    adds = any(_has_atomics(launches[number], kernels) for number in last if number is not None)
    multiplies = any("dot" in kernels.functions[launches[it].choices[0].kernel].source for it in others)
    return () if adds or multiplies or size_bytes > PREPARED_BYTES_AT_MOST else tuple(others)


def _has_atomics(launch: Launch, kernels: KernelSet) -> bool:
    return any("atomic_" in kernels.functions[choice.kernel].source for choice in launch.choices)


def programs_to_count(tape: Tape) -> list[int]:
    """Return numbers of random programs, more than for an ordinary check."""
    count = max(math.prod(launch.choices[0].grid) for launch in tape.launches())
    return sorted(some_of(range(count), min(count, PROGRAMS_TO_COUNT)))


def check_whole_is_written(case: Case, got: Sequence[torch.Tensor], asked: Sequence[bool] = ()) -> None:
    """Raise `Failed` if elements still hold the fill value of fresh memory after all programs ran.

    `asked` tells which outputs are looked at; by default all are.
    """
    for output, tensor, is_asked in zip(case.expectation.outputs, got, asked or [True] * len(got)):
        if not is_asked:
            continue
        left = poisoned(tensor) & ~poisoned(output.yard.original.to(tensor.device))
        if bool(left.any()):
            raise Failed(
                Finding.UNWRITTEN_OUTPUT,
                f"case {case.name}: {int(left.count_nonzero())} of {tensor.numel()} elements of output {output.name} "
                "are never written",
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
        written = written & ~_open(output.yard.span).to(written.device) if output.yard.span else written
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


def _open(span: Span) -> torch.Tensor:
    """Return the elements in which a span accepts any value."""
    low, high = span
    return (low == -math.inf) & (high == math.inf)


def _as_numbers(elements: torch.Tensor) -> torch.Tensor:
    """Return a row of elements in float64; the parts of complex ones one after the other."""
    return (torch.view_as_real(elements).flatten() if elements.is_complex() else elements).double()
