"""Cuts the record of two calls into a tape: the steps of a call, and the steps done once before.

The second call behaves like every later call, so its steps become the tape's. It may use memory from before. If it only
reads such memory, the steps that made it become the prologue. If it also writes it, the memory is a workspace: every
call begins with the steps that made it, up to the first one that depends on an input, or with unwritten memory if there
are none. A call that reads values which an earlier call computed from its inputs has no tape (`Retained`). Steps that
nothing depends on are left out.

One process traces a candidate in several forms of call, each with a new module. Objects that the file keeps outside the
module, such as a table of constants in a global variable, may come from an earlier trace. The steps of that trace that
depend on nothing from outside are kept for this (`lasting`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import torch

from triton_agent.tools.kernels.effects import WrittenParameters
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
    arguments_of,
    buffers_in,
    views_in,
)

LAST_CALL = "call 2"
CALLS = ("call 1", LAST_CALL)
EARLIER_TRACE = "earlier trace"


class Retained(Exception):
    """A call reads values computed from the inputs of an earlier call, or from another module's parameters."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The buffers that a step reads and writes, by number."""

    reads: frozenset[int]
    writes: frozenset[int]
    random: bool = False


def lasting(
    entries: Sequence[Entry], buffers: Sequence[Buffer], written: WrittenParameters, foreign: Collection[int]
) -> tuple[list[Entry], set[int]]:
    """Return the steps of a trace that later traces may depend on, and the buffers whose contents they do not make.

    `foreign` are such buffers of earlier traces.
    """
    outside = {*foreign, *(i for i, buffer in enumerate(buffers) if buffer.place is not Place.FRESH)}
    effects = effects_of([entry.step for entry in entries], buffers, written)
    kept: list[Entry] = []
    for entry, effect in zip(entries, effects):
        step = entry.step
        bound = isinstance(step, Launch) or (isinstance(step, Constant) and bool(step.relocations))
        if bound or effect.random or (effect.reads | effect.writes) & outside:
            outside |= effect.writes
        else:
            kept.append(Entry(step=step, phase=EARLIER_TRACE))
    return kept, outside


def parts_of(
    entries: Sequence[Entry],
    buffers: Sequence[Buffer],
    results: Sequence[View],
    written: WrittenParameters,
    foreign: Collection[int] = (),
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Cut the record into a prologue and the steps of a call.

    `results` are the tensors that the last call returns, and those that it bound the module's buffers to. `foreign` are
    buffers whose contents come from another trace and are made by no step here.
    """
    effects = effects_of([entry.step for entry in entries], buffers, written)
    call = [i for i, entry in enumerate(entries) if entry.phase == LAST_CALL]
    earlier = [i for i, entry in enumerate(entries) if entry.phase != LAST_CALL]
    returned = {view.buffer for view in results}
    live, needed = [], returned | {i for i, buffer in enumerate(buffers) if buffer.place is not Place.FRESH}
    for i in reversed(call):  # keep steps that results depend on, or inputs and state after the call
        if effects[i].writes & needed:
            live.append(i)
            needed |= effects[i].reads | effects[i].writes
    live.reverse()
    known = {number for i in earlier for number in effects[i].writes}
    made: set[int] = set()
    for i in call:
        if isinstance(entries[i].step, (Allocate, Constant)):
            made |= effects[i].writes
        elif isinstance(entries[i].step, Operate):
            made |= effects[i].writes - effects[i].reads - known
    used = returned.union(*(effects[i].reads | effects[i].writes for i in live))
    if any(number in foreign and buffers[number].place is not Place.FRESH for number in used):
        raise Retained
    found = {number for number in used if buffers[number].place is Place.FRESH and number not in made}
    workspaces = {number for number in found if any(number in effects[i].writes for i in live)}
    history = _History(entries, effects, buffers, earlier)
    once: set[int] = set()
    each: set[int] = set()
    for number in found - workspaces:
        if number in foreign:
            raise Retained
        prepared = history.preparation(number)
        constants = (entries[i].step for i in prepared if isinstance(entries[i].step, Constant))
        named = {address.buffer for step in constants for _, address in step.relocations}  # type: ignore[union-attr]
        (each if named & workspaces else once).update(prepared)  # a workspace has another address in each call
    for number in workspaces:
        each |= history.initialisation(number)
    begun = {number for i in each for number in effects[i].writes}
    empty = [Allocate(buffer=number) for number in sorted(workspaces - begun)]
    steps = (*empty, *(entries[i].step for i in [*sorted(each), *live]))
    return tuple(entries[i].step for i in sorted(once)), steps


class _History:
    """The steps before the last call, and their dependencies."""

    def __init__(
        self, entries: Sequence[Entry], effects: Sequence[Effect], buffers: Sequence[Buffer], earlier: Sequence[int]
    ) -> None:
        self._effects, self._buffers, self._earlier = effects, buffers, earlier
        self._dependent: set[int] = set()
        """Steps whose result depends on the inputs of an earlier call, or on random numbers drawn in it."""
        tainted = {i for i, buffer in enumerate(buffers) if buffer.place is Place.INPUT}
        for i in earlier:
            if effects[i].reads & tainted or (effects[i].random and entries[i].phase in CALLS):
                self._dependent.add(i)
                tainted |= {n for n in effects[i].writes if buffers[n].place is not Place.STATE}

    def preparation(self, number: int) -> set[int]:
        """Return all steps that made the contents of a buffer; raise `Retained` if they depend on inputs."""
        return self._steps_for([(number, self._earlier[-1] + 1 if self._earlier else 0)])

    def initialisation(self, number: int) -> set[int]:
        """Return the steps that made a workspace as it was before the first call."""
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
    """Return how a call of this tape could leave values behind for the next call, or "" if it cannot.

    A tape made by `parts_of` can do so only in the state; a forged tape might do so elsewhere.
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
    effects = effects_of(tape.steps, tape.buffers, written)
    return any(tape.buffers[number].place is Place.STATE for effect in effects for number in effect.writes)


def _bytes_named(tape: Tape, number: int) -> int:
    """Return how many bytes of a buffer belong to named parameters and buffers, without the gaps between them."""
    spans = sorted((view.begin_bytes, view.end_bytes) for _, view in tape.state if view.buffer == number)
    total = reached = 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def effects_of(steps: Sequence[Step], buffers: Sequence[Buffer], written: WrittenParameters) -> list[Effect]:
    """Return the effect of each step.

    A launch that makes pointers from numbers may use the memory of every address passed to any launch, if a step made
    that memory or it belongs to the constructor's arguments: the address may have been stored and passed on.
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
    """Return True if a compile-time value, as plain data, contains a pointer type."""
    if isinstance(value, dict):
        return str(value.get("dtype", "")).startswith("*") or any(map(_names_pointer_type, value.values()))
    return isinstance(value, list) and any(map(_names_pointer_type, value))


def effect_of(step: Step, written: WrittenParameters) -> Effect:
    """Return the buffers that a step reads and writes. A launch may read through every pointer."""
    reads: set[int] = set()
    writes: set[int] = set()
    if isinstance(step, (Allocate, Constant)):
        relocations = step.relocations if isinstance(step, Constant) else ()
        reads, writes = {address.buffer for _, address in relocations}, {step.buffer}
        return Effect(reads=frozenset(reads), writes=frozenset(writes))
    if isinstance(step, Launch):
        for choice in step.choices:
            through = written(choice.kernel)
            for name, argument in choice.arguments:
                reached = set(buffers_in(argument))
                reads |= reached
                writes |= reached if name in through or isinstance(argument, Address) else set()
        return Effect(reads=frozenset(reads), writes=frozenset(writes))
    operator = operator_of(step.operator)
    by_name = {argument.name: argument for argument in operator._schema.arguments}
    given = [*zip(operator._schema.arguments, step.args)]
    given += [(by_name[name], value) for name, value in step.kwargs if name in by_name]
    reads = {view.buffer for view in arguments_of(step)}
    writes = {view.buffer for view in step.results if view is not None}
    fresh = writes - reads
    for declared, value in given:
        if declared.alias_info is not None and declared.alias_info.is_write:
            writes |= {view.buffer for view in views_in(value)}
    random = torch.Tag.nondeterministic_seeded in operator.tags
    return Effect(reads=frozenset(reads - fresh), writes=frozenset(writes), random=random)


def operator_of(name: str) -> torch._ops.OpOverload:
    """Return the operator with this name and overload, for example `aten.add.Tensor`."""
    namespace, operator, overload = name.split(".")
    if namespace not in ("aten", "prims"):
        raise ValueError(f"{name} is not an operator of torch's own")
    found = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    assert isinstance(found, torch._ops.OpOverload)
    return found


def schema_of(name: str) -> torch._C.FunctionSchema:
    return operator_of(name)._schema
