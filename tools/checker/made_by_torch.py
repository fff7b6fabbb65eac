"""Find out if torch had made the answer before a kernel began.

Elements and bytes tell how much work torch does, and some operators do more than they count: `isin` compares every
pair and counts its operands once, `tril` selects and counts as a movement. So where torch makes tensors as large as an
output and gives them to a kernel, these are looked at in one call: none of them may be an output already, up to a
factor, a shift, or the order of its elements. Plain copies of inputs may be.

Not covered: a kernel that does a little more than that, where torch did nearly everything in few operators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from triton_agent.tools.answers.authorship import touched
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.graph.operators import bare_name, functional_name, kind_of, words
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Buffer, Launch, Operate, Place, Step, Tape, View, encode
from triton_agent.tools.truth.plan import Case, Trial

COPYING = words("clone _to_copy copy contiguous lift_fresh lift_fresh_copy fill zero cat stack")
IDLE_KINDS = ("allocation", "view", "metadata")
PIECES = 4
"""Pieces of an answer, at most, that are put together to see whether they are it."""
FEW = 16
"""Elements below which a line through them, or an equal set of them, may be chance."""
UNITS = 64.0
"""Units of roundoff by which two answers may differ on average and count as one."""


def check_made_by_torch(job: Job, trial: Trial, case: Case, program: Program) -> None:
    """Raise `Failed` where a kernel is given the answer, or a line or another order of it, as torch made it."""
    tape, made = _showing(program.tape)
    if not made:
        return
    other = dataclasses.replace(program, name=f"{program.name} / made by torch", tape=tape, encoded=encode(tape))
    send_program(job, other, trial.states[case.version])
    size_bytes = sum(view.elements * DTYPES[view.dtype].itemsize for view, _ in made)
    answer, _ = call(job, trial, case, program=other, more_bytes=size_bytes)
    count = len(program.tape.outputs)
    outputs, results = ([it.detach().cpu().reshape(-1) for it in part] for part in _split(answer.tensors, count))
    for number, output in enumerate(outputs):
        pieces = [it for it in results if it.dtype.is_floating_point == output.dtype.is_floating_point]
        whole = [torch.cat(pieces)] if len(pieces) > 1 and sum(map(len, pieces)) == len(output) else []
        if any(_is_the_same(it, output) for it in (*pieces, *whole)):
            names = ", ".join(dict.fromkeys(name for _, name in made))
            what = case.expectation.outputs[number].name if case.expectation.outputs else "out"
            raise Failed(
                Finding.LIBRARY_WORK,
                f"torch ({names}) makes {what}, or what differs from it by a factor, a shift or the order, and kernels "
                "only pass it on; own kernels must do the larger part",
            )


def _split(tensors: Sequence[torch.Tensor], at: int) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
    return tensors[:at], tensors[at:]


def _showing(tape: Tape) -> tuple[Tape, list[tuple[View, str]]]:
    """Return a tape that also returns what torch makes for kernels, and views of these with their operators."""
    least = min((view.elements for view in tape.outputs), default=0) / PIECES
    buffers, steps, made = list(tape.buffers), list[Step](), list[tuple[View, str]]()
    launched = [(at, touched(step)) for at, step in enumerate(tape.steps) if isinstance(step, Launch)]
    for at, step in enumerate(tape.steps):
        steps.append(step)
        if not isinstance(step, Operate) or not _makes(step):
            continue
        for view in step.results:
            if view is None or view.elements < max(least, 2) or DTYPES[view.dtype].is_complex:
                continue
            if any(later > at and view.buffer in given for later, given in launched):
                size_bytes = view.elements * DTYPES[view.dtype].itemsize
                copy = dataclasses.replace(view, buffer=len(buffers), strides=_dense(view.shape), offset=0)
                buffers.append(Buffer(place=Place.FRESH, size_bytes=size_bytes))
                steps.append(Operate(operator="aten.clone.default", args=(view,), kwargs=(), results=(copy,)))
                made.append((copy, step.operator.rpartition(".")[0]))
    outputs = (*tape.outputs, *(view for view, _ in made))
    return dataclasses.replace(tape, buffers=tuple(buffers), steps=tuple(steps), outputs=outputs), made


def _makes(step: Operate) -> bool:
    """Return whether an operator makes something else than memory, views and copies."""
    name = functional_name(bare_name(step.operator))
    return kind_of(step.operator) not in IDLE_KINDS and name not in COPYING


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def _is_the_same(made: torch.Tensor, output: torch.Tensor) -> bool:
    """Return whether these hold the same, up to a factor and a shift, the order, or what flags stand for."""
    if made.numel() != output.numel() or output.numel() < 2 or bool((output == output[0]).all()):
        return False
    m, o = (values.double().nan_to_num(0.0, 0.0, 0.0) for values in (made, output))
    exact = torch.finfo(torch.float32).eps
    near = UNITS * max(torch.finfo(it.dtype).eps if it.is_floating_point() else exact for it in (made, output))
    if _differ_little(m, o, near):
        return True
    if len(o) < FEW:
        return False
    if output.is_floating_point() and _differ_little(m.sort().values, o.sort().values, near):
        return True
    m, o = m - m.mean(), o - o.mean()
    length = float(m.square().sum())
    return length > 0 and _differ_little(float(m @ o) / length * m, o, near)


def _differ_little(m: torch.Tensor, o: torch.Tensor, near: float) -> bool:
    return float((o - m).norm()) <= near * float(o.norm())
