"""Counts the distinct elements of one storage that a set of layouts touches.

The count is exact for layouts that are simple, small, or made of long contiguous runs. For others it is a lower bound,
which is sufficient for the floor of a call.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy

from triton_agent.tools.graph.values import TensorMeta

EXACT_SPAN = 1 << 24
"""Span in elements up to which the touched elements are marked one by one, in an array of 16 MiB."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some elements of one storage."""

    layout: TensorMeta
    holes: tuple[TensorMeta, ...] = ()
    """Layouts whose elements are excluded."""
    count: int | None = None
    """Number of elements, if only their number within `layout` is known; None for all of `layout` except the holes."""


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements from the first to the last one of a layout, inclusive; 0 for an empty one."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if all(shape) else 0


def distinct(layout: TensorMeta) -> int:
    """Return the number of distinct elements of one layout: an expanded dimension repeats elements."""
    return touched([Part(layout=layout)])


def touched(parts: Sequence[Part]) -> int:
    counted = max((part.count for part in parts if part.count is not None), default=0)
    known = list(dict.fromkeys(part for part in parts if part.count is None and part.layout.numel))
    return max(counted, _union(known))


def _union(parts: Sequence[Part]) -> int:
    if not parts:
        return 0
    start = min(part.layout.offset for part in parts)
    span = max(part.layout.offset + _extent(part.layout) for part in parts) - start
    shown = [math.prod(size for size, step in zip(it.layout.shape, it.layout.strides) if step) for it in parts]
    simple = [count for part, count in zip(parts, shown) if not part.holes and _lower_bound(part) == count]
    if (len(parts) == 1 and simple) or span in simple:
        return max(simple)
    if span <= EXACT_SPAN:
        return _marked(parts, start, span)
    # A run of neighbours that every layout contains completely or not at all counts as one unit.
    layouts = [layout for part in parts for layout in (part.layout, *part.holes)]
    split = [_run_and_rest(layout) for layout in layouts]
    strides = (stride for _, rest in split for _, stride in rest)
    run = math.gcd(start, *(run for run, _ in split), *strides, *(layout.offset - start for layout in layouts))
    if span <= EXACT_SPAN * run:
        return run * _marked([_in_runs(part, run) for part in parts], start // run, -(-span // run))
    return max(_lower_bound(part) for part in parts)


def _run_and_rest(layout: TensorMeta) -> tuple[int, list[tuple[int, int]]]:
    """Return the length of the layout's contiguous runs, and size and stride of the remaining dimensions."""
    steps = sorted((stride, size) for size, stride in zip(layout.shape, layout.strides) if stride and size > 1)
    run = 1
    for taken, (stride, size) in enumerate(steps):
        if stride != run:
            return run, [(size, stride) for stride, size in steps[taken:]]
        run *= size
    return run, []


def _in_runs(part: Part, run: int) -> Part:
    """Return the same part in units of `run` neighbouring elements."""

    def shorter(layout: TensorMeta) -> TensorMeta:
        inner, rest = _run_and_rest(layout)
        shape, strides = zip((inner // run, 1), *((size, stride // run) for size, stride in rest))
        return dataclasses.replace(layout, shape=shape, strides=strides, offset=layout.offset // run)

    holes = tuple(shorter(hole) for hole in part.holes if hole.numel)
    return Part(layout=shorter(part.layout), holes=holes, count=part.count)


def _marked(parts: Sequence[Part], start: int, span: int) -> int:
    """Mark the elements of all parts in an array, and count the marks."""
    marks = numpy.zeros(span, dtype=bool)
    for part in parts:
        canvas = numpy.zeros(span, dtype=bool) if part.holes else marks
        for layout, value in [(part.layout, True), *((hole, False) for hole in part.holes)]:
            first = layout.offset - start
            if layout.numel and first >= 0 and first + _extent(layout) <= span:  # a hole may lie outside
                numpy.lib.stride_tricks.as_strided(canvas[first:], layout.shape, layout.strides)[...] = value
        if part.holes:
            marks |= canvas
    return int(marks.sum())


def _lower_bound(part: Part) -> int:
    """Multiply the sizes of dimensions in order of stride, skipping those that may overlap."""
    elements, reach = 1, 1
    for stride, size in sorted(zip(part.layout.strides, part.layout.shape)):
        if stride >= reach:
            elements *= size
            reach += (size - 1) * stride
    return max(0, elements - sum(hole.numel for hole in part.holes))


def _extent(layout: TensorMeta) -> int:
    return extent(layout.shape, layout.strides)
