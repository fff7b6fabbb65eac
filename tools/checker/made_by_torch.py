"""Find out if torch computed the answer, and a kernel only passes it on.

Authorship is measured in elements and bytes, but some operators do more work than these numbers show: `isin` compares
every pair but counts its operands once, `tril` selects but counts as a movement. Therefore one call also returns the
tensors that torch computes for kernels and that are about as large as an output. None of them may equal an output up to
a factor, a shift, or the order of elements. Plain copies of inputs may. A kernel may also pass on a part of what torch
computes, or parts of several tensors. So torch's results are replaced by random numbers: if these come out again, each
at the same place in every call, kernels only pass them on.

A copy to a narrower dtype rounds, or wraps integers. Where the reference does so by other operators, that is its work,
and kernels may not pass on such a copy either, unless its numbers are those of the source.

Not covered: a kernel that does a little more than this, after torch did nearly everything in a few operators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import torch

from triton_agent.tools.answers.authorship import COPIES, is_narrower, touched
from triton_agent.tools.cases.plan import Case, Trial
from triton_agent.tools.checker.job import Job
from triton_agent.tools.checker.questions import call, send_program
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import Program
from triton_agent.tools.graph.operators import bare_name, functional_name, kind_of, words
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.tape import Buffer, Launch, Operate, Place, Step, Tape, View, encode, views_in

COPYING = words("clone _to_copy copy contiguous lift_fresh lift_fresh_copy fill zero cat stack")
IDLE_KINDS = ("allocation", "view", "metadata")
PIECES = 4
"""Tensors smaller than the outputs by more than this factor are not looked at; smaller parts are joined first."""
FEW_PIECES = 64
"""The same factor where torch's results are replaced by random numbers, which finds parts of any size."""
FEW = 16
"""Tensors with fewer elements may agree up to a factor and a shift, or in another order, by chance."""
UNITS = 64.0
"""Units of float32 by which two tensors may differ on average and still count as equal; narrower floats by one unit."""
UNITS_OF_A_COPY = 4.0
"""The same for a narrower copy, which differs from its source by hundreds of such units."""
DRAWS = 4
"""Number of calls with random numbers; together they tell the elements of a tensor apart."""
FLAG_DRAWS = 24
"""The same for flags, of which there are only two."""
DRAWN = 256
"""Number of different random numbers, all of which half precision can hold."""
PASSED_ON = 0.9
"""Share of an output from which kernels are said to pass on what torch computed."""


def check_made_by_torch(job: Job, trial: Trial, case: Case, program: Program) -> None:
    """Raise `Failed` if torch computed an output before a kernel began, up to a factor, a shift or the order."""
    wanted, names = _made_for_kernels(program.tape, PIECES)
    parts, their_names = _made_for_kernels(program.tape, FEW_PIECES)
    if not parts or case.is_large:  # checked at a smaller size
        return
    outputs, found = contents(job, trial, case, program, wanted) if wanted else ([], {})
    results = [row for rows in found.values() for row in rows]
    for number, output in enumerate(outputs):
        pieces = [row for row in results if row.dtype.is_floating_point == output.dtype.is_floating_point]
        whole = [torch.cat(pieces)] if len(pieces) > 1 and sum(map(len, pieces)) == len(output) else []
        if any(hold_the_same(row, output) for row in (*pieces, *whole)):
            what = case.expectation.outputs[number].name if case.expectation.outputs else "out"
            raise Failed(
                Finding.LIBRARY_WORK,
                f"torch ({', '.join(names)}) computes {what} up to a factor, a shift or the order of its elements, and "
                "kernels only pass it on; own kernels must do the larger part",
            )
    share = _share_passed_on(job, trial, case, program, parts)
    if share >= PASSED_ON:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"kernels pass on {100 * share:.0f}% of an output as torch ({', '.join(their_names)}) computed it, up to a "
            "factor, a shift or the order of its elements; own kernels must do the larger part",
        )


def check_rounded_by_torch(
    job: Job, trial: Trial, case: Case, program: Program, narrowed: Collection[torch.dtype]
) -> None:
    """Raise `Failed` if an output is a narrower copy by torch, up to a factor and a shift, which changed its numbers.

    Copies to the dtypes in `narrowed`, to which the reference copies as well, may be passed on.
    """
    steps = program.tape.steps
    launched = set().union(*(touched(step) for step in steps if isinstance(step, Launch)))
    pairs = {at: _narrowing(step, narrowed) for at, step in enumerate(steps) if isinstance(step, Operate)}
    wanted = {at: pair for at, pair in pairs.items() if pair is not None and pair[1].buffer in launched}
    if not wanted or case.is_large:
        return
    outputs, found = contents(job, trial, case, program, wanted)
    for number, output in enumerate(outputs):
        if any(_is_scaled(made, output) and not _is_scaled(source, output) for source, made in found.values()):
            what = case.expectation.outputs[number].name if case.expectation.outputs else "out"
            raise Failed(
                Finding.LIBRARY_WORK,
                f"torch rounds or wraps {what} by a copy to another dtype, and kernels only pass it on, up to a factor "
                "and a shift; the reference computes this, so own kernels must do it",
            )


def _narrowing(step: Operate, without: Collection[torch.dtype]) -> tuple[View, View] | None:
    """Return source and result of a copy to a narrower dtype, other than these dtypes; None for other steps."""
    at = COPIES.get(step.operator.rpartition(".")[0])
    source = next((view for view in views_in(step.args[at])), None) if at is not None and len(step.args) > at else None
    result = step.results[0] if step.results else None
    if source is None or result is None or source.shape != result.shape:
        return None
    dtype = DTYPES[result.dtype]
    narrows = not dtype.is_complex and dtype not in without and is_narrower(DTYPES[source.dtype], dtype)
    return (source, result) if narrows and source.buffer != result.buffer else None


def _is_scaled(made: torch.Tensor, output: torch.Tensor) -> bool:
    """Return True if the output is the other tensor times a factor, plus a shift, as exactly as float32 tells."""
    if (
        made.numel() != output.numel()
        or output.numel() < FEW
        or output.is_complex()
        or bool((output == output[0]).all())
    ):
        return False
    m, o = (values.double().nan_to_num(0.0, 0.0, 0.0) for values in (made, output))
    m, o = m - m.mean(), o - o.mean()
    length = float(m.square().sum())
    return length > 0 and _differ_little(float(m @ o) / length * m, o, UNITS_OF_A_COPY * torch.finfo(torch.float32).eps)


def _share_passed_on(
    job: Job, trial: Trial, case: Case, program: Program, wanted: Mapping[int, Sequence[View]]
) -> float:
    """Return the largest share of an output whose elements are always the same elements of torch's results."""
    floats, flags = (
        {number: [view for view in views if is_asked(DTYPES[view.dtype])] for number, views in wanted.items()}
        for is_asked in (lambda it: it.is_floating_point, lambda it: it is torch.bool)
    )
    shares = [
        _share_of(job, trial, case, program, {number: views for number, views in asked.items() if views}, values, draws)
        for asked, values, draws in ((floats, DRAWN, DRAWS), (flags, 2, FLAG_DRAWS))
        if any(asked.values())
    ]
    return max(shares, default=0.0)


def _share_of(
    job: Job,
    trial: Trial,
    case: Case,
    program: Program,
    wanted: Mapping[int, Sequence[View]],
    values: int,
    draws: int,
) -> float:
    """Return the share for results that are all floats or all flags, of so many values, by so many draws."""
    seen: list[tuple[list[torch.Tensor], torch.Tensor]] = []
    least = values // 2 if values > 2 else 0  # floats of both signs, since a kernel may do something for one of them
    fills = [("aten.fill_.Scalar", (0,)), ("aten.fill_.Scalar", (values - 1,))]
    try:
        for fill in [*fills, *(draws * [("aten.random_.from", (-least, values - least))])]:
            outputs, found = contents(job, trial, case, program, wanted, fill)
            seen.append((outputs, torch.cat([row.double() for rows in found.values() for row in rows])))
    except Failed as failed:
        if failed.worker_died:
            raise
        return 0.0
    codes = sum(((made.round().long() + least) * values**k for k, (_, made) in enumerate(seen[2:])), torch.tensor(0))
    share = 0.0
    for number, output in enumerate(seen[0][0]):
        if (not output.is_floating_point() and output.dtype is not torch.bool) or output.numel() < FEW:
            continue
        shifts = output.double()
        factors = (seen[1][0][number].double() - shifts) / (values - 1)
        drawn = [(outputs[number].double() - shifts) / factors for outputs, _ in seen[2:]]
        usual = torch.isclose(factors, factors.median(), rtol=1e-2) & torch.isclose(shifts, shifts.median(), rtol=1e-2)
        passed = usual & torch.stack([(it - it.round()).abs() < 0.25 for it in drawn]).all(0)
        placed = [it.nan_to_num(0.0, 0.0, 0.0).round().long() + least for it in drawn]
        their = sum((it * values**k for k, it in enumerate(placed)), torch.tensor(0))
        share = max(share, float((passed & torch.isin(their, codes)).double().mean()))
    return share


def _made_for_kernels(tape: Tape, pieces: int) -> tuple[dict[int, list[View]], list[str]]:
    """Return the results of torch that later launches use, by number of the step, and the names of their operators.

    Those that are smaller than the outputs by more than the factor `pieces` are left out.
    """
    least = min((view.elements for view in tape.outputs), default=0) / pieces
    makers, computed = set[int](), set[int]()
    for at, step in enumerate(tape.steps):  # copies of what torch computed in parts hold it as a whole
        if isinstance(step, Operate):
            results = {view.buffer for view in step.results if view is not None}
            if _makes(step) or (kind_of(step.operator) == "movement" and touched(step) & computed):
                makers.add(at)
                computed |= results
    launched = [(at, touched(step)) for at, step in enumerate(tape.steps) if isinstance(step, Launch)]
    wanted: dict[int, list[View]] = {}
    names: list[str] = []
    for at, step in enumerate(tape.steps):
        if not isinstance(step, Operate) or at not in makers:
            continue
        for view in step.results:
            if view is None or view.elements < max(least, 2) or DTYPES[view.dtype].is_complex:
                continue
            if any(later > at and view.buffer in given for later, given in launched):
                wanted.setdefault(at, []).append(view)
                names.append(step.operator.rpartition(".")[0])
    return wanted, list(dict.fromkeys(names))


def _makes(step: Operate) -> bool:
    """Return True for operators other than allocations, views and copies."""
    name = functional_name(bare_name(step.operator))
    return kind_of(step.operator) not in IDLE_KINDS and name not in COPYING


def contents(
    job: Job,
    trial: Trial,
    case: Case,
    program: Program,
    wanted: Mapping[int, Sequence[View]],
    filled: tuple[str, tuple[int, ...]] | None = None,
) -> tuple[list[torch.Tensor], dict[int, list[torch.Tensor]]]:
    """Return the outputs of one call, and the contents of views after some of its steps, as rows on the CPU.

    `wanted` has the views by the number of the step. `filled` is an operator with arguments that overwrites them first.
    """
    tape = program.tape
    buffers, steps, copies = list(tape.buffers), list[Step](), list[View]()
    for number, step in enumerate(tape.steps):
        steps.append(step)
        for view in wanted.get(number, ()):
            if filled is not None:
                operator, numbers = filled
                steps.append(Operate(operator=operator, args=(view, *numbers), kwargs=(), results=(view,)))
            size_bytes = view.elements * DTYPES[view.dtype].itemsize
            strides = tuple(math.prod(view.shape[at + 1 :]) for at in range(len(view.shape)))
            copies.append(dataclasses.replace(view, buffer=len(buffers), strides=strides, offset=0))
            buffers.append(Buffer(place=Place.FRESH, size_bytes=size_bytes))
            steps.append(Operate(operator="aten.clone.default", args=(view,), kwargs=(), results=(copies[-1],)))
    outputs = (*tape.outputs, *copies)
    shown = dataclasses.replace(tape, buffers=tuple(buffers), steps=tuple(steps), outputs=outputs)
    other = dataclasses.replace(program, name=f"{program.name} / shown", tape=shown, encoded=encode(shown))
    send_program(job, other, trial.states[case.version])
    more_bytes = sum(buffer.size_bytes for buffer in buffers[len(tape.buffers) :])
    answer, _ = call(job, trial, case, program=other, more_bytes=more_bytes)
    rows = iter([tensor.detach().cpu().reshape(-1) for tensor in answer.tensors])
    made = [next(rows) for _ in tape.outputs]
    return made, {number: [next(rows) for _ in wanted[number]] for number in sorted(wanted)}


def hold_the_same(made: torch.Tensor, output: torch.Tensor) -> bool:
    """Return True if these are equal up to a factor and a shift, or up to the order of floats."""
    if made.numel() != output.numel() or output.numel() < 2 or bool((output == output[0]).all()):
        return False
    is_float = made.is_floating_point() and output.is_floating_point()
    m, o = (values.double().nan_to_num(0.0, 0.0, 0.0) for values in (made, output))
    unit = max(torch.finfo(it.dtype).eps for it in (made, output) if it.is_floating_point()) if is_float else 0.0
    near = max(UNITS * torch.finfo(torch.float32).eps, unit)
    if _differ_little(m, o, near):
        return True
    if len(o) < FEW:
        return False
    # many samples of one distribution agree in half precision once they are sorted
    if 0 < unit <= torch.finfo(torch.float32).eps and _differ_little(m.sort().values, o.sort().values, near):
        return True
    m, o = m - m.mean(), o - o.mean()
    length = float(m.square().sum())
    return length > 0 and _differ_little(float(m @ o) / length * m, o, near)


def _differ_little(m: torch.Tensor, o: torch.Tensor, near: float) -> bool:
    return float((o - m).norm()) <= near * float(o.norm())
