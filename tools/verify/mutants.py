"""Mutants of the original: the same module with one operator call of it got wrong.

The original is run once under an observer, which offers every mistake that fits each call; a bounded choice, spread
over kinds and operators, is kept. A mutant is then the original run under a mode that makes that one mistake, at the
same occurrence of the same operator, whatever the inputs and shapes. Calls that no output and no buffer depends on are
left alone. Not covered: mistakes in more than one place, and in what is computed outside torch.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.verify import axis_mistakes, index_mistakes, mistakes, number_mistakes, swap_mistakes
from triton_agent.tools.verify.mistakes import Mistake
from triton_agent.tools.verify.operator_call import Call, call_of, results_of, writes_to_first
from triton_agent.tools.verify.precision_mistakes import Rounding, imprecise
from triton_agent.tools.worth import Family

MOST_MUTANTS = 60
"""Each is a few runs of the original on a CPU."""
RUNAWAY_FACTOR = 20
"""A mutant that calls so many times as many operators as the original is in a loop that it does not leave."""

SOURCES: tuple[mistakes.Source, ...] = (
    mistakes.dropped,
    mistakes.affine,
    swap_mistakes.swapped,
    number_mistakes.constants,
    index_mistakes.off_by_one,
    axis_mistakes.wrong_axis,
    axis_mistakes.truncated,
)

Place = tuple[str, int]
"""An operator's name, and which of its calls."""


class RanAway(Exception):
    """A mutant does not end."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """The original with one mistake."""

    place: Place
    mistake: Mistake
    calls_at_most: int

    @property
    def family(self) -> Family:
        return self.mistake.family

    @property
    def what(self) -> str:
        which = f" (call {self.place[1] + 1})" if self.place[1] else ""
        return self.mistake.what + which


class _Mode(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts the calls of each operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: collections.Counter[str] = collections.Counter()

    def place(self, call: Call) -> Place:
        self.seen[call.name] += 1
        return call.name, self.seen[call.name] - 1


class Mutation(_Mode):  # type: ignore[no-untyped-call]
    """Inside, one call goes wrong."""

    def __init__(self, mutant: Mutant, *, compare: bool = False) -> None:
        super().__init__()
        self.mutant = mutant
        self.compare = compare
        self.changed = False
        """Whether the mistake gave other values than the right call; known only where `compare` was asked for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = call_of(func, args, kwargs or {})
        if call is None or self.place(call) != self.mutant.place:
            if self.seen.total() > self.mutant.calls_at_most:
                raise RanAway
            return func(*args, **(kwargs or {}))
        right = call.run() if self.compare else None
        result = self.mutant.mistake.result(call)
        if self.compare:
            self.changed = not same_bits(right, result)
        return _put_in_place(func, args, result)


def _put_in_place(func: Any, args: Any, result: Any) -> Any:
    return args[0].copy_(result) if writes_to_first(func) else result


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal, NaN being equal to NaN."""
    ours, theirs = results_of(a), results_of(b)
    return len(ours) == len(theirs) and all(
        x.shape == y.shape and x.dtype == y.dtype and torch.equal(x.nan_to_num(), y.nan_to_num())
        for x, y in zip(ours, theirs)
    )


@dataclasses.dataclass(slots=True, kw_only=True)
class _Event:
    """One call: the memory it read and made, and what could go wrong in it."""

    reads: set[int]
    makes: list[int]
    writes: set[int]
    place: Place | None
    mistakes: list[Mistake]
    looks: bool


class Observer(_Mode):  # type: ignore[no-untyped-call]
    """Runs along with the original and notes what could go wrong where."""

    def __init__(self, roundings: tuple[Rounding, ...]) -> None:
        super().__init__()
        self.roundings = roundings
        self.events: list[_Event] = []
        self._kept: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = call_of(func, args, kwargs)
        read = results_of([*args, *kwargs.values()])
        if call is None:
            result, place, found = func(*args, **kwargs), None, []
        else:
            place = self.place(call)
            result = call.run()
            found = list(self._mistakes(call, result))
            result = _put_in_place(func, args, result)
        self._kept += [*read, *results_of(result)]
        self.events.append(
            _Event(
                reads={memory_of(tensor) for tensor in read},
                makes=[memory_of(tensor) for tensor in results_of(result)],
                writes=_written(func, args, kwargs),
                place=place,
                mistakes=found,
                looks=not results_of(result) and bool(read),
            )
        )
        return result

    def _mistakes(self, call: Call, result: Any) -> Iterator[Mistake]:
        if not call.tensors and "tensors" not in call.arguments:
            return
        for source in SOURCES:
            yield from source(call, result)
        yield from imprecise(call, self.roundings)

    def mutants(self, outputs: list[torch.Tensor]) -> list[Mutant]:
        """Of the calls that these outputs, or a look at values, depend on; in the order of the calls."""
        live = {memory_of(tensor) for tensor in outputs}
        found: list[Mutant] = []
        most = RUNAWAY_FACTOR * len(self.events) + 1000
        for event in reversed(self.events):
            if not (event.looks or live & {*event.makes, *event.writes}):
                continue
            found += [
                Mutant(place=event.place, mistake=mistake, calls_at_most=most)
                for mistake in reversed(event.mistakes)
                if event.place is not None
                if mistake.output is None or mistake.output >= len(event.makes) or event.makes[mistake.output] in live
            ]
            live |= event.reads
        return found[::-1]


def memory_of(tensor: torch.Tensor) -> int:
    """Which memory a tensor lies in; unique while the tensor is kept."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # sparse and the like have no storage of their own


def _written(func: Any, args: Any, kwargs: Any) -> set[int]:
    """Memory that the schema says is overwritten."""
    schema = func._schema.arguments
    given = [*zip(schema, args), *((a, kwargs[a.name]) for a in schema if a.name in kwargs)]
    return {
        memory_of(tensor)
        for argument, value in given
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in results_of(value)
    }


def spread(mutants: list[Mutant]) -> list[Mutant]:
    """An order in which any first few are a fair choice: families take turns, and within one the operators do."""
    queues: dict[Family, list[Mutant]] = {family: [] for family in Family}
    turns: collections.Counter[tuple[str, str]] = collections.Counter()
    ranked: list[tuple[int, int, Mutant]] = []
    for order, mutant in enumerate(mutants):
        key = (mutant.place[0], mutant.mistake.what)
        ranked.append((turns[key], order, mutant))
        turns[key] += 1
    for _, _, mutant in sorted(ranked, key=lambda item: item[:2]):
        queues[mutant.family].append(mutant)
    rounds = itertools.zip_longest(*queues.values())
    return [mutant for taken in rounds for mutant in taken if mutant is not None]
