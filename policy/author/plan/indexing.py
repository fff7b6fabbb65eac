"""The index of an element in memory, as a function of a kernel's axes.

An `Index` is a sum of axes times sizes plus an offset. Walking from a result back to its operands, each view turns an
index into another one, mostly again a sum. Where a view divides an axis, the axis is replaced by two axes
(`AxisMustSplit` says which and where) and the walk starts again. A division that no split resolves becomes a `Piece`: a
quotient or a remainder that the kernel computes. A `Lookup` is an index that the kernel reads from a tensor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.sizes import (
    Shape,
    Size,
    constant,
    contiguous_strides,
    divides,
    is_constant,
    plus,
    product,
    quotient,
    remainder,
    times,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One dimension that a kernel runs over."""

    name: str
    size: Size


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """`index // divisor % modulus`; without a modulus, the whole quotient."""

    index: Index
    divisor: Size
    modulus: Size | None
    size: Size


@dataclasses.dataclass(frozen=True, slots=True)
class Lookup:
    """An index that a node of the kernel computes."""

    node: int
    size: Size


Base: TypeAlias = Axis | Piece | Lookup


@dataclasses.dataclass(frozen=True, slots=True)
class Index:
    """An offset plus the sum of bases times coefficients."""

    terms: tuple[tuple[Base, Size], ...]
    offset: Size

    @property
    def width(self) -> int:
        return len(self.offset)

    def axes(self) -> set[Axis]:
        """Return every axis that the index depends on, also through divisions."""
        found: set[Axis] = set()
        for base, _ in self.terms:
            if isinstance(base, Axis):
                found.add(base)
            elif isinstance(base, Piece):
                found |= base.index.axes()
        return found

    def lookups(self) -> set[int]:
        found: set[int] = set()
        for base, _ in self.terms:
            if isinstance(base, Lookup):
                found.add(base.node)
            elif isinstance(base, Piece):
                found |= base.index.lookups()
        return found

    def parts(self) -> list[Index]:
        """Return the index and every index inside its divisions."""
        inner = [base.index for base, _ in self.terms if isinstance(base, Piece)]
        return [self, *(part for index in inner for part in index.parts())]

    def coefficient(self, axis: Axis) -> Size:
        return next((c for base, c in self.terms if base == axis), constant(0, self.width))


Indices: TypeAlias = tuple[Index, ...]


class AxisMustSplit(Exception):
    """Raised if an axis must be replaced by two, the inner one of the given size."""

    def __init__(self, axis: Axis, inner: Size) -> None:
        super().__init__(axis, inner)
        self.axis = axis
        self.inner = inner


def fixed(offset: Size) -> Index:
    return Index((), offset)


def of(base: Base) -> Index:
    width = len(base.size)
    if isinstance(base, Axis) and is_constant(base.size, 1):
        return fixed(constant(0, width))
    return Index(((base, constant(1, width)),), constant(0, width))


def added(a: Index, b: Index) -> Index:
    terms: dict[Base, Size] = dict(a.terms)
    for base, coefficient in b.terms:
        terms[base] = plus(terms[base], coefficient) if base in terms else coefficient
    kept = tuple((base, c) for base, c in terms.items() if not is_constant(c, 0))
    return Index(kept, plus(a.offset, b.offset))


def scaled(index: Index, factor: Size) -> Index:
    if is_constant(factor, 0):
        return fixed(factor)
    return Index(tuple((base, times(c, factor)) for base, c in index.terms), times(index.offset, factor))


def shifted(index: Index, by: Size) -> Index:
    return Index(index.terms, plus(index.offset, by))


def linear(indices: Sequence[Index], strides: Shape, width: int) -> Index:
    total = fixed(constant(0, width))
    for index, stride in zip(indices, strides):
        total = added(total, scaled(index, stride))
    return _rejoined(total)


def _rejoined(index: Index) -> Index:
    """Replace a quotient times its divisor plus the remainder by the number that was divided."""
    for whole, factor in index.terms:
        if not isinstance(whole, Piece) or whole.modulus is not None:
            continue
        for rest, step in index.terms:
            if rest == Piece(whole.index, constant(1, index.width), whole.divisor, whole.divisor):
                if factor != times(step, whole.divisor):
                    continue
                kept = tuple(term for term in index.terms if term[0] not in (whole, rest))
                return _rejoined(added(Index(kept, index.offset), scaled(whole.index, step)))
    return index


def flat(indices: Sequence[Index], shape: Shape, width: int) -> Index:
    """Return the position in a contiguous tensor."""
    return linear(indices, contiguous_strides(shape, width), width)


def divided(index: Index, size: Size) -> tuple[Index, Index]:
    """Return the quotient and the remainder of an index by a size."""
    width = index.width
    if is_constant(size, 1):
        return index, fixed(constant(0, width))
    if not _splits_cleanly(index):
        return _pieces(index, size)
    high: list[tuple[Base, Size]] = []
    low: list[tuple[Base, Size]] = []
    for base, coefficient in index.terms:
        if divides(size, coefficient):
            high.append((base, quotient(coefficient, size)))
        elif _reach(base, coefficient, size):
            low.append((base, coefficient))
        else:
            _ask_for_split(base, coefficient, size)
            return _pieces(index, size)
    rest = remainder(index.offset, size)
    most = rest
    for base, coefficient in low:
        most = plus(most, tuple((s - 1) * c for s, c in zip(base.size, coefficient)))
    if any(m >= s for m, s in zip(most, size)):
        return _pieces(index, size)
    return Index(tuple(high), quotient(index.offset, size)), Index(tuple(low), rest)


def _splits_cleanly(index: Index) -> bool:
    return all(all(entry > 0 for entry in c) for _, c in index.terms) and all(entry >= 0 for entry in index.offset)


def _reach(base: Base, coefficient: Size, size: Size) -> bool:
    """Return True if the term alone stays below the size."""
    return all(s * c <= n for s, c, n in zip(base.size, coefficient, size))


def _ask_for_split(base: Base, coefficient: Size, size: Size) -> None:
    if isinstance(base, Axis) and divides(coefficient, size):
        inner = quotient(size, coefficient)
        if divides(inner, base.size):
            raise AxisMustSplit(base, inner)


def _pieces(index: Index, size: Size) -> tuple[Index, Index]:
    extent = _extent(index)
    one = constant(1, index.width)
    high = Piece(index, size, None, tuple(-(-e // max(1, s)) for e, s in zip(extent, size)))
    return of(high), of(Piece(index, one, size, size))


def _extent(index: Index) -> Size:
    most = plus(index.offset, constant(1, index.width))
    for base, coefficient in index.terms:
        most = plus(most, tuple((s - 1) * max(c, 0) for s, c in zip(base.size, coefficient)))
    return most


def regrouped(indices: Sequence[Index], shape: Shape, onto: Shape, width: int) -> Indices:
    """Convert the indices of an element in `shape` to its indices in `onto`, a reshape of it."""
    if any(0 in size for size in (*shape, *onto)):
        return tuple(fixed(constant(0, width)) for _ in onto)
    result: list[Index] = []
    for ours, theirs in _groups(shape, onto, width):
        position = flat([indices[i] for i in ours], tuple(shape[i] for i in ours), width)
        found: list[Index] = []
        for k, dim in reversed(list(enumerate(theirs))):
            if k == 0:
                found.append(position)
            else:
                position, inner = divided(position, onto[dim])
                found.append(inner)
        result += reversed(found)
    return tuple(result)


def _groups(shape: Shape, onto: Shape, width: int) -> list[tuple[list[int], list[int]]]:
    """Group neighbouring dimensions of both shapes so that each group has the same number of elements on both sides."""
    groups = []
    i = j = 0
    while i < len(shape) or j < len(onto):
        ours, theirs = ([i] if i < len(shape) else []), ([j] if j < len(onto) else [])
        i, j = i + len(ours), j + len(theirs)
        while True:
            a = product((shape[k] for k in ours), width)
            b = product((onto[k] for k in theirs), width)
            if a == b:
                break
            grow_ours = (a[0] < b[0] or (a[0] == b[0] and i < len(shape))) and i < len(shape)
            if not grow_ours and j >= len(onto):
                grow_ours = i < len(shape)
            if grow_ours:
                ours.append(i)
                i += 1
            elif j < len(onto):
                theirs.append(j)
                j += 1
            else:
                raise BeyondAuthor("a view whose sizes do not fit together")
        groups.append((ours, theirs))
    return groups


def is_count_up(index: Index) -> list[Axis] | None:
    """Return the axes, outermost first, if the index counts through them without gaps or repetitions; else None."""
    if not is_constant(index.offset, 0) or not all(isinstance(base, Axis) for base, _ in index.terms):
        return None
    ordered = sorted(index.terms, key=lambda term: [-c for c in term[1]])
    step = constant(1, index.width)
    for base, coefficient in reversed(ordered):
        if coefficient != step:
            return None
        step = times(step, base.size)
    return [base for base, _ in ordered if isinstance(base, Axis)]


def plain_axes(index: Index) -> list[Axis] | None:
    """Return the axes, outermost first, if the index is a sum of axes and a constant; else None."""
    if not all(isinstance(base, Axis) and all(entry > 0 for entry in c) for base, c in index.terms):
        return None
    ordered = sorted(index.terms, key=lambda term: [-c for c in term[1]])
    return [base for base, _ in ordered if isinstance(base, Axis)]


class AxisTable:
    """The axes of one kernel, by the key of the dimension that they stand for. Splitting replaces an axis by two."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: dict[str, list[Axis]] = {}

    def index(self, key: str, size: Size) -> Index:
        parts = self._parts.setdefault(key, [Axis(key, size)])
        strides = contiguous_strides(tuple(part.size for part in parts), self._width)
        return linear([of(part) for part in parts], strides, self._width)

    def axes(self, *prefixes: str) -> list[Axis]:
        """Return the axes of all dimensions whose key has one of these prefixes, in order, without those of length
        one.
        """
        return [
            part
            for key, parts in self._parts.items()
            if key.startswith(prefixes)
            for part in parts
            if not is_constant(part.size, 1)
        ]

    def split(self, axis: Axis, inner: Size) -> None:
        for parts in self._parts.values():
            if axis in parts:
                at = parts.index(axis)
                outer = Axis(f"{axis.name}a", quotient(axis.size, inner))
                parts[at : at + 1] = [outer, Axis(f"{axis.name}b", inner)]
                return
        raise BeyondAuthor("an axis that is not the kernel's own")


def index_renumbered(index: Index, places: Mapping[int, int]) -> Index:
    """Return the index with the new numbers of the nodes that it looks up."""
    terms: list[tuple[Base, Size]] = []
    for base, coefficient in index.terms:
        if isinstance(base, Lookup):
            base = Lookup(places[base.node], base.size)
        elif isinstance(base, Piece):
            base = Piece(index_renumbered(base.index, places), base.divisor, base.modulus, base.size)
        terms.append((base, coefficient))
    return Index(tuple(terms), index.offset)
