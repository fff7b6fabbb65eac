"""Finds out if torch computed the answer, and a kernel only passes it on.

Authorship is measured in elements and bytes, but some operators do more work than these numbers show: `isin` compares
every pair but counts its operands once, `tril` selects but counts as a movement. Therefore one call also returns the
tensors that torch computes for kernels and that are about as large as an output. None of them may equal an output up to
a factor, a shift, or the order of elements. Plain copies of inputs may.

Not covered: a kernel that does a little more than this, after torch did nearly everything in a few operators.
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
"""Tensors smaller than the outputs by more than this factor are not looked at; smaller parts are joined first."""
FEW = 16
"""With fewer elements, agreement up to a factor and a shift, or up to the order, may be a coincidence."""
UNITS = 64.0
"""Units of roundoff by which two tensors may differ on average and still count as equal."""


def check_made_by_torch(job: Job, trial: Trial, case: Case, program: Program) -> None:
    """Raise `Failed` if torch computed the answer, up to a factor, a shift or the order, and passed it to a kernel."""
    tape, made = _with_computed_outputs(program.tape)
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
        if any(_is_equivalent(it, output) for it in (*pieces, *whole)):
            names = ", ".join(dict.fromkeys(name for _, name in made))
            what = case.expectation.outputs[number].name if case.expectation.outputs else "out"
            raise Failed(
                Finding.LIBRARY_WORK,
                f"torch ({names}) computes {what}, up to a factor, a shift or the order, and kernels only pass it on; "
                "own kernels must do the larger part",
            )


def _split(tensors: Sequence[torch.Tensor], at: int) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]:
    return tensors[:at], tensors[at:]


def _with_computed_outputs(tape: Tape) -> tuple[Tape, list[tuple[View, str]]]:
    """Return a tape with more outputs, the tensors that torch computes for kernels; and their views and operators."""
    least = min((view.elements for view in tape.outputs), default=0) / PIECES
    buffers, steps, made = list(tape.buffers), list[Step](), list[tuple[View, str]]()
    launched = [(at, touched(step)) for at, step in enumerate(tape.steps) if isinstance(step, Launch)]
    for at, step in enumerate(tape.steps):
        steps.append(step)
        if not isinstance(step, Operate) or not _computes(step):
            continue
        for view in step.results:
            if view is None or view.elements < max(least, 2) or DTYPES[view.dtype].is_complex:
                continue
            if any(later > at and view.buffer in given for later, given in launched):
                size_bytes = view.elements * DTYPES[view.dtype].itemsize
                copy = dataclasses.replace(view, buffer=len(buffers), strides=_contiguous_strides(view.shape), offset=0)
                buffers.append(Buffer(place=Place.FRESH, size_bytes=size_bytes))
                steps.append(Operate(operator="aten.clone.default", args=(view,), kwargs=(), results=(copy,)))
                made.append((copy, step.operator.rpartition(".")[0]))
    outputs = (*tape.outputs, *(view for view, _ in made))
    return dataclasses.replace(tape, buffers=tuple(buffers), steps=tuple(steps), outputs=outputs), made


def _computes(step: Operate) -> bool:
    """Return True if the operator computes something, besides allocations, views and copies."""
    name = functional_name(bare_name(step.operator))
    return kind_of(step.operator) not in IDLE_KINDS and name not in COPYING


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def _is_equivalent(made: torch.Tensor, output: torch.Tensor) -> bool:
    """Return True if the tensors are equal up to a factor and a shift, up to the order, or up to the dtype of flags."""
    if made.numel() != output.numel() or output.numel() < 2 or bool((output == output[0]).all()):
        return False
    m, o = (values.double().nan_to_num(0.0, 0.0, 0.0) for values in (made, output))
    exact = torch.finfo(torch.float32).eps
    near = UNITS * max(torch.finfo(it.dtype).eps if it.is_floating_point() else exact for it in (made, output))
    if _is_near(m, o, near):
        return True
    if len(o) < FEW:
        return False
    if output.is_floating_point() and _is_near(m.sort().values, o.sort().values, near):
        return True
    m, o = m - m.mean(), o - o.mean()
    length = float(m.square().sum())
    return length > 0 and _is_near(float(m @ o) / length * m, o, near)


def _is_near(m: torch.Tensor, o: torch.Tensor, near: float) -> bool:
    return float((o - m).norm()) <= near * float(o.norm())
