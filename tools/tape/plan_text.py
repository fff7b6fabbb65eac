"""One tape as the body of a Python method: straight lines over local variables, for `emission.py`.

A buffer is held by one variable, its base; every other view of the buffer is read from the base by `as_strided`. Memory
from outside may begin anywhere in its storage, so offsets there are relative to the tensor that was given.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import DTYPES
from triton_agent.tools.operators import kind_of
from triton_agent.tools.tape.kernel_effects import WrittenParameters
from triton_agent.tools.tape.kernels import value_from_json
from triton_agent.tools.tape.outline import Outline, TensorAt
from triton_agent.tools.tape.python_text import (
    Group,
    Names,
    Text,
    attribute,
    call,
    kernel_value,
    lines,
    literal,
    prefixed,
    tuple_of,
)
from triton_agent.tools.tape.slicing import effect_of, operator_of, schema_of
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Choice,
    Constant,
    Constexpr,
    Descriptor,
    Launch,
    Named,
    Operate,
    Step,
    Tape,
    View,
    buffers_in,
)
from triton_agent.tools.tape.tape_reading import (
    arguments_of,
    end_bytes,
    is_contiguous,
    made_by,
    mentioned,
    repeats,
    views_by_buffer,
    views_of,
)

LARGE_BYTES = 1 << 20
"""A temporary of this size is deleted once it was used, as the executor does with all of them."""
VALUES_AT_MOST = 16384
"""Numbers of a constant that are written down."""
LAYOUT = "_with_strides"
ALLOCATOR = "_allocate"
ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"
"""Exists on a CPU only; see `executor/operators.py`."""
BODY = 8
"""Spaces before a line of a method."""


class NotEmitted(Exception):
    """The tape does something that has no text; the message says what."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """A parameter or buffer of the reference."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_buffer: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the plan stands in."""

    state: Mapping[str, StateTensor]
    constructor: Sequence[str]
    """How each tensor among the constructor's arguments is read."""
    kernels: Mapping[str, str]
    """Names of the kernels' functions by identity."""
    allocating: frozenset[str]
    """Identities of kernels that need memory of their own."""
    written: WrittenParameters
    """Parameters through which a kernel writes."""
    names: Names


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The text of a tape."""

    prologue: tuple[str, ...]
    """Lines of the method that prepares; none where there is nothing to prepare."""
    body: tuple[str, ...]
    """Lines of the method that is called; `{prepare}` stands for the name of the other."""
    parameters: tuple[str, ...]
    """Names of the call's arguments."""


@dataclasses.dataclass(slots=True)
class _Base:
    """The variable that holds a buffer."""

    name: str
    view: View
    is_own: bool
    """Made here, so that offsets count from the start of its storage."""


def plan_of(
    tape: Tape, call: Outline, parameters: Sequence[str], around: Surroundings, chosen: Mapping[int, int]
) -> Plan:
    """The text of one tape; raises `NotEmitted`. `chosen` as in `executor.Program`."""
    return _Writer(tape, call, parameters, around, chosen).plan()


class _Writer:
    def __init__(
        self, tape: Tape, call: Outline, parameters: Sequence[str], around: Surroundings, chosen: Mapping[int, int]
    ) -> None:
        self._tape = tape
        self._call = call
        self._around = around
        self._chosen = chosen
        self._parameters = tuple(parameters)
        self._views = views_by_buffer(tape)
        self._hints = _hints(tape)
        self._paths = _argument_paths(call, parameters)
        self._packed = self._packed_state()
        self._made_once = {number for number, _ in made_by(tape.prologue)} | set(self._packed)
        self._begin(around.names)

    def _begin(self, names: Names) -> None:
        """A new method."""
        self._names = names.copy()
        for name in self._parameters:
            self._names.fresh(name)
        self._bases: dict[int, _Base] = {}
        self._read: dict[View, str] = {}
        self._lines: list[str] = []
        self._indent = BODY
        self._needs_device = False
        self._uses: Counter[View] = Counter()

    def plan(self) -> Plan:
        prologue, kept = self._prologue()
        self._begin(self._around.names)
        self._count_uses(self._tape.steps)
        self._uses.update([*self._tape.outputs, *(view for _, view in self._tape.rebound)])
        self._lines += [*self._outside()]
        head = len(self._lines)
        if kept:
            self._needs_device = True
            for base in kept:
                self._bases[base.view.buffer] = dataclasses.replace(base, name=self._names.fresh(base.name))
            targets = ", ".join(self._bases[base.view.buffer].name for base in kept)
            self._line(f"{targets} = self.{{prepare}}(device)")
        self._steps(self._tape.steps, len(self._tape.prologue), self._tape.outputs)
        self._copy_back()
        self._line(prefixed("return ", self._returned(self._tape.tree)))
        if self._needs_device:
            self._lines[head:head] = [f"{' ' * BODY}device = {self._device()}"]
        return Plan(tuple(prologue), tuple(self._lines), self._parameters)

    # -- before the steps ------------------------------------------------------------------------------------------

    def _prologue(self) -> tuple[list[str], list[_Base]]:
        """The lines that prepare, and what they make that calls use."""
        tape = self._tape
        used = {number for step in tape.steps for number in mentioned(step)}
        used |= {view.buffer for view in (*tape.outputs, *(view for _, view in tape.rebound))}
        wanted = [number for number in sorted(self._made_once) if number in used]
        if not wanted:
            return [], []
        self._refuse_chance()
        self._count_uses(tape.prologue)
        self._lines += [*self._outside(tape.prologue)]
        head = len(self._lines)
        self._indent = BODY + 4
        needed = used | {number for step in tape.prologue for number in mentioned(step)}
        for number in self._packed.keys() & needed:
            self._pack(number)
        self._steps(tape.prologue, 0, (), kept=set(wanted))
        kept = [self._bases[number] for number in wanted]
        self._names.fresh("state")
        watched = [base.name for base in self._bases.values() if not base.is_own] + list(self._sources)
        key = tuple_of(["device", *(text for name in watched for text in (f"{name}.data_ptr()", f"{name}._version"))])
        result = kept[0].name if len(kept) == 1 else tuple_of([base.name for base in kept])
        return [
            *self._lines[:head],
            *lines(prefixed("state = ", key), BODY),
            f"{' ' * BODY}if self.{{prepared}} is None or self.{{prepared}}[0] != state:",
            *self._lines[head:],
            *lines(prefixed("self.{prepared} = ", tuple_of(["state", result])), BODY + 4),
            f"{' ' * BODY}return self.{{prepared}}[1]",
        ], kept

    def _refuse_chance(self) -> None:
        for step in self._tape.prologue:
            if isinstance(step, Operate) and torch.Tag.nondeterministic_seeded in operator_of(step.operator).tags:
                raise NotEmitted(
                    f"random numbers drawn before the first call ({step.operator}) are the reference's own"
                )

    def _packed_state(self) -> dict[int, list[tuple[str, View]]]:
        """Buffers that hold state otherwise than the reference does: copied together before the first call."""
        found: dict[int, list[tuple[str, View]]] = {}
        for name, view in self._tape.state:
            found.setdefault(view.buffer, []).append((name, view))
        return {number: entries for number, entries in found.items() if not self._is_as_given(number, entries)}

    def _is_as_given(self, number: int, entries: Sequence[tuple[str, View]]) -> bool:
        _, view = entries[0]
        alike = all(other == view and self._around.state[name].strides == view.strides for name, other in entries)
        end = end_bytes(view)
        inside = all(end_bytes(other) <= end for other in self._views.get(number, ()))
        return alike and view.offset == 0 and inside

    def _pack(self, number: int) -> None:
        """Copies of parameters, side by side in one buffer."""
        view = self._covering(number)
        name = self._names.fresh("packed" if len(self._packed[number]) > 1 else self._packed[number][0][0])
        self._needs_device = True
        self._line(prefixed(f"{name} = ", _empty(view)))
        self._bases[number] = _Base(name, view, is_own=True)
        for source, (_, part) in zip(self._packed_sources[number], self._packed[number]):
            self._line(f"{self._tensor(part)}.copy_({source})")

    def _outside(self, steps: Sequence[Step] | None = None) -> Iterator[str]:
        """Variables for memory from outside; those of a method that prepares where `steps` are given."""
        tape, prepares = self._tape, steps is not None
        chosen = tape.steps if steps is None else steps
        used = {number for step in chosen for number in mentioned(step)}
        if steps is None:
            used |= {view.buffer for view in (*tape.outputs, *(view for _, view in tape.rebound))}
        self._packed_sources: dict[int, list[str]] = {}
        self._sources: list[str] = []
        if not prepares:
            yield from self._inputs(used)
        for text, view in zip(self._around.constructor, tape.arguments):
            if view.buffer in used and view.buffer not in self._bases:
                yield from self._entered(view, text.rpartition(".")[2], text)
        for name, view in tape.state:
            if view.buffer in self._packed:
                if prepares:
                    variable = self._names.fresh(name.rpartition(".")[2])
                    self._packed_sources.setdefault(view.buffer, []).append(variable)
                    self._sources.append(variable)
                    yield f"{' ' * BODY}{variable} = {state_path(name)}"
            elif view.buffer in used and view.buffer not in self._bases:
                short = name.rpartition(".")[2]
                yield from self._entered(view, short if self._names.is_free(short) else name, state_path(name))

    def _entered(self, view: View, wanted: str, text: str) -> Iterator[str]:
        name = self._names.fresh(wanted)
        self._bases[view.buffer] = _Base(name, view, is_own=False)
        self._read[view] = name
        yield f"{' ' * BODY}{name} = {text}"

    def _inputs(self, used: set[int]) -> Iterator[str]:
        for (path, wanted), view in zip(self._paths, self._tape.inputs):
            if path in self._parameters:
                name = path
            elif view.buffer in used:
                name = self._names.fresh(wanted)
                yield f"{' ' * BODY}{name} = {path}"
            else:
                continue
            self._read.setdefault(view, name)
            known = self._bases.get(view.buffer)
            if known is None or end_bytes(view) - view.offset > end_bytes(known.view) - known.view.offset:
                self._bases[view.buffer] = _Base(name, view, is_own=False)

    def _device(self) -> str:
        if self._paths:
            return f"{self._read.get(self._tape.inputs[0], self._paths[0][0])}.device"
        held = [base for base in self._bases.values() if not base.is_own]
        if held:
            return f"{held[0].name}.device"
        if self._tape.state:
            return f"{state_path(self._tape.state[0][0])}.device"
        return f"{self._around.constructor[0]}.device" if self._around.constructor else 'torch.device("cuda")'

    # -- steps -----------------------------------------------------------------------------------------------------

    def _line(self, text: Text) -> None:
        self._lines += lines(text, self._indent)

    def _steps(self, steps: Sequence[Step], first: int, outputs: Sequence[View], kept: set[int] | None = None) -> None:
        rebound = {view.buffer for _, view in self._tape.rebound}
        stay = {view.buffer for view in outputs} | rebound | (kept or set())
        own = {number for number, _ in made_by(steps)}
        last = {number: at for at, step in enumerate(steps) for number in mentioned(step)}
        for at, step in enumerate(steps):
            if isinstance(step, Allocate):
                self._allocate(step)
            elif isinstance(step, Constant):
                self._constant(step)
            elif isinstance(step, Operate):
                self._operate(step)
            else:
                self._launch(step.choices[self._chosen.get(first + at, 0)])
            ended = [number for number, end in last.items() if end == at and number in own and number not in stay]
            if any(isinstance(later, (Allocate, Operate)) for later in steps[at + 1 :]):
                self._delete(ended)

    def _delete(self, numbers: Sequence[int]) -> None:
        gone = []
        for number in numbers:
            if self._tape.buffers[number].size_bytes >= LARGE_BYTES and number in self._bases:
                names = {name: None for view, name in self._read.items() if view.buffer == number}
                gone += list({self._bases[number].name: None, **names})
        if gone:
            self._line(f"del {', '.join(gone)}")

    def _allocate(self, step: Allocate) -> None:
        view = self._covering(step.buffer)
        self._own(view, self._hints.get(step.buffer, "memory"), _empty(view))
        self._needs_device = True

    def _own(self, view: View, wanted: str, text: Text) -> None:
        """A new variable with a buffer of its own."""
        name = self._names.fresh(wanted)
        self._bases[view.buffer] = _Base(name, view, is_own=True)
        self._read = {known: held for known, held in self._read.items() if known.buffer != view.buffer}
        self._read[view] = name
        self._line(prefixed(f"{name} = ", text))

    def _covering(self, number: int) -> View:
        """A view of all of a buffer: one that is needed, if any is."""
        size_bytes = self._tape.buffers[number].size_bytes
        views = self._views.get(number, [])
        for view in views:
            whole = view.offset == 0 and end_bytes(view) == size_bytes and not repeats(view)
            if whole and (view.elements or not size_bytes):
                return view
        dtype = next((view.dtype for view in views if size_bytes % DTYPES[view.dtype].itemsize == 0), "uint8")
        count = size_bytes // DTYPES[dtype].itemsize
        return View(buffer=number, dtype=dtype, shape=(count,), strides=(1,), offset=0)

    def _constant(self, step: Constant) -> None:
        view = self._covering(step.buffer)
        item_bytes = DTYPES[view.dtype].itemsize
        if len(step.data) % item_bytes or view.elements > VALUES_AT_MOST or not is_contiguous(view):
            view = View(buffer=step.buffer, dtype="uint8", shape=(len(step.data),), strides=(1,), offset=0)
        if step.relocations:
            view = View(buffer=step.buffer, dtype="int64", shape=(len(step.data) // 8,), strides=(1,), offset=0)
        if view.elements > VALUES_AT_MOST or view.elements * DTYPES[view.dtype].itemsize > len(step.data):
            raise NotEmitted(f"{len(step.data):,} bytes of values that the file would have to spell out")
        values = torch.frombuffer(bytearray(step.data), dtype=torch.uint8) if step.data else torch.empty(0).byte()
        rows = values[: view.elements * DTYPES[view.dtype].itemsize].view(DTYPES[view.dtype]).reshape(view.shape)
        items: Any = rows.tolist()
        for at, address in step.relocations:
            items[at // 8] = self._address(address)
        wanted = self._hints.get(step.buffer, "table" if step.relocations else "constant")
        self._own(view, wanted, call("torch.tensor", [_spelled(items), f"dtype=torch.{view.dtype}", "device=device"]))
        self._needs_device = True

    def _operate(self, step: Operate) -> None:
        if step.operator == ATTENTION:
            self._attention(step)
            return
        arguments = [self._value(value) for value in step.args]
        arguments += [prefixed(f"{name}=", self._value(value)) for name, value in step.kwargs]
        text = call(f"torch.ops.{step.operator}", arguments)
        returns = schema_of(step.operator).returns
        results = [view if view is not None and self._is_new(view) else None for view in step.results]
        if not any(results):
            self._line(text)
        elif len(returns) == 1 and returns[0].type.kind() == "TensorType":
            assert results[0] is not None
            self._own(results[0], self._wanted(step, results[0]), text)
        elif len(returns) == len(results) or len(returns) == 1:
            names = ["_" if view is None else self._names.fresh(self._wanted(step, view)) for view in results]
            self._line(prefixed(f"{', '.join(names)}{',' * (len(names) == 1)} = ", text))
            for name, view in zip(names, results):
                if view is not None:
                    self._bases[view.buffer] = _Base(name, view, is_own=True)
                    self._read[view] = name
        else:
            raise NotEmitted(f"{step.operator} returns tensors and lists of them")
        if kind_of(step.operator) == "heavy":
            for view in results:
                if view is not None:
                    name = self._bases[view.buffer].name
                    self._line(call(f"{name} = {LAYOUT}", [name, _numbers(view.strides)]))

    def _is_new(self, view: View) -> bool:
        """Whether an operator's result is memory of its own that somebody uses."""
        return view.buffer not in self._bases and bool(self._views.get(view.buffer))

    def _wanted(self, step: Operate, view: View) -> str:
        return self._hints.get(view.buffer, step.operator.split(".")[1].strip("_"))

    def _attention(self, step: Operate) -> None:
        """Torch chooses who computes it on the device at hand; the second result is what a backward pass would need."""
        first, second = step.results[0], step.results[1]
        assert first is not None
        if second is not None and any(second in views_of(other) for other in self._tape.steps if other is not step):
            raise NotEmitted("the row maxima of torch's attention are used, which it gives on a CPU only")
        names = [argument.name for argument in schema_of(step.operator).arguments]
        given = {name: value for name, value in zip(names, step.args)} | dict(step.kwargs)
        arguments: list[Text] = [self._value(given.pop(name)) for name in names[:3]]
        arguments += [prefixed(f"{name}=", self._value(value)) for name, value in given.items()]
        text = call("torch.nn.functional.scaled_dot_product_attention", arguments)
        self._own(first, self._hints.get(first.buffer, "attention"), text)
        name = self._bases[first.buffer].name
        self._line(call(f"{name} = {LAYOUT}", [name, _numbers(first.strides)]))

    def _launch(self, choice: Choice) -> None:
        if choice.kernel in self._around.allocating:
            self._line(f"triton.set_allocator({ALLOCATOR})")
        arguments: list[Text] = []
        by_name = False
        for name, value in choice.arguments:
            by_name = by_name or isinstance(value, Constexpr)
            text = self._passed(value)
            arguments.append(prefixed(f"{name}=", text) if by_name else text)
        arguments += [prefixed(f"{name}=", self._value(value)) for name, value in choice.options]
        grid = list(choice.grid)
        while len(grid) > 1 and grid[-1] == 1:
            grid.pop()
        self._line(call(f"{self._around.kernels[choice.kernel]}[{_numbers(grid)}]", arguments))

    # -- values ----------------------------------------------------------------------------------------------------

    def _value(self, value: Any) -> Text:
        if isinstance(value, View):
            return self._tensor(value)
        if isinstance(value, tuple):
            return Group("[", [self._value(item) for item in value], "]")
        if isinstance(value, Address):
            return self._address(value)
        if isinstance(value, Descriptor):
            return self._descriptor(value)
        if isinstance(value, Constexpr):
            return kernel_value(value_from_json(value.value), self._around.kernels)
        if isinstance(value, Named):
            if value.kind == "device":
                self._needs_device = True
                return "device"
            return f"torch.{value.name}"
        return literal(value)

    def _passed(self, value: Any) -> Text:
        """An argument of a launch: several values together are a tuple there."""
        return tuple_of([self._passed(item) for item in value]) if isinstance(value, tuple) else self._value(value)

    def _descriptor(self, value: Descriptor) -> Text:
        view = value.view
        arguments: list[Text] = [
            self._tensor(view),
            *(f"[{', '.join(map(str, row))}]" for row in (view.shape, view.strides)),
        ]
        arguments.append(f"[{', '.join(map(str, value.block_shape))}]")
        if value.padding != "zero":
            arguments.append(f"padding={literal(value.padding)}")
        if value.round_f32_to_tf32:
            arguments.append("round_f32_to_tf32=True")
        return call("TensorDescriptor", arguments)

    def _address(self, address: Address) -> str:
        base = self._bases[address.buffer]
        beyond = address.offset - base.view.offset * DTYPES[base.view.dtype].itemsize
        return f"{base.name}.data_ptr()" + (f" + {beyond}" if beyond else "")

    def _tensor(self, view: View) -> str:
        """The variable that holds this view, or how it is read from its base."""
        if view in self._read:
            return self._read[view]
        text = str(self._derived(view))
        if self._uses[view] > 1:
            name = self._names.fresh(f"{self._bases[view.buffer].name}_view")
            self._line(f"{name} = {text}")
            self._read[view] = name
            return name
        return text

    def _derived(self, view: View) -> str:
        base = self._bases[view.buffer]
        held = base.view
        if held == view:
            return base.name
        text = base.name
        if view.dtype != held.dtype:
            text, held = self._retyped(base, view.dtype)
        if (
            is_contiguous(view)
            and is_contiguous(held)
            and view.elements == held.elements
            and view.offset == held.offset
        ):
            return text if view.shape == held.shape else f"{text}.view({', '.join(map(str, view.shape)) or '()'})"
        if (view.shape, view.strides, view.offset) == (held.shape, held.strides, held.offset):
            return text
        where = [_numbers(view.shape), _numbers(view.strides)]
        if view.offset != held.offset and base.is_own:
            where.append(str(view.offset))
        elif view.offset != held.offset:
            if text != base.name:
                raise NotEmitted("part of an argument is read as another dtype")
            where.append(f"{text}.storage_offset() + {view.offset - held.offset}")
        return f"{text}.as_strided({', '.join(where)})"

    def _retyped(self, base: _Base, dtype: str) -> tuple[str, View]:
        """The base read as another dtype."""
        held, size, wanted = base.view, DTYPES[base.view.dtype].itemsize, DTYPES[dtype].itemsize
        if size == wanted:
            return f"{base.name}.view(torch.{dtype})", dataclasses.replace(held, dtype=dtype)
        count = (end_bytes(held) - held.offset * size) // size
        if not is_contiguous(held):
            text = f"{base.name}.as_strided(({count},), (1,))"
        else:
            text = f"{base.name}.view(-1)" if len(held.shape) != 1 else base.name
        offset = held.offset * size // wanted
        flat = View(buffer=held.buffer, dtype=dtype, shape=(count * size // wanted,), strides=(1,), offset=offset)
        return f"{text}.view(torch.{dtype})", flat

    # -- behind the steps ------------------------------------------------------------------------------------------

    def _copy_back(self) -> None:
        """State that the steps changed and that the module holds elsewhere."""
        for name, view in self._tape.rebound:
            self._line(f"{state_path(name)}.copy_({self._tensor(view)})")
        written = {number for step in self._tape.steps for number in effect_of(step, self._around.written).writes}
        for number in written & self._packed.keys():
            for name, view in self._packed[number]:
                self._line(f"{state_path(name)}.copy_({self._tensor(view)})")

    def _returned(self, tree: Any) -> Text:
        if "tensor" in tree:
            return self._tensor(self._tape.outputs[int(tree["tensor"])])
        if "list" in tree:
            return Group("[", [self._returned(item) for item in tree["list"]], "]")
        if "tuple" in tree:
            return tuple_of([self._returned(item) for item in tree["tuple"]])
        if "dict" in tree:
            items = [prefixed(f"{literal(key)}: ", self._returned(item)) for key, item in tree["dict"]]
            return Group("{", items, "}")
        return literal(float(tree["float"])) if "float" in tree else literal(tree["value"])

    def _count_uses(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._uses.update(
                arguments_of(dataclasses.replace(step, choices=step.choices[:1]) if isinstance(step, Launch) else step)
            )


def state_path(name: str) -> str:
    """How a parameter or buffer is read."""
    text = "self"
    for part in name.split("."):
        text = attribute(text, part)
    return text


def _argument_paths(call: Outline, parameters: Sequence[str]) -> list[tuple[str, str]]:
    """For each tensor of a call: how it is read, and a name for it."""
    found: dict[int, tuple[str, str]] = {}

    def look(value: Any, path: str, name: str) -> None:
        if isinstance(value, TensorAt):
            found[value.index] = (path, name)
        elif isinstance(value, dict):
            for key, item in value.items():
                look(item, f"{path}[{literal(key)}]", f"{name}_{key}")
        elif isinstance(value, (list, tuple)):
            for at, item in enumerate(value):
                look(item, f"{path}[{at}]", f"{name}_{at}")

    for name, value in zip(parameters, call.values):
        look(value, name, name)
    if len(found) != len(call.tensors):
        raise NotEmitted("an argument holds tensors in an object of its own class")
    return [found[index] for index in sorted(found)]


def _hints(tape: Tape) -> dict[int, str]:
    """Names for buffers: those of the kernels' parameters that they are passed to."""
    found: dict[int, str] = {}
    for step in (*tape.steps, *tape.prologue):
        for name, value in step.choices[0].arguments if isinstance(step, Launch) else ():
            short = name.lower().removesuffix("ptr").removesuffix("pointer").strip("_") or name
            for number in buffers_in(value):
                if len(short) > 1 or number not in found:
                    found.setdefault(number, short)
    return found


def _empty(view: View) -> Group:
    arguments = [_numbers(view.shape)]
    if not is_contiguous(view):
        arguments.append(_numbers(view.strides))
    function = "torch.empty" if is_contiguous(view) else "torch.empty_strided"
    return call(function, [*arguments, f"dtype=torch.{view.dtype}", "device=device"])


def _numbers(values: Sequence[int]) -> str:
    return str(tuple_of([str(value) for value in values]))


def _spelled(items: Any) -> Text:
    if isinstance(items, list):
        return Group("[", [_spelled(item) for item in items], "]")
    return items if isinstance(items, str) else literal(items)  # what is text already is an address
