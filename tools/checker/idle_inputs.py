"""Finds memory that kernels read without using it.

Authorship is measured in bytes, and a kernel may load an input only to raise its count. So the launches get other
values for that buffer, through a tape that is otherwise the candidate's; torch operators get the original ones. If the
answer stays correct, these bytes do not count.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from triton_agent.tools.answers.authorship import bytes_of_arguments, is_arithmetic, touched
from triton_agent.tools.answers.checks import still_right
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.made_by_torch import contents, hold_the_same
from triton_agent.tools.checker.questions import call, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.slicing import effect_of
from triton_agent.tools.tape.tape import (
    Buffer,
    Launch,
    Operate,
    Place,
    Step,
    Tape,
    View,
    buffers_in,
    encode,
    views_in,
    views_of,
)


def bytes_in_use(job: Job, trial: Trial, case: Case, program: Program, *, enough: float) -> int:
    """Return the bytes of all tensors passed to launches, except those that make no difference.

    This is tested only in the first case of each mode, and only if these bytes are needed to reach `enough`. Copies
    that one kernel makes for another do not count either.
    """
    asked = _only_read(program) if enough and trial.begins_mode(case) else {}
    idle: set[int] = set()
    if bytes_of_arguments(program.tape, without={number for group in asked.values() for number in group}) < enough:
        for number, group in asked.items():
            idle |= group if _is_idle(job, trial, case, program, number, group) else set()
    if enough and trial.begins_mode(case) and bytes_of_arguments(program.tape, without=idle) >= enough:
        made = set() if case.is_large else _made_by_launches(program)
        if bytes_of_arguments(program.tape, without=idle | made) < enough:
            idle |= _copied_by_launches(job, trial, case, program, made)
    return bytes_of_arguments(program.tape, without=idle)


def _made_by_launches(program: Program) -> set[int]:
    """Return the buffers that launches write and that hold no output."""
    tape, written = program.tape, WrittenParameters(program.kernel_set)
    made = {number for step in tape.launches() for number in effect_of(step, written).writes}
    return {number for number in made if tape.buffers[number].place is Place.FRESH} - {
        view.buffer for view in tape.outputs
    }


def _copied_by_launches(job: Job, trial: Trial, case: Case, program: Program, made: set[int]) -> set[int]:
    """Return those of these buffers that hold the contents of another argument of the launch that wrote them.

    A buffer that holds an output is no such copy: torch may return what a kernel has computed in other memory.
    """
    tape, written = program.tape, WrittenParameters(program.kernel_set)
    wanted: dict[int, list[View]] = {}
    for number, step in enumerate(tape.steps):
        if isinstance(step, Launch) and effect_of(step, written).writes & made:
            views = [view for _, value in step.choices[0].arguments for view in views_in(value)]
            wanted[number] = [view for view in dict.fromkeys(views) if not DTYPES[view.dtype].is_complex]
    copied: set[int] = set()
    outputs, found = contents(job, trial, case, program, wanted)
    for number, rows in found.items():
        held = [pair for pair in zip(wanted[number], rows) if not any(_same_bits(pair[1], it) for it in outputs)]
        writes = effect_of(tape.steps[number], written).writes
        for view, row in held:
            others = (other for source, other in held if source.buffer not in writes)
            if view.buffer in made and view.buffer in writes and any(hold_the_same(other, row) for other in others):
                copied.add(view.buffer)
    return copied


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _only_read(program: Program) -> Mapping[int, set[int]]:
    """Return buffers that launches read and that neither a launch nor torch's arithmetic computes, with their copies.

    Copies are changed together with their source: a kernel might load both and use only their difference, zero.
    """
    tape, written = program.tape, WrittenParameters(program.kernel_set)
    effects = [(step, effect_of(step, written)) for step in (*tape.prologue, *tape.steps)]
    writers = Counter(number for _, effect in effects for number in effect.writes)
    origin: dict[int, int] = {}
    given: dict[int, View] = {}
    made: set[int] = set()
    for step, effect in effects:
        if isinstance(step, Launch):
            given |= {view.buffer: view for _, value in step.choices[0].arguments for view in views_in(value)}
        if isinstance(step, Launch) or (isinstance(step, Operate) and is_arithmetic(step)):
            made |= effect.writes
        elif isinstance(step, Operate) and _is_copy(step) and all(writers[number] == 1 for number in effect.writes):
            source = min(effect.reads)
            origin |= dict.fromkeys(effect.writes, origin.get(source, source))
    groups: dict[int, set[int]] = {}
    for number, view in given.items():
        if number not in made and not DTYPES[view.dtype].is_complex:
            groups.setdefault(origin.get(number, number), set()).add(number)
    for number, source in origin.items():
        if source in groups:
            groups[source].add(number)
    return {number: group for number, group in groups.items() if number not in made}


def _is_copy(step: Operate) -> bool:
    """Return True if the step moves the elements of one buffer to new memory."""
    sources = {number for value in step.args for number in buffers_in(value)}
    results = {view.buffer for view in step.results if view is not None}
    return kind_of(step.operator) == "movement" and len(sources) == len(results) == 1 and not sources & results


def _is_idle(job: Job, trial: Trial, case: Case, program: Program, number: int, group: set[int]) -> bool:
    tape = _with_other_values(program.tape, number, group)
    other = dataclasses.replace(program, name=f"{program.name} / idle {number}", tape=tape, encoded=encode(tape))
    send_program(job, other, trial.states[case.version])
    try:
        answer, _ = call(job, trial, case, program=other)
    except Failed as failed:
        if failed.worker_died:
            raise
        return False
    right = still_right(case, answer)
    return bool(right) and len(right) == len(still_right(case, call(job, trial, case)[0]))


def _with_other_values(tape: Tape, number: int, group: set[int]) -> Tape:
    """Return a tape whose launches find other values in a buffer and its copies.

    The values are reflected between the least and the largest, so equal values stay equal and indices stay valid. A
    buffer whose elements are all equal does not change, and its bytes do not count.
    """
    buffers = list(tape.buffers)

    def fresh(size_bytes: int) -> int:
        buffers.append(Buffer(place=Place.FRESH, size_bytes=size_bytes))
        return len(buffers) - 1

    view = next(view for view in _all_views(tape) if view.buffer == number)
    item_bytes = DTYPES[view.dtype].itemsize
    count = tape.buffers[number].size_bytes // item_bytes
    whole = dataclasses.replace(view, shape=(count,), strides=(1,), offset=0)
    one = dataclasses.replace(view, shape=(), strides=(), offset=0)
    instead = {copy: fresh(tape.buffers[copy].size_bytes) for copy in sorted({number, *group})}
    result = dataclasses.replace(whole, buffer=instead[number])
    if DTYPES[view.dtype] is torch.bool:
        changing = [Operate(operator="aten.logical_not.default", args=(whole,), kwargs=(), results=(result,))]
    else:
        finite = dataclasses.replace(whole, buffer=fresh(count * item_bytes))
        least, largest, both = (dataclasses.replace(one, buffer=fresh(item_bytes)) for _ in range(3))
        changing = [
            Operate(operator="aten.nan_to_num.default", args=(whole, 0.0, 0.0, 0.0), kwargs=(), results=(finite,)),
            Operate(operator="aten.amin.default", args=(finite,), kwargs=(), results=(least,)),
            Operate(operator="aten.amax.default", args=(finite,), kwargs=(), results=(largest,)),
            Operate(operator="aten.add.Tensor", args=(least, largest), kwargs=(), results=(both,)),
            Operate(operator="aten.sub.Tensor", args=(both, finite), kwargs=(), results=(result,)),
        ]

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, value))
        if isinstance(value, View):
            return dataclasses.replace(value, buffer=instead.get(value.buffer, value.buffer))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: moved(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        return value

    steps: list[Step] = []
    for step in tape.steps:
        given = {number for number in touched(step) if number in instead}
        if isinstance(step, Launch) and given:
            steps += [*changing, moved(step)]
        elif isinstance(step, Operate) and given and {view.buffer for view in step.results if view} & instead.keys():
            steps += [*changing, step, moved(step)]  # torch finds the copy as it was
        else:
            steps.append(step)
    return dataclasses.replace(tape, buffers=tuple(buffers), steps=tuple(steps))


def _all_views(tape: Tape) -> Iterator[View]:
    yield from tape.inputs
    yield from tape.arguments
    yield from (view for _, view in tape.state)
    for step in (*tape.steps, *tape.prologue):
        yield from views_of(step)
