"""From the record of two calls to one tape: what belongs to a call, what is prepared once, and what has no effect.

The second call is what a user sees from then on, so its steps are the tape's. Memory that it finds already there has
one of two origins. What it only reads was prepared from parameters and constants: the steps that made it become the
prologue. What it also writes is a workspace: every call begins with the steps that made it, up to the first one that
depends on an input, or with empty memory where there are none. A call that reads what an earlier call computed from its
inputs has no tape (`Retained`). Steps that nothing depends on are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import DTYPES
from triton_agent.tools.tape.kernel_effects import WrittenParameters
from triton_agent.tools.tape.recorder import Entry
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Buffer,
    Choice,
    Constant,
    Constexpr,
    Launch,
    Operate,
    Place,
    Step,
    Tape,
    View,
    buffers_in,
    views_in,
)

LAST_CALL = "call 2"
CALLS = ("call 1", LAST_CALL)


class Retained(Exception):
    """A call reads what an earlier call computed from its inputs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a step reads and writes, as numbers of buffers."""

    reads: frozenset[int]
    writes: frozenset[int]
    random: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The steps of a tape."""

    prologue: tuple[Step, ...]
    steps: tuple[Step, ...]


def parts_of(
    entries: Sequence[Entry],
    buffers: Sequence[Buffer],
    results: Iterable[View],
    kept: Iterable[View],
    written: WrittenParameters,
) -> Parts:
    """Cut the record. `results` is what the last call returns, `kept` the module's buffers afterwards."""
    effects = effects_of([entry.step for entry in entries], buffers, written)
    call = [i for i, entry in enumerate(entries) if entry.phase == LAST_CALL]
    earlier = [i for i, entry in enumerate(entries) if entry.phase != LAST_CALL]
    live = _live_steps(call, effects, buffers, {view.buffer for view in (*results, *kept)})
    made = {buffer for i in call for buffer in _created(entries[i].step, effects[i], effects, earlier)}
    used = {buffer for i in live for buffer in effects[i].reads | effects[i].writes} | {
        view.buffer for view in (*results, *kept)
    }
    found = {number for number in used if buffers[number].place is Place.FRESH and number not in made}
    workspaces = {number for number in found if any(number in effects[i].writes for i in live)}
    history = _History(entries, effects, buffers, earlier)
    once: set[int] = set()
    each: set[int] = set()
    for number in found - workspaces:
        prepared = history.preparation(number)
        named = {address.buffer for i in prepared for address in _addresses_in(entries[i].step)}
        (each if named & workspaces else once).update(prepared)  # a workspace lies elsewhere in every call
    for number in workspaces:
        each |= history.initialisation(number)
    begun = {number for i in each for number in effects[i].writes}
    empty = [Allocate(buffer=number) for number in sorted(workspaces - begun)]
    return Parts(
        prologue=tuple(entries[i].step for i in sorted(once)),
        steps=(*empty, *(entries[i].step for i in [*sorted(each), *live])),
    )


def _addresses_in(step: Step) -> list[Address]:
    return [address for _, address in step.relocations] if isinstance(step, Constant) else []


def _created(step: Step, effect: Effect, effects: Sequence[Effect], earlier: Sequence[int]) -> frozenset[int]:
    """Buffers that this step makes."""
    if isinstance(step, (Allocate, Constant)):
        return frozenset({step.buffer})
    if isinstance(step, Operate):
        known = {number for i in earlier for number in effects[i].writes}
        return effect.writes - effect.reads - known
    return frozenset()


def _live_steps(
    call: Sequence[int], effects: Sequence[Effect], buffers: Sequence[Buffer], results: set[int]
) -> list[int]:
    """Steps of the call on which its results, its inputs afterwards or the state afterwards depend."""
    needed = results | {i for i, buffer in enumerate(buffers) if buffer.place is not Place.FRESH}
    live: list[int] = []
    for i in reversed(call):
        if effects[i].writes & needed:
            live.append(i)
            needed |= effects[i].reads | effects[i].writes
    return live[::-1]


class _History:
    """What happened before the last call, and on what it depends."""

    def __init__(
        self, entries: Sequence[Entry], effects: Sequence[Effect], buffers: Sequence[Buffer], earlier: Sequence[int]
    ) -> None:
        self._entries, self._effects, self._buffers, self._earlier = entries, effects, buffers, earlier
        self._dependent = self._find_dependent()

    def _find_dependent(self) -> set[int]:
        """Steps whose outcome depends on the inputs of an earlier call, or on chance in it."""
        tainted = {i for i, buffer in enumerate(self._buffers) if buffer.place is Place.INPUT}
        dependent = set()
        for i in self._earlier:
            effect = self._effects[i]
            if effect.reads & tainted or (effect.random and self._entries[i].phase in CALLS):
                dependent.add(i)
                tainted |= {n for n in effect.writes if self._buffers[n].place is not Place.STATE}
        return dependent

    def preparation(self, number: int) -> set[int]:
        """All steps that made the contents of a buffer, which must not depend on inputs."""
        return self._steps_for([(number, self._earlier[-1] + 1 if self._earlier else 0)])

    def initialisation(self, number: int) -> set[int]:
        """The steps that made a workspace as the first call found it."""
        writers = [i for i in self._earlier if number in self._effects[i].writes]
        first = next((i for i in writers if i in self._dependent), None)
        until = writers[-1] + 1 if first is None else first
        return self._steps_for([(number, until)])

    def _steps_for(self, wanted: list[tuple[int, int]]) -> set[int]:
        needed: set[int] = set()
        while wanted:
            number, until = wanted.pop()
            if self._buffers[number].place is not Place.FRESH:
                continue
            for i in self._earlier:
                if i < until and i not in needed and number in self._effects[i].writes:
                    if i in self._dependent:
                        raise Retained
                    needed.add(i)
                    effect = self._effects[i]
                    wanted += [(read, i) for read in effect.reads if read != number]
                    wanted += [(other, i) for other in effect.writes if other != number]
        return needed


def retained_by(tape: Tape, written: WrittenParameters) -> str:
    """How a call of this tape could leave something behind for the next one, "" if it cannot.

    A tape that comes of `parts_of` leaves nothing but in the state; a forged one might.
    """
    effects = effects_of((*tape.prologue, *tape.steps), tape.buffers, written)
    before, after = effects[: len(tape.prologue)], effects[len(tape.prologue) :]
    written_in_call = {number for effect in after for number in effect.writes}
    prepared = {n for effect in before for n in effect.writes if tape.buffers[n].place is Place.FRESH}
    remade = {step.buffer for step in tape.steps if isinstance(step, (Allocate, Constant))}
    if prepared & (written_in_call | remade):
        return "a call writes into memory that is prepared once"
    if any(tape.buffers[number].place is Place.ARGUMENT for number in written_in_call):
        return "a call writes into a tensor that the constructor was given"
    changed = {n for n in written_in_call if tape.buffers[n].place is Place.STATE}
    changed |= {view.buffer for name, view in tape.state if name in {name for name, _ in tape.rebound}}
    if any(effect.reads & changed for effect in before):
        return "what is prepared once depends on a parameter or buffer that the call changes"
    if any(_bytes_named(tape, number) < tape.buffers[number].size_bytes for number in changed):
        return "a call writes into memory that lies beside a parameter or buffer"
    return ""


def writes_state(tape: Tape, written: WrittenParameters) -> bool:
    """Whether a call may write into parameters or buffers."""
    effects = effects_of(tape.steps, tape.buffers, written)
    return any(tape.buffers[number].place is Place.STATE for effect in effects for number in effect.writes)


def _bytes_named(tape: Tape, number: int) -> int:
    """How much of a buffer belongs to parameters and buffers with a name, gaps between them not counted."""
    spans = sorted(_span(view) for _, view in tape.state if view.buffer == number)
    total = reached = 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _span(view: View) -> tuple[int, int]:
    """First byte, and the one after the last."""
    item_bytes = DTYPES[view.dtype].itemsize
    last = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides)) if view.elements else -1
    return view.offset * item_bytes, (view.offset + last + 1) * item_bytes


def effects_of(steps: Sequence[Step], buffers: Sequence[Buffer], written: WrittenParameters) -> list[Effect]:
    """What each step reads and writes.

    A launch that makes pointers out of numbers may use all memory made by steps, or of the constructor's arguments,
    whose address any launch could have passed on.
    """
    launches = [step for step in steps if isinstance(step, Launch)]
    noted = {address.buffer for step in steps if isinstance(step, Constant) for _, address in step.relocations}
    known = noted | {number for step in launches for number in _given(step)}
    loose = frozenset(number for number in known if buffers[number].place in (Place.FRESH, Place.ARGUMENT))
    effects = []
    for step in steps:
        effect = effect_of(step, written)
        if isinstance(step, Launch) and any(_makes_pointers(choice, written) for choice in step.choices):
            reached = frozenset(_given(step)) | loose
            effect = dataclasses.replace(effect, reads=effect.reads | reached, writes=effect.writes | reached)
        effects.append(effect)
    return effects


def _given(step: Launch) -> set[int]:
    return {number for choice in step.choices for _, value in choice.arguments for number in buffers_in(value)}


def _makes_pointers(choice: Choice, written: WrittenParameters) -> bool:
    types = (value.value for _, value in choice.arguments if isinstance(value, Constexpr))
    return written.makes_pointers(choice.kernel) or any(map(_names_pointer_type, types))


def _names_pointer_type(value: Any) -> bool:
    """Whether a compile-time value, as plain data, holds the type of a pointer."""
    if isinstance(value, dict):
        return str(value.get("dtype", "")).startswith("*") or any(map(_names_pointer_type, value.values()))
    return isinstance(value, list) and any(map(_names_pointer_type, value))


def effect_of(step: Step, written: WrittenParameters) -> Effect:
    """What a step reads and writes. A launch may read through every pointer."""
    if isinstance(step, Allocate):
        return Effect(reads=frozenset(), writes=frozenset({step.buffer}))
    if isinstance(step, Constant):
        read = frozenset(address.buffer for _, address in step.relocations)
        return Effect(reads=read, writes=frozenset({step.buffer}))
    if isinstance(step, Launch):
        reads: set[int] = set()
        writes: set[int] = set()
        for choice in step.choices:
            through = written(choice.kernel)
            for name, argument in choice.arguments:
                reached = set(buffers_in(argument))
                reads |= reached
                writes |= reached if name in through or isinstance(argument, Address) else set()
        return Effect(reads=frozenset(reads), writes=frozenset(writes))
    return _effect_of_operator(step)


def _effect_of_operator(step: Operate) -> Effect:
    schema = schema_of(step.operator)
    reads = {view.buffer for value in (*step.args, *(v for _, v in step.kwargs)) for view in views_in(value)}
    writes = {view.buffer for view in step.results if view is not None}
    results = set(writes)
    arguments = [*zip(schema.arguments, step.args)]
    by_name = {argument.name: argument for argument in schema.arguments}
    arguments += [(by_name[name], value) for name, value in step.kwargs if name in by_name]
    for argument, value in arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            writes |= {view.buffer for view in views_in(value)}
    fresh = results - reads
    random = torch.Tag.nondeterministic_seeded in operator_of(step.operator).tags
    return Effect(reads=frozenset(reads - fresh), writes=frozenset(writes), random=random)


def operator_of(name: str) -> torch._ops.OpOverload:
    """The operator by its name and overload, as in `aten.add.Tensor`."""
    namespace, operator, overload = name.split(".")
    if namespace not in ("aten", "prims"):
        raise ValueError(f"{name} is not an operator of torch's own")
    found = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    assert isinstance(found, torch._ops.OpOverload)
    return found


def schema_of(name: str) -> torch._C.FunctionSchema:
    """Its arguments and results."""
    return operator_of(name)._schema
