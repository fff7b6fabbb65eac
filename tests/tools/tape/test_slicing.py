"""Records written by hand are cut into tapes: steps of the call, steps of the prologue, steps without effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from triton_agent.tools.tape.recorder import Entry
from triton_agent.tools.tape.slicing import CALLS, LAST_CALL, Retained, effect_of, lasting, parts_of
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Buffer,
    Choice,
    Constant,
    Launch,
    Operate,
    Place,
    Step,
    View,
)

INPUT, STATE, *FRESH = range(8)
"""Numbers of buffers: an input, a parameter, and memory allocated by steps."""
BUFFERS = [
    Buffer(place={INPUT: Place.INPUT, STATE: Place.STATE}.get(number, Place.FRESH), size_bytes=16)
    for number in range(8)
]
A, B, C, D, E, F = FRESH


def view(buffer: int) -> View:
    return View(buffer=buffer, dtype="float32", shape=(4,), strides=(1,), offset=0)


def relu(source: int, result: int) -> Operate:
    return Operate(operator="aten.relu.default", args=(view(source),), kwargs=(), results=(view(result),))


def add_(target: int, source: int) -> Operate:
    args = (view(target), view(source))
    return Operate(operator="aten.add_.Tensor", args=args, kwargs=(), results=(view(target),))


def zeros(result: int) -> Operate:
    return Operate(operator="aten.zeros.default", args=((4,),), kwargs=(), results=(view(result),))


def uniform(result: int) -> Operate:
    return Operate(operator="aten.rand.default", args=((4,),), kwargs=(), results=(view(result),))


def launch(*reads: int, writes: Sequence[int] = (), kernel: str = "kernel") -> Launch:
    arguments = [(f"in{n}", view(n)) for n in reads] + [(f"out{n}", view(n)) for n in writes]
    return Launch(choices=(Choice(kernel=kernel, grid=(1, 1, 1), arguments=tuple(arguments), options=()),), line=0)


class Written:
    """A kernel set in which kernels write through `out`, and the kernel `k` computes pointers from numbers."""

    def __call__(self, kernel: str) -> frozenset[str]:
        return frozenset(f"out{n}" for n in range(8))

    def makes_pointers(self, kernel: str) -> bool:
        return kernel == "k"


written: Any = Written()


class Parts(NamedTuple):
    prologue: tuple[Step, ...]
    steps: tuple[Step, ...]


def cut(
    constructor: Sequence[Step], first: Sequence[Step], second: Sequence[Step], *results: int, kept: Sequence[int] = ()
) -> Parts:
    phases = ("construct", *CALLS)
    steps = (constructor, first, second)
    entries = [Entry(step=step, phase=phase) for phase, group in zip(phases, steps) for step in group]
    return Parts(*parts_of(entries, BUFFERS, [view(n) for n in (*results, *kept)], written))


def test_the_second_call_is_the_tape() -> None:
    call = [Allocate(buffer=B), launch(INPUT, writes=[B])]
    assert cut([], [Allocate(buffer=A), launch(INPUT, writes=[A])], call, B) == Parts(prologue=(), steps=tuple(call))


def test_steps_that_nothing_depends_on_are_left_out() -> None:
    useless = [zeros(A), relu(INPUT, C), launch(INPUT, writes=[A])]
    assert cut([], [], [*useless, relu(INPUT, B)], B).steps == (relu(INPUT, B),)


def test_an_operator_that_changes_an_input_or_the_state_always_counts() -> None:
    changes = (add_(INPUT, INPUT), add_(STATE, INPUT))
    assert cut([], [], [*changes, relu(INPUT, B)], B).steps == (*changes, relu(INPUT, B))


def test_a_value_that_is_overwritten_halfway_is_kept_as_it_depends_on_both() -> None:
    steps = (zeros(B), launch(INPUT, writes=[B]), add_(B, INPUT))
    assert cut([], [], steps, B).steps == steps


@pytest.mark.parametrize("where", ["construct", "first"])
def test_what_is_made_of_parameters_alone_is_prepared_once(where: str) -> None:
    packing = [relu(STATE, A), relu(A, C)]
    constructor, first = (packing, []) if where == "construct" else ([], packing)
    parts = cut(
        constructor, [*first, launch(C, INPUT, writes=[B])], [Allocate(buffer=D), launch(C, INPUT, writes=[D])], D
    )
    assert parts.prologue == tuple(packing)
    assert parts.steps == (Allocate(buffer=D), launch(C, INPUT, writes=[D]))


def test_only_what_the_call_uses_is_prepared() -> None:
    assert cut([relu(STATE, A), relu(STATE, C)], [], [relu(A, B)], B).prologue == (relu(STATE, A),)


def test_a_workspace_begins_every_call_as_the_first_one_found_it() -> None:
    call = [launch(INPUT, A, writes=[A, B])]
    parts = cut([zeros(A), add_(A, STATE)], [zeros(C), *call], [Allocate(buffer=B), *call], B)
    assert parts.prologue == ()
    assert parts.steps == (zeros(A), add_(A, STATE), Allocate(buffer=B), *call)


def test_a_workspace_made_in_the_first_call_is_made_in_every_call() -> None:
    call = [launch(INPUT, A, writes=[A, B])]
    parts = cut([], [zeros(A), *call], [Allocate(buffer=B), *call], B)
    assert parts.steps == (zeros(A), Allocate(buffer=B), *call)


def test_a_workspace_that_held_nothing_begins_empty() -> None:
    call = [launch(INPUT, A, writes=[A]), launch(A, writes=[B])]
    parts = cut([Allocate(buffer=A)], [Allocate(buffer=C), *call], [Allocate(buffer=B), *call], B)
    assert parts.steps[0] == Allocate(buffer=A) and parts.steps[-2:] == tuple(call)


def test_what_an_earlier_call_computed_of_its_inputs_may_not_be_read() -> None:
    with pytest.raises(Retained):
        cut([], [relu(INPUT, A)], [launch(A, INPUT, writes=[B])], B)
    with pytest.raises(Retained):
        cut([], [relu(INPUT, A), relu(A, C)], [], C)


def test_chance_in_an_earlier_call_may_not_be_kept_and_in_the_constructor_may() -> None:
    assert cut([uniform(A)], [], [launch(A, INPUT, writes=[B]), Allocate(buffer=B)], B).prologue == (uniform(A),)
    with pytest.raises(Retained):
        cut([], [uniform(A)], [launch(A, INPUT, writes=[B])], B)


def test_state_that_an_earlier_call_changed_is_given_again_and_holds_nothing_back() -> None:
    call = [add_(STATE, INPUT), relu(STATE, B)]
    assert cut([], [add_(STATE, INPUT), relu(STATE, C)], call, B).steps == tuple(call)


def test_a_buffer_of_the_module_that_is_bound_anew_counts_as_a_result() -> None:
    assert cut([], [], [relu(INPUT, A), relu(INPUT, B)], B, kept=[A]).steps == (relu(INPUT, A), relu(INPUT, B))


def test_a_launch_writes_through_the_addresses_in_a_table() -> None:
    def table(*buffers: int) -> Constant:
        named = tuple((8 * at, Address(buffer=number, offset=0)) for at, number in enumerate(buffers))
        return Constant(buffer=C, data=bytes(8 * len(buffers)), relocations=named)

    arguments = (("table", view(C)),)
    pointed = Launch(choices=(Choice(kernel="k", grid=(1, 1, 1), arguments=arguments, options=()),), line=0)
    steps = (Allocate(buffer=B), table(INPUT, B), pointed)
    assert cut([], [], steps, B).steps == steps
    moved = (("table", view(D)),)
    copied = Launch(choices=(Choice(kernel="k", grid=(1, 1, 1), arguments=moved, options=()),), line=0)
    steps = (Allocate(buffer=B), table(INPUT, B), relu(C, D), copied)
    assert cut([], [], steps, B).steps == steps


def test_a_launch_writes_where_an_address_leads() -> None:
    arguments = (("x", Address(buffer=INPUT, offset=0)), ("y", Address(buffer=B, offset=0)))
    pointed = Launch(choices=(Choice(kernel="k", grid=(1, 1, 1), arguments=arguments, options=()),), line=0)
    assert cut([], [], [Allocate(buffer=B), pointed], B).steps == (Allocate(buffer=B), pointed)


def test_memory_that_a_table_leads_to_is_no_memory_that_lasts() -> None:
    table = Constant(buffer=C, data=bytes(8), relocations=((0, Address(buffer=A, offset=0)),))
    call = [launch(INPUT, C, writes=[B], kernel="k")]
    parts = cut([zeros(A), table], [Allocate(buffer=D), *call], [Allocate(buffer=B), *call], B)
    assert zeros(A) in parts.steps and zeros(A) not in parts.prologue


def test_a_table_with_an_address_of_an_earlier_calls_input_may_not_be_kept() -> None:
    table = Constant(buffer=C, data=bytes(8), relocations=((0, Address(buffer=INPUT, offset=0)),))
    with pytest.raises(Retained):
        cut([], [table], [Allocate(buffer=B), launch(C, writes=[B])], B)


def test_effects_of_operators_come_from_their_schemas() -> None:
    effect = effect_of(add_(A, B), written)
    assert (effect.reads, effect.writes, effect.random) == ({A, B}, {A}, False)
    fresh = effect_of(relu(A, B), written)
    assert (fresh.reads, fresh.writes) == ({A}, {B})
    out = Operate(
        operator="aten.add.out",
        args=(view(A), view(B)),
        kwargs=(("out", view(C)),),
        results=(view(C),),
    )
    assert effect_of(out, written).writes == {C}
    assert effect_of(uniform(A), written).random
    assert CALLS[-1] == LAST_CALL


def in_a_later_trace(earlier: Sequence[Step], call: Sequence[Step], *results: int) -> Parts:
    before = [Entry(step=step, phase=LAST_CALL) for step in earlier]
    kept, foreign = lasting(before, BUFFERS, written, ())
    entries = [*kept, *(Entry(step=step, phase=LAST_CALL) for step in call)]
    return Parts(*parts_of(entries, BUFFERS, [view(n) for n in results], written, foreign - {INPUT, STATE}))


def test_constants_that_a_file_keeps_from_an_earlier_trace_are_prepared_once() -> None:
    earlier = [zeros(A), relu(INPUT, C)]
    call = [Allocate(buffer=B), launch(INPUT, A, writes=[B])]
    assert in_a_later_trace(earlier, call, B) == Parts(prologue=(zeros(A),), steps=tuple(call))


@pytest.mark.parametrize("source", [INPUT, STATE])
def test_what_a_file_keeps_of_another_modules_tensors_has_no_tape(source: int) -> None:
    with pytest.raises(Retained):
        in_a_later_trace([relu(source, A)], [Allocate(buffer=B), launch(INPUT, A, writes=[B])], B)


def test_a_workspace_that_a_file_keeps_begins_as_it_was_made() -> None:
    earlier = [zeros(A), launch(INPUT, writes=[A])]
    call = [launch(INPUT, A, writes=[A]), relu(A, B)]
    assert in_a_later_trace(earlier, call, B).steps == (zeros(A), *call)


def test_an_input_of_an_earlier_trace_has_no_tape() -> None:
    entries = [Entry(step=relu(INPUT, B), phase=phase) for phase in CALLS]
    with pytest.raises(Retained):
        parts_of(entries, BUFFERS, [view(B)], written, {INPUT})
