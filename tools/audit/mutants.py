"""Mutants of the reference: the same module with one mistake in one operator call.

The reference runs once under `Observer`, which lists every mistake that fits a call. `spread` orders them so that any
prefix is a fair choice. A mutant is the reference run under `Mutation`, which makes its one mistake at the same
occurrence of the same operator, with any inputs and shapes. Calls that no output and no buffer depends on are ignored.
Not covered: several mistakes at once, and mistakes in computation outside torch.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Any

import torch

from triton_agent.tools.audit.mistakes import Mistake, Rounding, mistakes_in
from triton_agent.tools.audit.operator_call import OperatorCall, call_of, writes_to_first
from triton_agent.tools.audit.report import Family
from triton_agent.tools.dispatch_modes import UncompiledMode
from triton_agent.tools.reference.input_tensors import tensors_in

RUNAWAY_FACTOR = 20
"""A mutant that calls this many times as many operators as the reference is in an endless loop."""

Place = tuple[str, int]
"""An operator's name, and the number of earlier calls of it."""


class RanAway(Exception):
    """The mutant runs in an endless loop."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """The reference with one mistake."""

    place: Place
    family: Family
    mistake: Mistake
    calls_at_most: int

    @property
    def what(self) -> str:
        return self.mistake.what + (f" (call {self.place[1] + 1})" if self.place[1] else "")


class _CallCounter(UncompiledMode):  # type: ignore[no-untyped-call]
    """Counts the calls of each operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: collections.Counter[str] = collections.Counter()

    def place(self, call: OperatorCall) -> Place:
        self.seen[call.name] += 1
        return call.name, self.seen[call.name] - 1


class Mutation(_CallCounter):  # type: ignore[no-untyped-call]
    """Makes a mutant's mistake in the code that runs inside."""

    def __init__(self, mutant: Mutant, *, compare: bool = False) -> None:
        super().__init__()
        self.mutant = mutant
        self.compare = compare
        self.changed = False
        """True if the mistake changed a value; only set with `compare`."""

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
        return args[0].copy_(result) if writes_to_first(func) else result


def same_bits(a: Any, b: Any) -> bool:
    """Return True if two results are equal, with NaN equal to NaN."""
    ours, theirs = list(tensors_in(a)), list(tensors_in(b))
    return len(ours) == len(theirs) and all(
        x.shape == y.shape and x.dtype == y.dtype and torch.equal(x.nan_to_num(), y.nan_to_num())
        for x, y in zip(ours, theirs)
    )


@dataclasses.dataclass(slots=True, kw_only=True)
class _Event:
    """One call: the memory it read, made and wrote, and the mistakes that fit it."""

    reads: set[int]
    makes: list[int]
    writes: set[int]
    place: Place | None
    mistakes: list[tuple[Family, Mistake]]
    looks: bool
    """True if it read values but returned no tensor, as `.item()` does: Python may branch on the value."""


class Observer(_CallCounter):  # type: ignore[no-untyped-call]
    """Lists the mistakes that fit the calls inside."""

    def __init__(self, roundings: tuple[Rounding, ...]) -> None:
        super().__init__()
        self.roundings = roundings
        self.events: list[_Event] = []
        self._kept: list[torch.Tensor] = []
        """Every tensor seen, so that no memory is reused and `_memory_of` stays unique."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = call_of(func, args, kwargs)
        read = list(tensors_in([*args, *kwargs.values()]))
        place, mistakes = None, []
        if call is None:
            result = func(*args, **kwargs)
        else:
            place, result = self.place(call), call.run()
            mistakes = list(mistakes_in(call, result, self.roundings))
            result = args[0].copy_(result) if writes_to_first(func) else result
        made = list(tensors_in(result))
        self._kept += [*read, *made]
        schema = func._schema.arguments
        arguments = [*zip(schema, args), *((a, kwargs[a.name]) for a in schema if a.name in kwargs)]
        written = [value for argument, value in arguments if argument.alias_info and argument.alias_info.is_write]
        self.events.append(
            _Event(
                reads={_memory_of(tensor) for tensor in read},
                makes=[_memory_of(tensor) for tensor in made],
                writes={_memory_of(tensor) for tensor in tensors_in(written)},
                place=place,
                mistakes=mistakes,
                looks=bool(read) and not made,
            )
        )
        return result

    def mutants(self, outputs: list[torch.Tensor]) -> list[Mutant]:
        """Return the mutants of calls that these outputs, or reads of values, depend on, in the order of the calls."""
        live = {_memory_of(tensor) for tensor in outputs}
        found: list[Mutant] = []
        most = RUNAWAY_FACTOR * len(self.events) + 1000
        for event in reversed(self.events):
            if not (event.looks or live & {*event.makes, *event.writes}):
                continue
            found += [
                Mutant(place=event.place, family=family, mistake=mistake, calls_at_most=most)
                for family, mistake in reversed(event.mistakes)
                if event.place is not None
                if mistake.output is None or mistake.output >= len(event.makes) or event.makes[mistake.output] in live
            ]
            live |= event.reads
        return found[::-1]


def _memory_of(tensor: torch.Tensor) -> int:
    """Return a number for a tensor's storage, which is unique while the tensor is kept."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)  # sparse and similar tensors have no storage of their own


def spread(mutants: list[Mutant]) -> list[Mutant]:
    """Order the mutants so that families alternate, and operators within a family."""
    queues: dict[Family, list[Mutant]] = {family: [] for family in Family}
    turns: collections.Counter[tuple[str, str]] = collections.Counter()
    ranked: list[tuple[int, int, Mutant]] = []
    for order, mutant in enumerate(mutants):
        key = (mutant.place[0], mutant.mistake.what)
        ranked.append((turns[key], order, mutant))
        turns[key] += 1
    for _, _, mutant in sorted(ranked, key=lambda item: item[:2]):
        queues[mutant.family].append(mutant)
    return [mutant for taken in itertools.zip_longest(*queues.values()) for mutant in taken if mutant is not None]
