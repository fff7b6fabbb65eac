"""Replaying a tape gives what its steps say; while outputs are checked, fresh memory is poisoned and guarded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tools.tape.tapes import Writing

from triton_agent.tools.executor.kernels import Loader
from triton_agent.tools.executor.memory import GUARD_BYTES, POISON, Block, Fresh, make_block, poison, poisoned
from triton_agent.tools.executor.program import OutOfPlace, Program, Run
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.tape import Address, Choice, Constant, Descriptor, Named, Tape, View

X = torch.arange(8.0).reshape(2, 4)
CHECKED = Run(fresh=Fresh(device="cpu", salt=0))
GUARDED = Run(fresh=Fresh(device="cpu", salt=0, guarded=True))
TIMED = Run(fresh=Fresh(device="cpu"))


class Played:
    """Calls a Python function in place of each kernel, chosen by the name of the kernel, with keyword arguments."""

    def __init__(self, **kernels: Callable[..., None]) -> None:
        self.kernels = kernels
        self.prepared: list[Choice] = []
        self.revealed: list[Block] = []

    def constant(self, value: Any) -> Any:
        return value

    def prepare(self, choice: Choice, given: list[Any]) -> Callable[[list[Any]], None]:
        self.prepared.append(choice)
        kernel, names = self.kernels[choice.kernel], [name for name, _ in choice.arguments]
        return lambda given: kernel(**dict(zip(names, given)))

    def choose(self, launches: Sequence[Callable[[], None]], restored: Callable[[], None]) -> int:
        for launch in launches:
            launch()
            restored()
        return len(launches) - 1

    def begin(self, order: int | None = None) -> None: ...

    def computed(self, tensor: torch.Tensor, sources: Sequence[torch.Tensor] | None) -> None: ...

    def reveal(self, block: Block) -> None:
        self.revealed.append(block)

    def launches(self) -> list[dict[str, Any]]:
        return []

    def is_unsupported(self) -> bool:
        return False

    def resources(self) -> list[dict[str, Any]]:
        return []


def program(tape: Tape, launcher: Played | None = None, **more: Any) -> Program:
    return Program(tape, launcher or Played(), device="cpu", **more)


def double(x: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(2 * x)


def doubling() -> Tape:
    writing = Writing()
    x, y = writing.input(X), writing.allocate(2, 4)
    writing.launch("double", x=x, y=y)
    return writing.tape(y)


def test_a_launch_fills_the_memory_that_the_tape_allocates() -> None:
    (y,) = program(doubling(), Played(double=double)).call([X.clone()], CHECKED)
    assert torch.equal(y, 2 * X)


def test_a_kernel_is_specialised_once_for_all_calls() -> None:
    launcher = Played(double=double)
    made = program(doubling(), launcher)
    outputs = [made.call([X + number], CHECKED)[0] for number in range(3)]
    assert len(launcher.prepared) == 1
    assert all(torch.equal(y, 2 * (X + number)) for number, y in enumerate(outputs)), "calls share memory"


@pytest.mark.parametrize("dtype", POISON, ids=str)
@pytest.mark.parametrize("run", [CHECKED, GUARDED], ids=["plain", "guarded"])
def test_what_no_kernel_writes_is_recognised(dtype: torch.dtype, run: Run) -> None:
    def half(y: torch.Tensor) -> None:
        y[0] = 0

    writing = Writing()
    y = writing.allocate(2, 4, dtype=next(name for name, kind in DTYPES.items() if kind is dtype))
    writing.launch("half", y=y)
    (found,) = program(writing.tape(y), Played(half=half)).call([], run)
    assert poisoned(found).tolist() == [[False] * 4, [True] * 4]


def test_bytes_that_no_kernel_writes_differ_with_the_salt() -> None:
    for dtype in (torch.uint8, torch.int8, torch.bool, torch.float8_e4m3fn):
        one, other = (torch.zeros(4, dtype=dtype) for _ in range(2))
        poison(one, 0)
        poison(other, 1)
        assert (one.view(torch.uint8) != other.view(torch.uint8)).all(), dtype


def test_while_the_clock_runs_nothing_is_filled() -> None:
    block = make_block(64, torch.float32, TIMED.fresh)
    assert block.start_bytes == 0 and block.guards_hold()


@pytest.mark.parametrize("at", [-1, 8, -GUARD_BYTES // 4, 8 + GUARD_BYTES // 4 - 1])
def test_a_kernel_that_writes_beyond_its_buffer_is_found(at: int) -> None:
    def astray(y: torch.Tensor) -> None:
        y.fill_(1)
        beyond = y.storage_offset() + at
        torch.empty(0).set_(y.untyped_storage(), beyond, (1,), (1,)).fill_(1)

    writing = Writing()
    y = writing.allocate(2, 4)
    writing.launch("astray", y=y)
    made = program(writing.tape(y), Played(astray=astray))
    with pytest.raises(OutOfPlace, match=r"float32\[2, 4\]"):
        made.call([], GUARDED)


def test_a_kernel_that_fills_its_buffer_to_the_brim_is_not() -> None:
    made = program(doubling(), Played(double=double))
    assert torch.equal(made.call([X], GUARDED)[0], 2 * X)


@pytest.mark.parametrize("size_bytes", [0, 1, 3, 64, 65])
def test_guards_stand_at_the_very_ends_whatever_the_size(size_bytes: int) -> None:
    block = make_block(size_bytes, torch.uint8, GUARDED.fresh)
    assert block.guards_hold()
    row = torch.empty(0, dtype=torch.uint8).set_(block.storage)
    row[block.start_bytes + size_bytes] ^= 1
    assert not block.guards_hold()
    row[block.start_bytes + size_bytes] ^= 1
    row[block.start_bytes - 1] ^= 1
    assert not block.guards_hold()


def test_a_result_in_place_is_the_memory_it_was_written_to() -> None:
    writing = Writing()
    x = writing.input(X)
    writing.operate("aten.mul_.Tensor", x, 2.0, result=x)
    given = X.clone()
    (y,) = program(writing.tape(x)).call([given], CHECKED)
    assert torch.equal(given, 2 * X) and y.data_ptr() == given.data_ptr()


def test_views_of_one_buffer_share_memory() -> None:
    writing = Writing()
    x = writing.input(X)
    y = writing.operate("aten.clone.default", x)
    column = dataclasses.replace(y, shape=(2,), strides=(4,), offset=1)
    writing.operate("aten.zero_.default", column, result=column)
    whole, part = program(writing.tape(y, column)).call([X], CHECKED)
    assert whole[:, 1].tolist() == [0, 0] and whole[:, 0].tolist() == [0, 4] and part.tolist() == [0, 0]


def test_inputs_that_share_memory_are_bound_to_it() -> None:
    writing = Writing()
    x = writing.input(X)
    writing.inputs.append(dataclasses.replace(x, shape=(4,), strides=(1,), offset=4))
    writing.operate("aten.zero_.default", writing.inputs[1], result=writing.inputs[1])
    given = X.clone()
    program(writing.tape(x)).call([given, given[1]], CHECKED)
    assert given[1].tolist() == [0] * 4


@pytest.mark.parametrize("strides", [(1, 2), (4, 1), (8, 2)])
def test_a_result_lies_as_the_tape_says(strides: tuple[int, int]) -> None:
    """Tapes are recorded with fake tensors, and an operator on a real device may choose another layout."""
    writing = Writing()
    x = writing.input(X)
    y = dataclasses.replace(writing.fresh(4, 4), shape=(2, 4), strides=strides)
    writing.operate("aten.relu.default", x, result=y)
    (found,) = program(writing.tape(y)).call([X], CHECKED)
    assert found.stride() == strides and torch.equal(found, X)


def test_an_operator_with_several_results_fills_several_buffers() -> None:
    writing = Writing()
    x = writing.input(X)
    values, indices = writing.fresh(2), writing.fresh(2, dtype="int64")
    writing.operate("aten.max.dim", x, 1, result=values)
    writing.steps[-1] = dataclasses.replace(writing.steps[-1], results=(values, indices))
    found = program(writing.tape(indices, values)).call([X], CHECKED)
    assert found[0].tolist() == [3, 3] and found[1].tolist() == [3, 7]


def test_constants_of_torch_and_nested_arguments_are_given_as_such() -> None:
    writing = Writing()
    x = writing.input(X)
    both = writing.operate("aten.cat.default", (x, x), 0, shape=(4, 4))
    half = writing.operate(
        "aten._to_copy.default", both, dtype="float16", **{"device": Named(kind="device", name="device")}
    )
    writing.steps[-1] = dataclasses.replace(writing.steps[-1], kwargs=(("dtype", Named(kind="dtype", name="float16")),))
    (found,) = program(writing.tape(half)).call([X], CHECKED)
    assert found.dtype is torch.float16 and found.shape == (4, 4)


# -- state and preparation -------------------------------------------------------------------------------------------


def scaled() -> tuple[Tape, list[str]]:
    """A program for `x * (2 * weight)` with `2 * weight` in the prologue, and the recorded calls of each kernel."""
    writing = Writing()
    x, weight = writing.input(X), writing.parameter("weight", torch.zeros(4))
    packed = writing.operate("aten.mul.Tensor", weight, 2.0, prepared=True)
    writing.launch("note", packed=packed, prepared=True)
    return writing.tape(writing.operate("aten.mul.Tensor", x, packed)), []


def test_what_is_prepared_follows_the_parameters() -> None:
    tape, noted = scaled()
    made = program(tape, Played(note=lambda packed: noted.append("packed")))
    for value in (1.0, 3.0):
        made.set_state({"weight": torch.full((4,), value)})
        for _ in range(2):
            assert torch.equal(made.call([X], CHECKED)[0], 2 * value * X)
    assert len(noted) == 2, "prepared once for each set of parameters"


def test_a_call_may_change_the_state_and_may_bind_it_anew() -> None:
    writing = Writing()
    x = writing.input(X)
    seen = writing.parameter("seen", torch.zeros(1))
    writing.parameter("mean", torch.zeros(4))
    writing.operate("aten.add_.Tensor", seen, 1.0, result=seen)
    writing.rebound.append(("mean", writing.operate("aten.mean.dim", x, (0,), shape=(4,))))
    made = program(writing.tape(x))
    made.set_state({"seen": torch.tensor([5.0]), "mean": torch.zeros(4)})
    for _ in range(2):
        made.call([X], CHECKED)
    assert made.state()["seen"].tolist() == [7] and torch.equal(made.state()["mean"], X.mean(0))


def test_the_constructors_arguments_are_bound_once() -> None:
    writing = Writing()
    x, shift = writing.input(X), writing.argument(X)
    made = program(writing.tape(writing.operate("aten.add.Tensor", x, shift)), arguments=[X])
    assert torch.equal(made.call([X], CHECKED)[0], 2 * X)


def test_inputs_may_be_bound_for_several_calls() -> None:
    made = program(doubling(), Played(double=double))
    given = X.clone()
    bound = made.bound([given])
    first = made.call(bound, TIMED)[0]
    given.add_(1)
    assert torch.equal(made.call(bound, TIMED)[0], 2 * (X + 1)) and torch.equal(first, 2 * X)


# -- kernels ---------------------------------------------------------------------------------------------------------


def test_silenced_kernels_leave_memory_as_it_was_filled() -> None:
    made = program(doubling(), Played(double=double))
    (y,) = made.call([X], dataclasses.replace(CHECKED, silenced=True))
    assert poisoned(y).all()
    assert torch.equal(made.call([X], CHECKED)[0], 2 * X)


def test_a_silenced_autotuned_launch_chooses_nothing() -> None:
    made = program(tuned(), Played(one=double, other=double))
    made.call([X], dataclasses.replace(CHECKED, silenced=True))
    assert made.chosen == {}


def tuned() -> Tape:
    writing = Writing()
    x, y = writing.input(X), writing.allocate(2, 4)
    arguments = (("x", x), ("y", y))
    writing.choose(
        *(Choice(kernel=kernel, grid=(1, 1, 1), arguments=arguments, options=()) for kernel in ("one", "other"))
    )
    return writing.tape(y)


def test_a_configuration_is_chosen_once_and_trials_leave_no_trace() -> None:
    calls: list[str] = []

    def kernel(name: str) -> Callable[..., None]:
        def run(x: torch.Tensor, y: torch.Tensor) -> None:
            calls.append(name)
            y.copy_(x)
            x.add_(1)

        return run

    made = program(tuned(), Played(one=kernel("one"), other=kernel("other")))
    given = X.clone()
    (y,) = made.call([given], CHECKED)
    assert torch.equal(y, X) and torch.equal(given, X + 1)
    made.call([X.clone()], CHECKED)
    assert calls == ["one", "other", "other", "other"] and list(made.chosen.values()) == [1]


def test_an_address_leads_to_the_memory_of_this_call() -> None:
    seen: list[int] = []
    writing = Writing()
    x = writing.input(X)
    y = writing.allocate(2, 4)
    table = writing.fresh(2, dtype="int64")
    relocations = ((0, Address(buffer=x.buffer, offset=16)), (8, Address(buffer=y.buffer, offset=0)))
    writing.steps.append(Constant(buffer=table.buffer, data=bytes(16), relocations=relocations))
    writing.launch("note", x=Address(buffer=x.buffer, offset=4), table=table, y=y)

    def note(x: int, table: torch.Tensor, y: torch.Tensor) -> None:
        seen.extend([x, *table.tolist(), y.data_ptr()])

    launcher = Played(note=note)
    given = X.clone()
    program(writing.tape(y), launcher).call([given], GUARDED)
    start = given.data_ptr()
    assert seen == [start + 4, start + 16, seen[3], seen[3]]
    assert len({block.storage.data_ptr() for block in launcher.revealed}) == 2, (
        "the interpreter has to know what an address may lead to"
    )


def test_a_constant_is_written_into_its_buffer() -> None:
    writing = Writing()
    y = writing.fresh(2)
    writing.steps.append(Constant(buffer=y.buffer, data=torch.tensor([1.5, -2.0]).numpy().tobytes()))
    assert program(writing.tape(y)).call([], CHECKED)[0].tolist() == [1.5, -2.0]


def test_a_descriptor_is_over_the_tensor_of_this_call() -> None:
    seen: list[Any] = []
    writing = Writing()
    x = writing.input(X)
    writing.launch("note", x=Descriptor(view=x, block_shape=(2, 4), padding="zero"))
    given = X.clone()
    program(writing.tape(x), Played(note=lambda x: seen.append(x))).call([given], CHECKED)
    assert seen[0].tensor.data_ptr() == given.data_ptr() and seen[0].descriptor.block_shape == (2, 4)


# -- chance ----------------------------------------------------------------------------------------------------------


def drawing(*, prepared: bool) -> Tape:
    writing = Writing()
    drawn = writing.operate("aten.rand.default", (8,), shape=(8,), prepared=prepared)
    return writing.tape(writing.operate("aten.clone.default", drawn))


def test_random_operators_follow_the_seed_of_the_call() -> None:
    made = program(drawing(prepared=False))
    one, again, other = (made.call([], dataclasses.replace(CHECKED, seed=seed))[0] for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_what_is_drawn_beforehand_follows_the_seed_of_the_module() -> None:
    drawn = [program(drawing(prepared=True), seed=seed).call([], CHECKED)[0] for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    torch.manual_seed(1)
    assert torch.equal(drawn[0], torch.rand(8)), "as the constructor would have drawn it"


def test_what_is_drawn_beforehand_disturbs_no_other_chance() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    program(drawing(prepared=True), seed=5).call([], CHECKED)
    assert torch.equal(torch.rand(4), wanted)


def test_memory_that_nobody_asks_for_again_is_given_back() -> None:
    """Otherwise a tape of many steps would keep the results of all steps."""
    held: list[int] = []
    writing = Writing()
    view: View = writing.input(torch.zeros(1 << 20))
    for _ in range(3):
        view = writing.operate("aten.add.Tensor", view, 1.0)
        writing.launch("note", x=view)
    made = program(writing.tape(view), Played(note=lambda x: held.append(x.untyped_storage()._cdata)))
    (y,) = made.call([torch.zeros(1 << 20)], TIMED)
    assert y[0] == 3 and len(held) == 3


def test_the_same_kernels_are_loaded_once_until_they_are_forgotten(tmp_path: Path) -> None:
    loader, kernels = Loader(str(tmp_path)), KernelSet().to_json()
    first = loader.load(kernels)
    assert loader.load(kernels) is first
    loader.forget()
    assert loader.load(kernels) is not first
