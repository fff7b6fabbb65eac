"""Ranges of sizes as a user writes them: `--dynamic batch=1..256`, `--dynamic "q.1,k.1=128..4096"`.

A range names a free size: a dimension of one or several arguments of forward. This module does not need torch; only
calling the reference shows if it runs at a length.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.tools.errors import UsageError

BATCH = "batch"
"""Name of the leading dimension that most input tensors share."""
MOST_RANGES = 3
LARGEST = 1 << 31
_GRAMMAR = (
    'write batch=1..256 for the common leading dimension, or argument.dimension: "x.1=128..4096"; several that are '
    'always equal are separated by ",": "q.1,k.1=128..4096"'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SizeRange:
    """One free size, from its least to its largest length."""

    places: tuple[tuple[str, int], ...] = ()
    """Names of arguments of forward, each with a dimension; empty for the batch."""
    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high < LARGEST:
            raise ValueError(f"not a range: {self.low}..{self.high}")

    @property
    def name(self) -> str:
        return ",".join(f"{argument}.{dimension}" for argument, dimension in self.places) or BATCH

    @property
    def variable(self) -> str:
        """The size's name in generated Python text."""
        return f"{self.places[0][0]}_size_{self.places[0][1]}" if self.places else BATCH

    def __str__(self) -> str:
        return f"{self.name}={self.low}..{self.high}"

    def found_in(self, shapes: Sequence[tuple[int, ...] | None], parameters: Sequence[str]) -> list[tuple[int, int]]:
        """Return the argument numbers and dimensions that have this size; `shapes` has None for each non-tensor.

        Raise `UsageError` if there is no such dimension.
        """
        if not self.places:
            counted = collections.Counter(shape[0] for shape in shapes if shape)
            common = counted.most_common(1)[0][0] if counted else None
            found = [(at, 0) for at, shape in enumerate(shapes) if shape and shape[0] == common]
            if not found:
                raise UsageError("no input tensor has a leading dimension", where="--dynamic batch", remedy=_GRAMMAR)
            return found
        found = []
        for argument, dimension in self.places:
            at = parameters.index(argument) if argument in parameters else -1
            shape = shapes[at] if 0 <= at < len(shapes) else None
            if shape is None or dimension >= len(shape):
                remedy = f"arguments of forward: {', '.join(parameters)}; dimensions count from 0; {_GRAMMAR}"
                raise UsageError(f"no dimension {argument}.{dimension}", where=f"--dynamic {self}", remedy=remedy)
            found.append((at, dimension))
        return found

    def to_json(self) -> dict[str, Any]:
        return {"places": [list(place) for place in self.places], "low": self.low, "high": self.high}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SizeRange:
        return cls(places=tuple((str(a), int(d)) for a, d in data["places"]), low=data["low"], high=data["high"])


def parse_range(text: str, *, batch: int | None = None) -> SizeRange:
    """Parse the value of one `--dynamic`; `batch` is the given length of the leading dimension, if known."""
    where = f"--dynamic {text!r}"
    name, equals, bounds = text.partition("=")
    places = []
    for part in [] if name.strip() == BATCH else name.split(","):
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\.(\d+)\s*", part)
        if match is None:
            raise UsageError(f"not a dimension: {part.strip()!r}", where=where, remedy=_GRAMMAR)
        places.append((match[1], int(match[2])))
    limits = re.fullmatch(r"\s*(\d[\d_]*)\s*\.\.\s*(\d[\d_]*)\s*", bounds)
    if limits is None and not (places or equals) and batch is not None:
        return SizeRange(low=1, high=max(batch, 1))
    if limits is None:
        raise UsageError("a range needs two bounds", where=where, remedy=_GRAMMAR)
    try:
        return SizeRange(places=tuple(places), low=int(limits[1]), high=int(limits[2]))
    except ValueError:
        remedy = "the first bound is at least 1, and the second no less than the first"
        raise UsageError(f"no range: {bounds.strip()}", where=where, remedy=remedy) from None


def require_apart(ranges: Sequence[SizeRange]) -> None:
    """Refuse too many ranges, and two ranges of one dimension."""
    if len(ranges) > MOST_RANGES:
        raise UsageError(f"{len(ranges)} ranges", where="--dynamic", remedy=f"give at most {MOST_RANGES}")
    places = [place for item in ranges for place in item.places or ((BATCH, 0),)]
    for place in places:
        if places.count(place) > 1:
            name = BATCH if place == (BATCH, 0) else f"{place[0]}.{place[1]}"
            raise UsageError(f"two ranges of {name}", where="--dynamic", remedy="give each dimension once")


Lengths = tuple[int, ...]
"""A length for each range."""


def named(ranges: Sequence[SizeRange], lengths: Lengths) -> str:
    """Return the lengths as text: `batch=17`."""
    return ", ".join(f"{item.name}={length}" for item, length in zip(ranges, lengths))


def telling(low: int, high: int) -> list[int]:
    """Return lengths at which kernels are often wrong: the ends first, then powers of two and their neighbours."""
    powers = [1 << exponent for exponent in range(LARGEST.bit_length()) if low <= (1 << exponent) <= high]
    near = [power + change for power in reversed(powers) for change in (1, -1, 0)]
    found = [high, low, low + 1, high - 1, *near]
    return list(dict.fromkeys(length for length in found if low <= length <= high))


def drawn(low: int, high: int, numbers: random.Random) -> int:
    """Draw a length uniformly on a logarithmic scale."""
    return min(high, max(low, round(math.exp(numbers.uniform(math.log(low), math.log(high + 1))) - 0.5)))


def points(ranges: Sequence[SizeRange], count: int, seed: int) -> list[Lengths]:
    """Return lengths to judge at: both ends, then error-prone and random ones in turn."""
    numbers = random.Random(seed)
    lists = [telling(item.low, item.high) for item in ranges]
    found = {tuple(item.high for item in ranges): None, tuple(item.low for item in ranges): None}
    for turn in range(8 * count):
        if len(found) >= count:
            break
        if turn % 2:
            found[tuple(drawn(item.low, item.high, numbers) for item in ranges)] = None
        else:
            found[tuple(numbers.choice(known) for known in lists)] = None
    return list(found)


def measured(ranges: Sequence[SizeRange]) -> list[Lengths]:
    """Return lengths to time at, besides the given one: ends and middle, all ranges changing together."""
    middles = tuple(round(math.sqrt(item.low * item.high)) for item in ranges)
    lows, highs = tuple(item.low for item in ranges), tuple(item.high for item in ranges)
    return list(dict.fromkeys((lows, middles, highs)))
