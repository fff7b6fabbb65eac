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

from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, judge, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.processes.tensors import DTYPES, row
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Allocate, Constant, Tape, View, encode, views_in

SPOILED = 4
"""Number of wrong elements in each buffer; so few that sampling the contents misses them."""
DRAWS = 2
"""How often the wrong elements are drawn."""
MANY = 100
"""Number of elements in each buffer that is enough: the first of 100 is wrong in both draws once in 625."""
BYTES_AT_MOST = 4 << 20
"""Maximum fresh memory to fill in one case; its contents are sent with the tape."""


def check_fresh_memory(job: Job, trials: Sequence[Trial]) -> None:
    """Raise `Failed` if part of the answer is left as it was in fresh memory.

    One trial is run: the first with many elements in each buffer, or else with most of them. Among few elements a
    kernel that looks at one of each block would see a wrong one by chance. For the same reason they are drawn twice.
    """
    fewest = {
        trial: _fewest_elements(tape)
        for trial in trials
        if 0 < _fresh_bytes(tape := job.programs.of(trial, trial.cases[0]).tape) <= BYTES_AT_MOST
    }
    if not fewest:
        return
    trial = next((it for it, count in fewest.items() if count >= MANY), max(fewest, key=lambda it: fewest[it]))
    case = trial.cases[0]
    program = job.programs.of(trial, case)
    views, size_bytes = allocated(program.tape), _fresh_bytes(program.tape)
    outputs = program.tape.outputs
    showing = dataclasses.replace(program.tape, outputs=(*outputs, *views.values()))
    answer, _ = call(job, trial, case, program=_sent(job, trial, case, program, showing), more_bytes=size_bytes)
    written = dict(zip(views, answer.tensors[len(outputs) :]))
    known = len(job.accuracy)
    try:
        for _ in range(DRAWS):
            filled = _filled(program.tape, {number: _spoiled(tensor) for number, tensor in written.items()})
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


def _fresh_bytes(tape: Tape) -> int:
    return sum(tape.buffers[number].size_bytes for number in allocated(tape))


def _fewest_elements(tape: Tape) -> int:
    return min(math.prod(view.shape) for view in allocated(tape).values())


def _filled(tape: Tape, contents: Mapping[int, bytes]) -> Tape:
    """Return the tape with these contents in its fresh memory."""
    steps = tuple(
        Constant(buffer=step.buffer, data=contents[step.buffer])
        if isinstance(step, Allocate) and step.buffer in contents
        else step
        for step in tape.steps
    )
    return dataclasses.replace(tape, steps=steps)


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
