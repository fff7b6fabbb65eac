"""Which values the host can show as they lie in memory, and which would have to be moved there first.

Views of torch are free until one of them asks for elements side by side that are apart: `x.t().reshape(-1)` copies.
Looked at with the main sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.author.ir.program import VIEWS, Program, Value
from triton_agent.policy.author.ir.sizes import contiguous_strides


def first_moved(program: Program, name: str) -> str | None:
    """The value that torch would have to copy for, on the way to showing this one; None where it takes views only."""
    return _shown(program, name)[0]


def lies_in_order(program: Program, name: str) -> bool:
    """Return whether this value, as the host shows it, has its elements row by row."""
    shape, strides = _at_main(program.values[name].shape), _shown(program, name)[1]
    in_order = _at_main(contiguous_strides(program.values[name].shape, program.width))
    return all(stride == own for size, stride, own in zip(shape, strides, in_order) if size != 1)


def _shown(program: Program, name: str) -> tuple[str | None, Sequence[int]]:
    """The first value on the way that has to be moved, if any has to, and the strides in the end."""
    chain = [program.values[name]]
    while chain[-1].operation in VIEWS:
        chain.append(program.values[chain[-1].inputs[0]])
    inner = chain.pop()
    moved: str | None = None
    strides: Sequence[int] = _at_main(program.strides.get(inner.name, contiguous_strides(inner.shape, program.width)))
    for value in reversed(chain):
        seen = _seen(value, inner, strides)
        if seen is None:
            moved = moved or value.name
            seen = list(_at_main(contiguous_strides(value.shape, program.width)))
        inner, strides = value, seen
    return moved, strides


def _at_main(shape: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(size[0] for size in shape)


def _seen(value: Value, inner: Value, strides: Sequence[int]) -> list[int] | None:
    """Strides of a view of something with these strides."""
    shape, onto = _at_main(inner.shape), _at_main(value.shape)
    if value.operation == "permute":
        return [strides[dim] for dim in value.detail]
    if value.operation == "slice":
        dim, _, step = value.detail
        return [s * step if i == dim else s for i, s in enumerate(strides)] if step > 0 else None
    if value.operation == "expand":
        lead = len(onto) - len(shape)
        kept = [s if size == wide else 0 for s, size, wide in zip(strides, shape, onto[lead:])]
        return [0] * lead + kept
    return regrouped_strides(shape, strides, onto)


def regrouped_strides(shape: Sequence[int], strides: Sequence[int], onto: Sequence[int]) -> list[int] | None:
    """Strides that show the same elements in another shape; None where they are not as far apart as it takes."""
    if 0 in shape:
        return [0] * len(onto)
    runs: list[tuple[int, int]] = []
    """Dimensions that follow each other without a gap, as one: how many elements, and how far apart."""
    for size, stride in zip(shape, strides):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    made: list[int] = []
    left, apart = runs.pop() if runs else (1, 1)
    for size in reversed(onto):
        if left == 1 and runs and size > 1:
            left, apart = runs.pop()
        if left % size:
            return None
        made.append(apart)
        left, apart = left // size, apart * size
    return made[::-1] if left == 1 and not runs else None
