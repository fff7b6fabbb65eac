"""A tape prepared to run repeatedly on one device.

    program = Program(tape, launcher, device="cuda")
    program.set_state(values)
    outputs = program.call(inputs, Run(fresh=Fresh(device="cuda")))

Steps become a list of functions over a table of tensors, one for each view on the tape, so that the host cost of a call
is little more than that of its launches. Checking and timing run the same list and differ only in how fresh memory is
allocated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from triton_agent.tools.executor.kernels import Described
from triton_agent.tools.executor.memory import Block, Fresh, make_block
from triton_agent.tools.graph.operator_groups import STILL
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.processes.protocol import Predicate, SeenLaunch
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.results import KernelResources
from triton_agent.tools.tape.slicing import operator_of
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Choice,
    Constant,
    Descriptor,
    Launch,
    Named,
    Operate,
    Place,
    Step,
    Tape,
    View,
    addressed,
    views_in,
    views_of,
)

Launching = Callable[[list[Any]], None]
"""Launches a kernel with these arguments, in the order of its signature."""


class OutOfPlace(Exception):
    """A kernel wrote outside its buffers; the text names the buffer."""


class Launcher(Protocol):
    """Runs kernels, in the interpreter or on a GPU."""

    def constant(self, value: Any) -> Any:
        """Return an argument that is the same in every call, in the form that the kernel receives."""

    def prepare(self, choice: Choice, given: list[Any]) -> Launching:
        """Return a launch that is specialised for arguments like these."""

    def choose(self, launches: Sequence[Callable[[], None]], restored: Callable[[], None]) -> int:
        """Return the configuration to use for an autotuned launch. `restored` undoes the writes of a launch."""

    def begin(self, order: int | None = None, only: Sequence[int] | None = None) -> None:
        """Forget earlier launches; from now on the interpreter runs programs in this order, or only the listed ones."""

    def limit(self, only: Sequence[int] | None) -> None:
        """From the next launch on, let the interpreter run the listed programs only, or all; do nothing on a GPU."""

    def note_numbers(self, *, forced: str | None = None) -> None:
        """Note the numbers that kernels combine blocks with, and their predicates, until the next `begin`.

        Or only let an operation give another result, by its place. On a GPU do nothing.
        """

    def computed(self, tensor: torch.Tensor, sources: Sequence[torch.Tensor] | None) -> None:
        """Take note that torch computed this tensor, or copied it from these, so that it is not what was given."""

    def predicates(self) -> tuple[Predicate, ...]:
        """Return the noted predicates on data."""

    def numbers(self) -> tuple[float, ...]:
        """Return the noted numbers."""

    def counterparts(self, *, of_sums: bool) -> tuple[Any, Any]:
        """Return addresses of elements and, for each, a noted number that kernels combined it with; two arrays.

        Those of sums make a sum equal to such a number, if the sum's other elements stay as they are.
        """

    def reveal(self, block: Block) -> None:
        """Let kernels access this memory by its address."""

    def launches(self) -> tuple[SeenLaunch, ...]:
        """Return the launches since `begin`."""

    def written(self) -> list[tuple[int, int]]:
        """Return the ranges of addresses that these launches stored into, as far as known."""

    def is_unsupported(self) -> bool:
        """Return True if a launch cannot run here."""

    def resources(self) -> tuple[KernelResources, ...]:
        """Return the resources of each kernel launched since `begin`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Options of a call."""

    fresh: Fresh
    silenced: bool = False
    """True to skip all launches."""
    seed: int | None = None
    """Seed of random operators."""
    around: Callable[[int, Thunk, _Frame], None] | None = None
    """Called in place of each step, with its number after the prologue, the step's function and the frame."""


@dataclasses.dataclass(slots=True)
class _Frame:
    """Tensors and memory of one run of the steps."""

    run: Run
    tensors: list[Any]
    """Tensors by the number of their view."""
    blocks: dict[int, Block]
    """Memory by the number of the buffer; a buffer with a single view may have no entry."""


Thunk = Callable[[_Frame], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """Inputs of a call that have been entered into a frame, for several calls."""

    frame: _Frame


class Program:
    """One tape on one device."""

    def __init__(
        self, tape: Tape, launcher: Launcher, *, device: str, arguments: Sequence[torch.Tensor] = (), seed: int = 0
    ) -> None:
        self.tape = tape
        self.device = device
        self.launcher = launcher
        self.chosen: dict[int, int] = {}
        """Configuration of each autotuned launch, by step number, counting the prologue's steps first."""
        self._seed = seed
        self._numbers: dict[View, int] = {}
        self._views: dict[int, list[tuple[int, View]]] = {}
        for view in _all_views(tape):
            if view not in self._numbers:
                self._numbers[view] = len(self._numbers)
                self._views.setdefault(view.buffer, []).append((self._numbers[view], view))
        self._kept = _Frame(Run(fresh=Fresh(device=device)), [None] * len(self._numbers), {})
        """Memory that lives longer than a call: state, constructor arguments, results of the prologue."""
        self._bind(self._kept, tape.arguments, arguments)
        for number, buffer in enumerate(tape.buffers):
            if buffer.place is Place.STATE:
                self._make(self._kept, number)
        self._is_prepared = not tape.prologue
        thunks = [self._thunk(number, step) for number, step in enumerate((*tape.prologue, *tape.steps))]
        self._prologue, self._steps = thunks[: len(tape.prologue)], thunks[len(tape.prologue) :]
        self._ends = self._last_uses()
        self._outputs = [self._numbers[view] for view in tape.outputs]

    def set_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers; the prologue runs again before the next call."""
        with torch.no_grad():
            for name, tensor in self.state().items():
                if name in values:
                    tensor.copy_(values[name])
        self._is_prepared = not self.tape.prologue

    def state(self) -> dict[str, torch.Tensor]:
        """Return the current parameters and buffers."""
        return {name: self._kept.tensors[self._numbers[view]] for name, view in self.tape.state}

    def bound(self, inputs: Sequence[torch.Tensor]) -> Bound:
        """Enter inputs into a frame for several calls."""
        self.prepare()
        frame = _Frame(self._kept.run, self._kept.tensors.copy(), dict(self._kept.blocks))
        self._bind(frame, self.tape.inputs, inputs)
        return Bound(frame=frame)

    def call(self, inputs: Sequence[torch.Tensor] | Bound, run: Run) -> list[torch.Tensor]:
        """Run one call and return its outputs."""
        with torch.no_grad():
            base = (inputs if isinstance(inputs, Bound) else self.bound(inputs)).frame
            frame = _Frame(run, base.tensors.copy(), base.blocks.copy())
            if run.seed is not None:
                _seed(run.seed, self.device)
            tensors, steps = frame.tensors, self._steps
            if run.around is not None:
                steps = [functools.partial(run.around, number, thunk) for number, thunk in enumerate(steps)]
            for thunk, ended in zip(steps, self._ends):
                thunk(frame)
                for number in ended:
                    tensors[number] = None
            outputs = [tensors[number] for number in self._outputs]
            for name, view in self.tape.rebound:
                self.state()[name].copy_(tensors[self._numbers[view]])
            if run.fresh.guarded:
                self._check_guards(frame)
            return outputs

    def prepare(self) -> None:
        """Run the prologue, unless it has run with the current parameters."""
        if not self._is_prepared:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                _seed(self._seed, self.device)
                for thunk in self._prologue:
                    thunk(self._kept)
            self._is_prepared = True

    def _check_guards(self, frame: _Frame) -> None:
        guarded = {number: block for number, block in frame.blocks.items() if block.start_bytes}
        held = torch.stack([block.guards_hold() for block in guarded.values()]).tolist() if guarded else []
        for number, holds in zip(guarded, held):
            if not holds:
                view = self._views[number][0][1]
                raise OutOfPlace(f"memory beyond a buffer of {view.dtype}{list(view.shape)} was written")

    # -- memory ----------------------------------------------------------------------------------------------------

    def _bind(self, frame: _Frame, views: Sequence[View], tensors: Sequence[torch.Tensor]) -> None:
        """Enter tensors from outside; each view's buffer becomes the storage of its tensor."""
        for view, tensor in zip(views, tensors, strict=True):
            if view.buffer not in frame.blocks:
                self._enter(frame, view.buffer, Block(storage=tensor.untyped_storage()))
            frame.tensors[self._numbers[view]] = tensor

    def _make(self, frame: _Frame, number: int) -> None:
        """Allocate fresh memory for a buffer."""
        views = self._views.get(number, [])
        dtype = DTYPES[views[0][1].dtype] if views else torch.uint8
        fresh = frame.run.fresh
        if len(views) == 1 and fresh.salt is None and not fresh.guarded and views[0][1].offset == 0:
            index, view = views[0]
            frame.tensors[index] = torch.empty_strided(view.shape, view.strides, dtype=dtype, device=self.device)
            return
        self._enter(frame, number, make_block(self.tape.buffers[number].size_bytes, dtype, fresh))

    def _enter(self, frame: _Frame, number: int, block: Block) -> None:
        frame.blocks[number] = block
        for index, view in self._views.get(number, ()):
            frame.tensors[index] = block.tensor(DTYPES[view.dtype], view.shape, view.strides, view.offset)

    def _last_uses(self) -> list[list[int]]:
        """Return, for each step, the views whose last use it is."""
        kept = {view.buffer for view in (*self.tape.outputs, *(view for _, view in self.tape.rebound))}
        kept |= {number for number, buffer in enumerate(self.tape.buffers) if buffer.place is not Place.FRESH}
        kept |= {number for step in self.tape.steps for number in addressed(step)}
        last = {view: at for at, step in enumerate(self.tape.steps) for view in views_of(step)}
        ends: list[list[int]] = [[] for _ in self.tape.steps]
        for view, at in last.items():
            if view.buffer not in kept:
                ends[at].append(self._numbers[view])
        return ends

    # -- steps -----------------------------------------------------------------------------------------------------

    def _thunk(self, number: int, step: Step) -> Thunk:
        if isinstance(step, Allocate):
            buffer = step.buffer
            return lambda frame: self._make(frame, buffer)
        if isinstance(step, Constant):
            return self._constant(step)
        return self._operation(step) if isinstance(step, Operate) else self._launch(number, step)

    def _constant(self, step: Constant) -> Thunk:
        values = torch.frombuffer(bytearray(step.data), dtype=torch.uint8) if step.data else None

        def fill(frame: _Frame) -> None:
            size_bytes = self.tape.buffers[step.buffer].size_bytes
            block = make_block(size_bytes, torch.uint8, Fresh(device=self.device))
            if values is not None:
                row = values.clone()
                for at, address in step.relocations:
                    words = torch.tensor([self._address(frame, address)], dtype=torch.int64)
                    row[at : at + 8] = words.view(torch.uint8)
                block.tensor(torch.uint8, (len(row),), (1,), 0).copy_(row)
            self._enter(frame, step.buffer, block)

        return fill

    def _operation(self, step: Operate) -> Thunk:
        stand_in = ON_GPU.get(step.operator) if self.device == "cuda" else None
        operator = stand_in or operator_of(step.operator)
        computes = kind_of(step.operator) not in STILL
        is_interpreted = self.device == "cpu"  # on a GPU this would be done in timed calls, for nothing

        def operate(frame: _Frame) -> None:
            args = [self._value(frame, value) for value in step.args]
            result = operator(*args, **{name: self._value(frame, value) for name, value in step.kwargs})
            sources = [it for it in args if isinstance(it, torch.Tensor)]
            for view, tensor in zip(step.results, _items(result)):
                if view is not None:
                    self._take(frame, view, tensor)
                    if is_interpreted:
                        made = frame.tensors[self._numbers[view]]
                        self.launcher.computed(made, None if computes and sources else sources)

        return operate

    def _take(self, frame: _Frame, view: View, tensor: torch.Tensor) -> None:
        """Store an operator's result in its buffer, in the layout given by the tape."""
        number = self._numbers[view]
        held = frame.tensors[number]
        if held is not None and held.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
            return
        as_said = tuple(tensor.shape) == view.shape and tensor.stride() == view.strides
        if as_said and not tensor.storage_offset() and not view.offset:
            self._enter(frame, view.buffer, Block(storage=tensor.untyped_storage()))
            frame.tensors[number] = tensor
            return
        size_bytes = self.tape.buffers[view.buffer].size_bytes
        self._enter(frame, view.buffer, make_block(size_bytes, tensor.dtype, Fresh(device=self.device)))
        frame.tensors[number].copy_(tensor)

    def _launch(self, number: int, step: Launch) -> Thunk:
        plans = [_Arguments.of(choice, self._numbers, self.launcher) for choice in step.choices]
        ready: list[tuple[_Arguments, Launching]] = []

        def launch(frame: _Frame) -> None:
            if frame.run.silenced:
                return
            if not ready:
                if len(plans) > 1 and number not in self.chosen:
                    self.chosen[number] = self._choose(step, plans, frame)
                at = self.chosen.get(number, 0)
                given = plans[at].given(self, frame)
                ready.append((plans[at], self.launcher.prepare(step.choices[at], given)))
            plan, launching = ready[0]
            launching(plan.given(self, frame))

        return launch

    def _choose(self, step: Launch, plans: Sequence[_Arguments], frame: _Frame) -> int:
        """Choose a configuration of an autotuned launch; memory is restored after each trial."""
        storages = {
            storage._cdata: storage
            for _, value in step.choices[0].arguments
            for view in views_in(value)
            for storage in [frame.tensors[self._numbers[view]].untyped_storage()]
        }
        copies = [(storage, storage.clone()) for storage in storages.values()]

        def trial(choice: Choice, plan: _Arguments) -> Callable[[], None]:
            ready: list[Launching] = []

            def run() -> None:
                given = plan.given(self, frame)
                if not ready:
                    ready.append(self.launcher.prepare(choice, given))
                ready[0](given)

            return run

        def restored() -> None:
            for storage, copy in copies:
                storage.copy_(copy)

        return self.launcher.choose([trial(*pair) for pair in zip(step.choices, plans)], restored)

    def _value(self, frame: _Frame, value: Any) -> Any:
        """Return an argument in the form in which an operator or a kernel receives it in this call."""
        if isinstance(value, View):
            return frame.tensors[self._numbers[value]]
        if isinstance(value, tuple):
            return [self._value(frame, item) for item in value]
        if isinstance(value, Address):
            return self._address(frame, value)
        if isinstance(value, Descriptor):
            return Described(frame.tensors[self._numbers[value.view]], value)
        if isinstance(value, Named):
            return _constant_of_torch(value, self.device)
        return value

    def _address(self, frame: _Frame, address: Address) -> int:
        """Return a real address for an `Address` of the tape."""
        block = frame.blocks.get(address.buffer)
        if block is None:
            storage = frame.tensors[self._views[address.buffer][0][0]].untyped_storage()
            block = Block(storage=storage, size_bytes=storage.nbytes())
        self.launcher.reveal(block)
        return block.storage.data_ptr() + block.start_bytes + address.offset


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Arguments:
    """The arguments of a launch, split into constants and those filled in for each call."""

    constant: list[Any]
    tensors: tuple[tuple[int, int], ...]
    """Pairs of argument position and view number."""
    others: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, choice: Choice, numbers: Mapping[View, int], launcher: Launcher) -> _Arguments:
        values = [value for _, value in choice.arguments]
        tensors = [(at, numbers[value]) for at, value in enumerate(values) if isinstance(value, View)]
        others = [(at, value) for at, value in enumerate(values) if isinstance(value, (tuple, Address, Descriptor))]
        changing = {at for at, _ in (*tensors, *others)}
        constant = [None if at in changing else launcher.constant(value) for at, value in enumerate(values)]
        return cls(constant=constant, tensors=tuple(tensors), others=tuple(others))

    def given(self, program: Program, frame: _Frame) -> list[Any]:
        given = self.constant.copy()
        for at, number in self.tensors:
            given[at] = frame.tensors[number]
        for at, value in self.others:
            given[at] = program.launcher.constant(program._value(frame, value))
        return given


def _seed(seed: int, device: str) -> None:
    """Seed this device's generators; `torch.manual_seed` also records a stack trace for every other kind of device."""
    torch.default_generator.manual_seed(seed)
    if device == "cuda":
        torch.cuda.manual_seed_all(seed)


def _items(result: Any) -> Iterable[Any]:
    if isinstance(result, (list, tuple)):
        return [item for part in result for item in _items(part)]
    return [result]


def _constant_of_torch(named: Named, device: str) -> Any:
    if named.kind == "device":
        return torch.device(device)
    found = getattr(torch, named.name)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise ValueError(f"torch.{named.name} is not a constant")
    return found


def _all_views(tape: Tape) -> Iterator[View]:
    yield from (*tape.inputs, *tape.arguments, *(view for _, view in tape.state), *tape.outputs)
    yield from (view for _, view in tape.rebound)
    for step in (*tape.prologue, *tape.steps):
        yield from views_of(step)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    answer = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale
    )
    return answer, query.new_empty(0)


ON_GPU: dict[str, Callable[..., Any]] = {"aten._scaled_dot_product_flash_attention_for_cpu.default": _attention}
"""GPU replacements for operators that exist only on the CPU, which are on tapes since the tracer's tensors are CPU
tensors to torch."""
