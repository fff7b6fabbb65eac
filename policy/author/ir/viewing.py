"""Which values the host can show as views of memory, and which torch would have to copy first.

A view costs nothing in torch unless it needs elements to be adjacent that are not adjacent in memory:
`x.t().reshape(-1)` copies. Decided at the main sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.author.ir.program import VIEWS, Program, Value
from triton_agent.policy.author.ir.sizes import contiguous_strides


def first_moved(program: Program, name: str) -> str | None:
    """Return the first value that torch would have to copy in order to show `name`; None if views suffice."""
    return _shown(program, name)[0]


def lies_in_order(program: Program, name: str) -> bool:
    """Return True if this value, as the host shows it, is contiguous."""
    shape, strides = _at_main(program.values[name].shape), _shown(program, name)[1]
    in_order = _at_main(contiguous_strides(program.values[name].shape, program.width))
    return all(stride == own for size, stride, own in zip(shape, strides, in_order) if size != 1)


def _shown(program: Program, name: str) -> tuple[str | None, Sequence[int]]:
    """Return the first value that must be copied, if any, and the strides of the final view."""
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
    """Return the strides of a view of `inner`; None if torch would copy."""
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
    """Return strides that show the same elements in another shape; None if torch would have to copy."""
    if 0 in shape:
        return [0] * len(onto)
    runs: list[tuple[int, int]] = []
    """Groups of dimensions without gaps between them, each as (number of elements, stride)."""
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
