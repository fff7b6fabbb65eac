"""Finds out if an answer depends on the contents of fresh memory.

Memory from torch's allocator often still holds the result of an earlier equal call. A kernel that recognises it may
skip its work, which would go unnoticed during timing. So one call gets fresh memory that holds what the call itself
would write, except for a few elements, through a tape that is otherwise the candidate's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch

from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, judge, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.processes.tensors import DTYPES, row
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Allocate, Constant, Tape, View, encode, views_in
from triton_agent.tools.truth.plan import Case, Trial

SPOILED = 4
"""Number of wrong elements in each buffer; so few that sampling the contents misses them."""
BYTES_AT_MOST = 4 << 20
"""Maximum fresh memory to fill in one case; its contents are sent with the tape."""


def check_fresh_memory(job: Job, trials: Sequence[Trial]) -> None:
    """Raise `Failed` if part of the answer is left as it was in fresh memory. One trial is run: the first with several
    elements in each buffer.
    """
    trial = next((it for it in trials if _has_room(job.programs.of(it, it.cases[0]).tape)), trials[0])
    case = trial.cases[0]
    program = job.programs.of(trial, case)
    views = allocated(program.tape)
    size_bytes = sum(program.tape.buffers[number].size_bytes for number in views)
    if not 0 < size_bytes <= BYTES_AT_MOST:
        return
    outputs = program.tape.outputs
    showing = dataclasses.replace(program.tape, outputs=(*outputs, *views.values()))
    answer, _ = call(job, trial, case, program=_sent(job, trial, case, program, showing), more_bytes=size_bytes)
    contents = {number: _spoiled(it) for number, it in zip(views, answer.tensors[len(outputs) :])}
    steps = tuple(
        Constant(buffer=step.buffer, data=contents[step.buffer])
        if isinstance(step, Allocate) and step.buffer in contents
        else step
        for step in program.tape.steps
    )
    filled = dataclasses.replace(program.tape, steps=steps)
    known = len(job.accuracy)
    try:
        answer, _ = call(job, trial, case, program=_sent(job, trial, case, program, filled))
        judge(job, trial, case, answer)
    except Failed as failed:
        if failed.ending is not None:  # the worker died or was too slow, which says nothing about the answer
            raise
        raise Failed(
            Finding.UNWRITTEN_OUTPUT,
            "if fresh memory still holds the results of an earlier call, part of the answer is taken from there: "
            f"{failed.message}",
        ) from None
    finally:
        del job.accuracy[known:]


def allocated(tape: Tape) -> Mapping[int, View]:
    """Return a view of the whole of each buffer that the call allocates, with the dtype of its first user."""
    made = {step.buffer for step in tape.steps if isinstance(step, Allocate)}
    arguments = [value for launch in tape.launches() for _, value in launch.choices[0].arguments]
    views: dict[int, View] = {}
    for view in (*tape.outputs, *(view for value in arguments for view in views_in(value))):
        item_bytes, size_bytes = DTYPES[view.dtype].itemsize, tape.buffers[view.buffer].size_bytes
        if view.buffer in made and size_bytes and size_bytes % item_bytes == 0:
            whole = dataclasses.replace(view, shape=(size_bytes // item_bytes,), strides=(1,), offset=0)
            views.setdefault(view.buffer, whole)
    return views


def _has_room(tape: Tape) -> bool:
    """Return True if an element can be made larger and another one smaller in each buffer."""
    return all(math.prod(view.shape) > 1 for view in allocated(tape).values())


def _sent(job: Job, trial: Trial, case: Case, program: Program, tape: Tape) -> Program:
    """Send the executor another tape in place of a program's, and return it as a program."""
    other = dataclasses.replace(program, name=f"{program.name} / fresh", tape=tape, encoded=encode(tape))
    send_program(job, other, trial.states[case.version])
    return other


def _spoiled(tensor: torch.Tensor) -> bytes:
    """Return a tensor's bytes with a few elements larger or smaller, in turn: a kernel may keep the least one."""
    values = tensor.detach().cpu().clone().reshape(-1)
    way = 1 - 2 * int(torch.randint(2, ()))
    for number, at in enumerate(torch.randperm(len(values))[:SPOILED].tolist()):
        step = way * (1 - 2 * (number % 2))
        values[at] = ~values[at] if values.dtype is torch.bool else values[at] + step
    return bytes(row(values).numpy().tobytes())
