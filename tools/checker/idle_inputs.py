"""Finds memory that kernels read without using it.

Authorship is measured in bytes, and a kernel may load an input only to raise its count. So the launches get other
values for that buffer, through a tape that is otherwise the candidate's; torch operators get the original ones. If the
answer stays correct, these bytes do not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from triton_agent.tools.answers.authorship import bytes_of_arguments, is_arithmetic
from triton_agent.tools.answers.checks import still_right
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.slicing import effect_of
from triton_agent.tools.tape.tape import Buffer, Launch, Operate, Place, Step, Tape, View, encode, views_in
from triton_agent.tools.truth.plan import Case, Trial


def bytes_in_use(job: Job, trial: Trial, case: Case, program: Program, *, enough: float) -> int:
    """Return the bytes of all tensors passed to launches, except those that make no difference.

    This is tested only in the first case of a trial, and only if the bytes of certain buffers are needed to reach
    `enough`.
    """
    asked = _only_read(program) if enough and case is trial.cases[0] else {}
    idle: set[int] = set()
    if bytes_of_arguments(program.tape, without=asked.keys()) < enough:
        idle = {number for number, view in asked.items() if _is_idle(job, trial, case, program, number, view)}
    return bytes_of_arguments(program.tape, without=idle)


def _only_read(program: Program) -> Mapping[int, View]:
    """Return a view of each buffer that launches read, and that neither a launch nor torch's arithmetic computes."""
    tape, written = program.tape, WrittenParameters(program.kernel_set)
    views: dict[int, View] = {}
    made: set[int] = set()
    for step in (*tape.prologue, *tape.steps):
        if isinstance(step, Launch):
            views |= {view.buffer: view for _, value in step.choices[0].arguments for view in views_in(value)}
        if isinstance(step, Launch) or (isinstance(step, Operate) and is_arithmetic(step)):
            made |= effect_of(step, written).writes
    return {number: view for number, view in views.items() if number not in made and not DTYPES[view.dtype].is_complex}


def _is_idle(job: Job, trial: Trial, case: Case, program: Program, number: int, view: View) -> bool:
    tape = _with_other_values(program.tape, number, view)
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


def _with_other_values(tape: Tape, number: int, view: View) -> Tape:
    """Return a tape whose launches find other values in a buffer.

    Each element becomes the larger one of itself and of its mirror image, so indices stay valid. A buffer whose
    elements are all equal does not change, and its bytes do not count.
    """
    dtype, copy = DTYPES[view.dtype], len(tape.buffers)
    count = tape.buffers[number].size_bytes // dtype.itemsize
    whole = dataclasses.replace(view, shape=(count,), strides=(1,), offset=0)
    mirrored, result = (dataclasses.replace(whole, buffer=new) for new in (copy + 1, copy))
    if dtype is torch.bool:
        changing = [Operate(operator="aten.logical_not.default", args=(whole,), kwargs=(), results=(result,))]
    else:
        changing = [
            Operate(operator="aten.flip.default", args=(whole, (0,)), kwargs=(), results=(mirrored,)),
            Operate(operator="aten.maximum.default", args=(whole, mirrored), kwargs=(), results=(result,)),
        ]

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, value))
        if isinstance(value, View):
            return dataclasses.replace(value, buffer=copy) if value.buffer == number else value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: moved(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        return value

    steps: list[Step] = []
    for step in tape.steps:
        given = step.choices[0].arguments if isinstance(step, Launch) else ()
        if any(number == it.buffer for _, value in given for it in views_in(value)):
            steps += [*changing, moved(step)]
        else:
            steps.append(step)
    buffer = Buffer(place=Place.FRESH, size_bytes=count * dtype.itemsize)
    return dataclasses.replace(tape, buffers=(*tape.buffers, buffer, buffer), steps=tuple(steps))
