"""How many different elements of one memory a set of layouts touches.

Exact where layouts are simple or small, or made of long stretches. Elsewhere the answer is a lower bound, never too
high: it serves to say what must be moved at least.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy

from triton_agent.tools.graph_values import TensorMeta

EXACT_SPAN = 1 << 24
"""Elements of memory up to which layouts are painted element by element (16 MiB)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some elements of one memory."""

    layout: TensorMeta
    holes: tuple[TensorMeta, ...] = ()
    """Layouts whose elements are not meant."""
    count: int | None = None
    """How many elements, where it is not known which of the layout's they are; None for all but the holes."""


def touched(parts: Sequence[Part]) -> int:
    """Different elements in all the parts together."""
    counted = max((part.count for part in parts if part.count is not None), default=0)
    known = list(dict.fromkeys(part for part in parts if part.count is None and part.layout.numel))
    return max(counted, _union(known))


def distinct(layout: TensorMeta) -> int:
    """Different elements of one layout: an expanded dimension shows the same ones again."""
    return touched([Part(layout=layout)])


def _union(parts: Sequence[Part]) -> int:
    if not parts:
        return 0
    start = min(part.layout.offset for part in parts)
    span = max(part.layout.offset + _extent(part.layout) for part in parts) - start
    simple = [_apart(part.layout) for part in parts if not part.holes and _is_apart(part.layout)]
    if (len(parts) == 1 and simple) or span in simple:
        return max(simple)
    if span <= EXACT_SPAN:
        return _painted(parts, start, span)
    run = _common_run(parts, start)
    if span <= EXACT_SPAN * run:
        return run * _painted([_in_runs(part, run) for part in parts], start // run, -(-span // run))
    return max(_least(part) for part in parts)


def _common_run(parts: Sequence[Part], start: int) -> int:
    """So many neighbours are in every layout together or not at all."""
    layouts = [layout for part in parts for layout in (part.layout, *part.holes)]
    split = [_run_and_rest(layout) for layout in layouts]
    strides = (stride for _, rest in split for _, stride in rest)
    return math.gcd(start, *(run for run, _ in split), *strides, *(layout.offset - start for layout in layouts))


def _run_and_rest(layout: TensorMeta) -> tuple[int, list[tuple[int, int]]]:
    """How many neighbours follow one another without a gap, and size and stride of the dimensions beyond."""
    steps = sorted((stride, size) for size, stride in zip(layout.shape, layout.strides) if stride and size > 1)
    run = 1
    for taken, (stride, size) in enumerate(steps):
        if stride != run:
            return run, [(size, stride) for stride, size in steps[taken:]]
        run *= size
    return run, []


def _in_runs(part: Part, run: int) -> Part:
    """The same with so many neighbours as one element."""

    def shorter(layout: TensorMeta) -> TensorMeta:
        inner, rest = _run_and_rest(layout)
        shape, strides = zip((inner // run, 1), *((size, stride // run) for size, stride in rest))
        return dataclasses.replace(layout, shape=shape, strides=strides, offset=layout.offset // run)

    holes = tuple(shorter(hole) for hole in part.holes if hole.numel)
    return Part(layout=shorter(part.layout), holes=holes, count=part.count)


def _painted(parts: Sequence[Part], start: int, span: int) -> int:
    painted = numpy.zeros(span, dtype=bool)
    for part in parts:
        canvas = numpy.zeros(span, dtype=bool) if part.holes else painted
        _paint(canvas, part.layout, start, True)
        for hole in part.holes:
            _paint(canvas, hole, start, False)
        if part.holes:
            painted |= canvas
    return int(painted.sum())


def _paint(canvas: numpy.ndarray, layout: TensorMeta, start: int, colour: bool) -> None:
    """Set a layout's elements; what lies outside the canvas is nobody's to count."""
    first = layout.offset - start
    if layout.numel == 0 or first < 0 or first + _extent(layout) > canvas.size:
        return
    view = numpy.lib.stride_tricks.as_strided(canvas[first:], layout.shape, layout.strides)
    view[...] = colour


def _least(part: Part) -> int:
    """A bound without painting: one dimension after another, as long as they cannot overlap."""
    layout = part.layout
    elements, reach = 1, 1
    for stride, size in sorted(zip(layout.strides, layout.shape)):
        if stride >= reach:
            elements *= size
            reach += (size - 1) * stride
    return max(0, elements - sum(hole.numel for hole in part.holes))


def _apart(layout: TensorMeta) -> int:
    return math.prod(size for size, stride in zip(layout.shape, layout.strides) if stride)


def _is_apart(layout: TensorMeta) -> bool:
    """No two indices show the same element, expanded dimensions aside."""
    reach = 1
    for stride, size in sorted(zip(layout.strides, layout.shape)):
        if stride == 0 or size == 1:
            continue
        if stride < reach:
            return False
        reach += (size - 1) * stride
    return True


def _extent(layout: TensorMeta) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(layout.shape, layout.strides))
