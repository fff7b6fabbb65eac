"""Whether an answer depends on what fresh memory holds.

Memory that torch hands out often holds the answer to an equal call before. A kernel that finds it there may skip its
work, and while the clock runs it does. So one call gets output memory that holds the right answer but for a few
elements, by a tape that is like the candidate's in everything else.
"""

from __future__ import annotations

import dataclasses

import torch

from triton_agent.tools.isolate.tensors import DTYPES, row
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Allocate, Constant, Tape, encode
from triton_agent.tools.verify.job import Job
from triton_agent.tools.verify.plan import Case, Trial
from triton_agent.tools.verify.questions import call, judge, send_program
from triton_agent.tools.verify.session import Failed

SPOILED = 4
"""Elements of each output that are not right; so few that a look at samples does not meet them."""
BYTES_AT_MOST = 4 << 20
"""Of all outputs; they travel with the tape."""


def check_fresh_memory(job: Job, trial: Trial, case: Case) -> None:
    """Raise `Failed` where elements of the answer are left as they were in fresh memory."""
    program = job.programs.of(trial, case)
    answer, _ = call(job, trial, case)
    tape = _filled(program.tape, answer.tensors)
    if tape is None:
        return
    program = dataclasses.replace(program, name=f"{program.name} / filled", tape=tape, encoded=encode(tape))
    send_program(job, job.runner, program)
    job.runner.ask("parameters", [trial.states[case.version]], name=program.name)
    answer, _ = call(job, trial, case, program=program)
    known = len(job.accuracy)
    try:
        judge(job, trial, case, answer)
    except Failed as failed:
        raise Failed(
            Finding.UNWRITTEN_OUTPUT,
            "where fresh memory holds the answer to an earlier call, the kernels leave some of it as it is: "
            f"{failed.message}",
        ) from None
    finally:
        del job.accuracy[known:]


def _filled(tape: Tape, tensors: tuple[torch.Tensor, ...]) -> Tape | None:
    """The tape with spoiled answers in the memory of its outputs; None where these do not fill buffers of their own."""
    data: dict[int, bytes] = {}
    for view, tensor in zip(tape.outputs, tensors):
        size_bytes = view.elements * DTYPES[view.dtype].itemsize
        whole = view.offset == 0 and size_bytes == tape.buffers[view.buffer].size_bytes and tensor.is_contiguous()
        if whole and size_bytes and torch.empty(view.shape, device="meta").stride() == view.strides:
            spoiled = tensor.detach().cpu().clone()
            for at in torch.randint(tensor.numel(), (SPOILED,)).tolist():
                value = spoiled.reshape(-1)[at]
                spoiled.reshape(-1)[at] = ~value if value.dtype is torch.bool else value + 1
            data[view.buffer] = row(spoiled).numpy().tobytes()
    made = {step.buffer for step in tape.steps if isinstance(step, Allocate)}
    data = {number: content for number, content in data.items() if number in made}
    if not data or sum(map(len, data.values())) > BYTES_AT_MOST:
        return None
    steps = tuple(
        Constant(buffer=step.buffer, data=data[step.buffer])
        if isinstance(step, Allocate) and step.buffer in data
        else step
        for step in tape.steps
    )
    return dataclasses.replace(tape, steps=steps)
