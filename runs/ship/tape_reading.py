"""Questions about the steps of a tape, and about how views lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_agent.tools.tape.tape import Allocate, Constant, Operate, Step, Tape, View, arguments_of, views_of


def made_by(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Yield each buffer that a step makes, with the number of the step."""
    for at, step in enumerate(steps):
        if isinstance(step, (Allocate, Constant)):
            yield step.buffer, at
        elif isinstance(step, Operate):
            yield from ((view.buffer, at) for view in new_results(step) if view is not None)


def new_results(step: Operate) -> list[View | None]:
    """Return the results that have memory of their own; None in place of a view of an argument."""
    taken = {view.buffer for view in arguments_of(step)}
    return [None if view is None or view.buffer in taken else view for view in step.results]


def returned(tape: Tape) -> tuple[View, ...]:
    """Return the tensors that are needed after the last step: outputs, and new contents of the module's buffers."""
    return (*tape.outputs, *(view for _, view in tape.rebound))


def views_by_buffer(tape: Tape) -> dict[int, list[View]]:
    """Return all views that are read or written, without duplicates, by buffer."""
    found: dict[int, dict[View, None]] = {}
    for step in (*tape.prologue, *tape.steps):
        for view in views_of(step):
            found.setdefault(view.buffer, {})[view] = None
    for view in returned(tape):
        found.setdefault(view.buffer, {})[view] = None
    return {number: list(views) for number, views in found.items()}


def is_contiguous(view: View) -> bool:
    """Return whether the view has the layout of a new tensor."""
    return row_major(view.shape) == view.strides


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def repeats(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements overlap."""
    reach = 1
    for stride, size in sorted(zip(strides, shape)):
        if size > 1 and stride < reach:
            return True
        reach = stride * (size - 1) + reach if size > 1 else reach
    return False
