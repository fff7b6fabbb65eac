"""Tapes that are inconsistent or use something forbidden are refused before anything of them is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.tools.tape.tapes import Writing

from triton_agent.tools.processes.tensors import Malformed
from triton_agent.tools.tape.admission import NotAdmitted, UnknownOption, admit
from triton_agent.tools.tape.outline import Outline, outline
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Buffer,
    Choice,
    Constant,
    Launch,
    Named,
    Operate,
    Place,
    Tape,
    View,
    decode,
    encode,
)

X, SHIFT, WEIGHT = torch.zeros(4, 8), torch.zeros(8), torch.zeros(8)
CALL, CONSTRUCTOR = outline([X]), outline(((SHIFT,), {}))
STATE = {"weight": (8,)}
KERNEL = "0" * 32


def honest(change: Callable[[Writing, View], Any] = lambda writing, x: None) -> Tape:
    """A tape as the tracer would send it; `change` adds steps before the last."""
    writing = Writing()
    x, shift = writing.input(X), writing.argument(SHIFT)
    weight = writing.parameter("weight", WEIGHT)
    packed = writing.operate("aten.add.Tensor", weight, shift, prepared=True)
    made = writing.operate("aten.mul.Tensor", x, packed)
    change(writing, x)
    y = writing.allocate(4, 8)
    writing.launch(KERNEL, x_ptr=made, y_ptr=y, n=32, options=(("num_warps", 4),))
    return writing.tape(y, made)


def admitted(tape: Tape, call: Outline = CALL) -> None:
    found = decode(encode(tape))
    assert found == tape
    admit(found, call, CONSTRUCTOR, STATE)


def test_an_honest_tape_is_admitted() -> None:
    admitted(honest())


def refused(tape: Tape, why: str) -> None:
    with pytest.raises(NotAdmitted, match=why):
        admitted(tape)


def changed(tape: Tape, number: int, **changes: Any) -> Tape:
    """Return the tape with the step of this number replaced."""
    steps = list(tape.steps)
    steps[number] = dataclasses.replace(steps[number], **changes)
    return dataclasses.replace(tape, steps=tuple(steps))


BEYOND = {
    "longer": {"shape": (5, 8)},
    "further": {"offset": 1},
    "wider steps": {"strides": (9, 1)},
    "wider elements": {"dtype": "float64"},
    "huge": {"shape": (1 << 40, 1 << 20)},
}


@pytest.mark.parametrize("change", BEYOND.values(), ids=BEYOND)
def test_no_view_reaches_beyond_its_buffer(change: dict[str, Any]) -> None:
    tape = honest()
    far = dataclasses.replace(tape.outputs[0], **change)
    refused(dataclasses.replace(tape, outputs=(far, tape.outputs[1])), "beyond its buffer")
    refused(changed(tape, 0, args=(far, 2.0)), "beyond its buffer")
    refused(changed(tape, 0, results=(far,)), "beyond its buffer")


def test_an_empty_view_reaches_nowhere() -> None:
    tape = honest()
    nothing = dataclasses.replace(tape.outputs[0], shape=(0, 8), offset=1 << 40)
    admitted(dataclasses.replace(tape, outputs=(nothing, tape.outputs[1])))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"buffer": 99}, "a buffer that does not exist"),
        ({"dtype": "float31"}, "a dtype"),
        ({"strides": (8,)}, "different length"),
    ],
)
def test_a_view_names_a_buffer_a_dtype_and_a_stride_for_each_size(change: dict[str, Any], why: str) -> None:
    tape = honest()
    refused(dataclasses.replace(tape, outputs=(dataclasses.replace(tape.outputs[0], **change),) * 2), why)


@pytest.mark.parametrize(
    "operator",
    [
        *("aten.from_file.default", "aten.set_.source_Tensor", "aten.resize_.default", "aten.item.default"),
        *(
            "aten.record_stream.default",
            "aten._print.default",
            "aten.equal.default",
            "aten._local_scalar_dense.default",
        ),
        *("mine.twice.default", "aten.no_such_thing.default", "aten.add.NoOverload", "aten.add", "os.system.default"),
        *("aten.__class__.default", "aten.overloads.default"),
    ],
)
def test_only_operators_of_torch_that_compute_on_tensors_are_admitted(operator: str) -> None:
    refused(changed(honest(), 0, operator=operator), "operator")


def test_an_operator_gets_no_address() -> None:
    tape = honest()
    refused(changed(tape, 0, args=(tape.inputs[0], Address(buffer=0, offset=0))), "of launches only")
    refused(changed(tape, 0, args=((tape.inputs[0], (Address(buffer=0, offset=0),)),)), "of launches only")


def test_memory_is_made_before_it_is_used() -> None:
    tape = honest()
    refused(dataclasses.replace(tape, steps=tape.steps[::-1]), "nothing made")
    refused(dataclasses.replace(tape, steps=()), "nothing made")
    ahead = changed(tape, 0, args=(tape.outputs[0], 2.0))
    refused(ahead, "nothing made")


def test_memory_from_outside_is_not_made_anew() -> None:
    tape = honest()
    for step in (Allocate(buffer=0), Constant(buffer=2, data=b"")):
        refused(dataclasses.replace(tape, steps=(step, *tape.steps)), "allocated again")


def test_the_prologue_touches_no_input() -> None:
    tape = honest()
    moved = dataclasses.replace(tape, prologue=(*tape.prologue, tape.steps[0]), steps=tape.steps[1:])
    refused(moved, "touches an input")
    pointed = Choice(kernel=KERNEL, grid=(1, 1, 1), arguments=(("x", Address(buffer=0, offset=0)),), options=())
    writing_launch = dataclasses.replace(tape.steps[-1], choices=(pointed,))  # type: ignore[arg-type]
    refused(dataclasses.replace(tape, prologue=(writing_launch,)), "touches an input")


def test_a_constant_fits_into_its_buffer_and_names_buffers_that_are_there() -> None:
    def constant(data: bytes, *relocations: tuple[int, Address]) -> Tape:
        def add(writing: Writing, x: View) -> None:
            table = writing.fresh(2, dtype="int64")
            writing.steps.append(Constant(buffer=table.buffer, data=data, relocations=relocations))

        return honest(add)

    admitted(constant(bytes(16), (8, Address(buffer=0, offset=4))))
    refused(constant(bytes(17)), "larger than its buffer")
    refused(constant(bytes(16), (9, Address(buffer=0, offset=0))), "an invalid address")
    refused(constant(bytes(16), (0, Address(buffer=99, offset=0))), "an invalid address")


@pytest.mark.parametrize(
    "options",
    [
        (("extern_libs", "/tmp/evil.bc"),),
        (("extern_libs", (("libdevice", "/tmp/evil.bc"),)),),
        (("num_warps", "4"),),
        (("num_warps", 3),),
        (("num_warps", 64),),
        (("ptx_options", "--evil"),),
        (("ir_override", "/tmp/evil.ttir"),),
        (("grid", 3),),
        (("num_stages", 2.5),),
    ],
)
def test_compiler_options_are_known_numbers(options: tuple[tuple[str, Any], ...]) -> None:
    tape = honest()
    launch = tape.steps[-1]
    choice = dataclasses.replace(launch.choices[0], options=options)  # type: ignore[union-attr]
    with pytest.raises(UnknownOption):
        admitted(changed(tape, len(tape.steps) - 1, choices=(choice,)))


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 65536, 1), (1 << 31, 1, 1), (1 << 30, 1 << 10, 1 << 10)])
def test_grids_are_those_that_a_gpu_takes(grid: tuple[int, int, int]) -> None:
    tape = honest()
    choice = dataclasses.replace(tape.steps[-1].choices[0], grid=grid)  # type: ignore[union-attr]
    refused(changed(tape, len(tape.steps) - 1, choices=(choice,)), "grid")


def test_no_argument_of_a_launch_is_given_twice() -> None:
    tape = honest()
    choice = tape.steps[-1].choices[0]  # type: ignore[union-attr]
    twice = dataclasses.replace(choice, arguments=(*choice.arguments, choice.arguments[0]))
    refused(changed(tape, len(tape.steps) - 1, choices=(twice,)), "given twice")


def test_arguments_lie_as_they_were_given() -> None:
    tape = honest()
    (x,) = tape.inputs
    refused(dataclasses.replace(tape, inputs=(x, x)), "other arguments")
    refused(dataclasses.replace(tape, inputs=()), "other arguments")
    refused(dataclasses.replace(tape, inputs=(dataclasses.replace(x, shape=(2, 16)),)), "another layout")
    refused(
        dataclasses.replace(tape, inputs=(dataclasses.replace(x, buffer=tape.outputs[0].buffer),)), "another purpose"
    )
    longer = (dataclasses.replace(tape.buffers[0], size_bytes=256), *tape.buffers[1:])
    refused(dataclasses.replace(tape, buffers=longer), "another size")


def test_arguments_share_memory_where_they_did_and_nowhere_else() -> None:
    both = outline([X, X[:2]])
    apart = outline([X, torch.zeros(4, 8)[:2]])
    tape = honest()
    (x,) = tape.inputs
    part = dataclasses.replace(x, shape=(2, 8))
    shared = dataclasses.replace(tape, inputs=(x, part))
    admitted(shared, both)
    with pytest.raises(NotAdmitted, match="share memory"):
        admitted(shared, apart)
    two = (*tape.buffers, Buffer(place=Place.INPUT, size_bytes=128))
    separate = dataclasses.replace(tape, buffers=two, inputs=(x, dataclasses.replace(part, buffer=len(tape.buffers))))
    admitted(separate, apart)
    with pytest.raises(NotAdmitted, match="share memory"):
        admitted(separate, both)


def test_state_is_the_references() -> None:
    tape = honest()
    ((_, weight),) = tape.state
    refused(dataclasses.replace(tape, state=(("other", weight),)), "no parameter")
    refused(dataclasses.replace(tape, state=(("weight", tape.inputs[0]),)), "not in memory for state")
    refused(dataclasses.replace(tape, rebound=(("other", weight),)), "no buffer")


@pytest.mark.parametrize(
    "tree",
    [
        {"tensor": 0},
        {"tuple": [{"tensor": 1}, {"tensor": 0}]},
        {"tuple": [{"tensor": 0}, {"tensor": 0}]},
        {"tuple": [{"tensor": 0}, {"tensor": 1}, {"tensor": 2}]},
        {"tuple": 3},
        None,
        3,
    ],
)
def test_the_nesting_names_every_output_once(tree: Any) -> None:
    with pytest.raises(NotAdmitted):
        admitted(dataclasses.replace(honest(), tree=tree))


def test_no_buffer_is_without_bounds() -> None:
    tape = honest()
    huge = (*tape.buffers[:-1], dataclasses.replace(tape.buffers[-1], size_bytes=1 << 50))
    refused(dataclasses.replace(tape, buffers=huge), "too large")


# -- what `decode` refuses -------------------------------------------------------------------------------------------

FORGED: dict[str, Any] = {
    "an unknown record": {"is": "Popen", "args": ["true"]},
    "a field too many": {"is": "Allocate", "buffer": 0, "more": 1},
    "a field too few": {"is": "View", "buffer": 0},
    "a negative number": {"is": "Allocate", "buffer": -1},
    "a true number": {"is": "Allocate", "buffer": True},
    "a number as text": {"is": "Allocate", "buffer": "0"},
    "a negative stride": {
        **{"is": "View", "buffer": 0, "dtype": "float32", "shape": [4], "strides": [-1], "offset": 3},
    },
    "a huge number": {"is": "Buffer", "place": "fresh", "size_bytes": 1 << 70},
    "no such place": {"is": "Buffer", "place": "mine", "size_bytes": 8},
    "no base64": {"is": "bytes", "data": "%%%"},
    "no float": {"is": "float", "data": "a lot"},
    "a plain nest as an argument": {
        **{"is": "Operate", "operator": "aten.add.Tensor", "args": [{"is": "plain", "data": {}}], "kwargs": []},
        "results": [],
    },
    "a step that is none": {**encode(honest()), "steps": [{"is": "Address", "buffer": 0, "offset": 0}]},
    "a launch without a choice": {"is": "Launch", "choices": [], "line": 1},
    "a grid of two": {"is": "Choice", "kernel": "k", "grid": [1, 1], "arguments": [], "options": []},
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_what_no_tracer_writes_is_malformed(data: Any) -> None:
    with pytest.raises(Malformed):
        decode(data)


def test_a_nest_without_end_and_a_tape_without_end_are_malformed() -> None:
    nest: Any = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(Malformed):
        decode(nest)
    with pytest.raises(Malformed):
        decode([0] * 2_000_001)


def test_everything_on_a_tape_survives_json() -> None:
    values = (None, True, 3, -0.0, float("inf"), "x", Named(kind="dtype", name="float16"), (1, (2.5,)))
    step = Operate(operator="aten.add.Tensor", args=values, kwargs=(("alpha", 2),), results=(None,))
    assert decode(encode(step)) == step
    assert str(decode(encode(step)).args[3]) == "-0.0"


def test_names_on_a_tape_are_names_of_torch_and_of_its_operators() -> None:
    """The names are written into the text of a shipped file, where any other text might be executed as code."""
    code = "float32); import os; os.abort("

    def cast(name: str) -> Callable[[Writing, View], Any]:
        def change(writing: Writing, x: View) -> None:
            writing.operate("aten._to_copy.default", x)
            step = writing.steps[-1]
            writing.steps[-1] = dataclasses.replace(step, kwargs=(("dtype", Named(kind="dtype", name=name)),))

        return change

    admitted(honest(cast("float32")))
    refused(honest(cast(code)), "torch has no dtype")
    refused(honest(cast("nn")), "torch has no dtype")
    tape = honest(cast("float32"))
    at = next(i for i, step in enumerate(tape.steps) if isinstance(step, Operate) and step.kwargs)
    refused(changed(tape, at, kwargs=((code, None),)), "no such argument")
    launch = next(i for i, step in enumerate(tape.steps) if isinstance(step, Launch))
    [choice] = tape.steps[launch].choices  # type: ignore[union-attr]
    forged = dataclasses.replace(choice, arguments=((code, 1), *choice.arguments))
    refused(changed(tape, launch, choices=(forged,)), "a name that no parameter can have")


def test_memory_that_nobody_filled_is_made_by_an_allocation_only() -> None:
    def empty(writing: Writing, x: View) -> None:
        writing.operate("aten.empty_like.default", x)

    refused(honest(empty), "memory is made by an allocation")
