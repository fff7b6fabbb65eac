"""Brackets: stretches of a problem's ranges that share one plan, and which of them run the kernels. Needs no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from triton_agent.tools.problem.size_range import Lengths, SizeRange, points
from triton_agent.tools.processes.protocol import TapedModule
from triton_agent.tools.results import Evaluation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Lengths of a problem's ranges that share one plan, from the least to the largest, both included."""

    low: Lengths
    high: Lengths
    modules: Mapping[Lengths, TapedModule]
    """Tapes at some of these lengths."""
    held_out: frozenset[Lengths] = frozenset()
    """Lengths that are held out of the fit, to test it."""
    complete: bool = False
    """True if the tapes cover every length of the bracket."""
    loose: frozenset[tuple[str, str]] = frozenset()
    """Compile-time arguments that become plain ones, each with the identity of its kernel."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RangedPlans:
    """Brackets whose plans were judged to be right."""

    given: Lengths
    """The lengths of the problem's inputs."""
    brackets: tuple[Bracket, ...] = ()
    judged_at: tuple[Lengths, ...] = ()
    left_out: tuple[str, ...] = ()
    """Where the reference runs, and why, a sentence each."""
    evaluation: Evaluation | None = None
    """The verdict on the plans."""


def is_between(low: Lengths, lengths: Lengths, high: Lengths) -> bool:
    return all(first <= length <= last for first, length, last in zip(low, lengths, high))


def is_inside(lengths: Lengths, brackets: Sequence[Bracket]) -> bool:
    """Return whether the lengths lie in one of the brackets."""
    return any(is_between(bracket.low, lengths, bracket.high) for bracket in brackets)


def span(ranges: Sequence[SizeRange], low: Lengths, high: Lengths) -> str:
    """Return a bracket in words: `batch 1 to 256`."""
    return ", ".join(
        f"{one.name} {first}" + (f" to {last}" if last != first else "") for one, first, last in zip(ranges, low, high)
    )


def clipped(brackets: Sequence[Bracket], stretches: Sequence[tuple[Lengths, Lengths]]) -> tuple[Bracket, ...]:
    """Return the parts of the brackets that lie in one of the stretches."""
    found = []
    for bracket in brackets:
        for first, last in stretches:
            low = tuple(map(max, bracket.low, first))
            high = tuple(map(min, bracket.high, last))
            if all(a <= b for a, b in zip(low, high)):
                found.append(dataclasses.replace(bracket, low=low, high=high))
    return tuple(found)


def stretches(measured: Sequence[Lengths], admitted: Sequence[Lengths]) -> list[tuple[Lengths, Lengths]]:
    """Return the stretches between neighbouring measured lengths at which the kernels run.

    With several ranges it is the whole box or nothing.
    """
    if measured and len(measured[0]) > 1:
        ends = tuple(map(min, *measured)), tuple(map(max, *measured))
        return [ends] if set(admitted) == set(measured) and len(measured) > 1 else []
    found: list[tuple[Lengths, Lengths]] = []
    is_open = False
    for lengths in sorted(measured):
        if lengths in admitted:
            found = [*found[:-1], (found[-1][0], lengths)] if is_open else [*found, (lengths, lengths)]
        is_open = lengths in admitted
    return found


def to_judge(ranges: Sequence[SizeRange], brackets: Sequence[Bracket], count: int, seed: int) -> list[Lengths]:
    """Return lengths to judge a file at: the ends of each bracket, powers of two and their neighbours, and random
    ones.
    """
    found = {end: None for bracket in brackets for end in (bracket.high, bracket.low)}
    each = max(2, (count - len(found)) // max(len(brackets), 1)) + 2
    for number, bracket in enumerate(brackets):
        inside = [
            dataclasses.replace(one, low=low, high=high) for one, low, high in zip(ranges, bracket.low, bracket.high)
        ]
        found |= dict.fromkeys(points(inside, each, seed + number))
    return list(found)
