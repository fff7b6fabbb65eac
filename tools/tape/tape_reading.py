"""What the steps of a tape mention, and how views lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_agent.tools.isolate.tensors import DTYPES
from triton_agent.tools.tape.tape import Allocate, Constant, Launch, Operate, Step, Tape, View, buffers_in, views_in


def made_by(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Buffers that steps make, with the step's number."""
    for at, step in enumerate(steps):
        if isinstance(step, (Allocate, Constant)):
            yield step.buffer, at
        elif isinstance(step, Operate):
            taken = {view.buffer for value in (*step.args, *(v for _, v in step.kwargs)) for view in views_in(value)}
            yield from ((view.buffer, at) for view in step.results if view is not None and view.buffer not in taken)


def arguments_of(step: Step) -> Iterator[View]:
    if isinstance(step, Operate):
        for value in (*step.args, *(value for _, value in step.kwargs)):
            yield from views_in(value)
    elif isinstance(step, Launch):
        for choice in step.choices:
            for _, value in choice.arguments:
                yield from views_in(value)


def views_of(step: Step) -> Iterator[View]:
    yield from arguments_of(step)
    if isinstance(step, Operate):
        yield from (view for view in step.results if view is not None)


def mentioned(step: Step) -> Iterator[int]:
    """Buffers that a step uses or makes."""
    if isinstance(step, (Allocate, Constant)):
        yield step.buffer
        yield from (address.buffer for _, address in getattr(step, "relocations", ()))
    elif isinstance(step, Operate):
        yield from (view.buffer for view in views_of(step))
    elif isinstance(step, Launch):
        for choice in step.choices:
            for _, value in choice.arguments:
                yield from buffers_in(value)


def views_by_buffer(tape: Tape) -> dict[int, list[View]]:
    found: dict[int, dict[View, None]] = {}
    for step in (*tape.prologue, *tape.steps):
        for view in views_of(step):
            found.setdefault(view.buffer, {})[view] = None
    for view in (*tape.outputs, *(view for _, view in tape.rebound)):
        found.setdefault(view.buffer, {})[view] = None
    return {number: list(views) for number, views in found.items()}


def is_contiguous(view: View) -> bool:
    """Whether it lies as torch lays new tensors out."""
    return row_major(view.shape) == view.strides


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def repeats(view: View) -> bool:
    """Whether elements overlap."""
    reach = 1
    for stride, size in sorted(zip(view.strides, view.shape)):
        if size > 1 and stride < reach:
            return True
        reach = stride * (size - 1) + reach if size > 1 else reach
    return False


def end_bytes(view: View) -> int:
    last = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides)) if view.elements else -1
    return (view.offset + last + 1) * DTYPES[view.dtype].itemsize
