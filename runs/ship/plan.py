"""Writes one tape as two functions of straight-line Python: one prepares memory from parameters, one makes the call.

The steps of the tape become lines in the order in which the executor runs them (`executor/program.py`): allocations,
operators of torch, launches. `plan_body.py` holds the lines and variables, `plan_file.py` puts plans into a file.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from triton_agent.runs.ship.facts import COUNTING, NotEmitted
from triton_agent.runs.ship.plan_body import Base, Body, numbers
from triton_agent.runs.ship.python_text import (
    Group,
    Names,
    Text,
    call,
    kernel_value,
    literal,
    prefixed,
    replaced,
    tuple_of,
)
from triton_agent.runs.ship.tape_reading import (
    is_contiguous,
    made_by,
    new_results,
    returned,
    views_by_buffer,
)
from triton_agent.tools.graph.operators import kind_of
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import value_from_json
from triton_agent.tools.processes.protocol import StateTensor
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.outline import Outline, TensorAt, TensorOutline
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
    addressed,
    buffers_in,
    mentioned,
    views_of,
)

VALUES_AT_MOST = 16384
"""Most numbers of a constant that are written into a file."""
ALIGNMENT = 16
"""Alignment in bytes. Triton compiles kernels differently for addresses and numbers that are not divisible by it."""
LAYOUT = "with_strides"
ALLOCATOR = "allocate"
RUNNING_STATISTICS = ("running_mean", "running_var")
"""Names of buffers in torch's norms."""
ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"
"""Exists on a CPU only; see `executor/operators.py`."""


Loose = tuple[str, str]
"""Identity of a kernel, and a parameter of it: a compile-time argument that becomes a plain one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The class and the module that a plan is written for."""

    state: Mapping[str, StateTensor]
    constructor: Sequence[str]
    """Expressions that read the tensors among the constructor's arguments."""
    kernels: Mapping[str, str]
    """Names of the kernels' functions by the kernels' identities."""
    launches: dict[tuple[str, ...], tuple[str, Group]]
    """Names and texts of the launches, by text and the specialisations of their kernels; grows as plans are written."""
    allocating: frozenset[str]
    """Identities of kernels that allocate memory themselves."""
    written: WrittenParameters
    """Parameters through which a kernel writes."""
    names: Names
    sized: str = ""
    """In a plan for a range of sizes: the variables that hold the sizes."""
    loose: Collection[Loose] = ()
    mode: str = ""
    """In a plan for a range of sizes: distinguishes the plan for train mode from the one for eval mode."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A tape as text."""

    prologue: tuple[Text, ...]
    """The function that prepares memory: its parameters, then its statements; empty if nothing is prepared."""
    body: tuple[Text, ...]
    """Statements of the function that makes the call; `{prepare}` stands for the name of the other function."""
    parameters: tuple[str, ...]
    """Names of the tensors of the call."""
    strides: Text
    """Strides of these tensors."""
    results: Text
    """Kind and forms of the results. Empty if the call cannot be one operator in a compiled graph, because it changes
    something or returns a tensor that is not new.
    """
    constants: tuple[str, ...] = ()
    """Compile-time arguments that are passed among the other arguments of a launch."""


class PlanWriter:
    """Writes the plan of one tape. `chosen` holds the configuration of each autotuned launch, as in
    `executor.Program`.
    """

    def __init__(self, tape: Tape, parameters: Sequence[str], around: Surroundings, chosen: Mapping[int, int]) -> None:
        self._tape = tape
        self._around = around
        self._chosen = chosen
        self._parameters = tuple(parameters)
        self._views = views_by_buffer(tape)
        self._hints = _hints(tape)
        self._packed = self._packed_state()
        self._sized = around.sized
        self._constants: list[str] = []
        self._made: Counter[str] = Counter()
        """Launches written so far, by their text."""
        self._made_once = {number for number, _ in made_by(tape.prologue)} | set(self._packed)

    def plan(self) -> Plan:
        """Return the plan; raise `NotEmitted` if it cannot be written."""
        tape = self._tape
        used = {number for step in tape.steps for number in mentioned(step)} | {v.buffer for v in returned(tape)}
        prologue, kept, sources = self._prologue(used)
        self._sized = self._around.sized
        body = self._body = self._begin(tape.steps)
        body.uses.update(returned(tape))
        self._enter_inputs()
        for wanted, view, text in self._outside(used - self._packed.keys()):
            if view.buffer not in body.bases:
                body.line(f"{body.enter(view, wanted)} = {text}")
        head = len(body.lines)
        if kept:
            body.needs_device = True
            for base in kept:
                body.bases[base.view.buffer] = dataclasses.replace(base, name=body.names.fresh(base.name))
            targets = ", ".join(body.bases[base.view.buffer].name for base in kept)
            body.line(prefixed(f"{targets} = ", call("{prepare}", ["device", *sources])))
        self._steps(tape.steps, len(tape.prologue), stay={view.buffer for view in returned(tape)})
        self._copy_back()
        self._count_writes()
        body.line(prefixed("return ", self._returned(tape.tree)))
        if body.needs_device:
            body.lines[head:] = _with_device(self._device(), body.lines[head:])
        return Plan(
            tuple(prologue),
            tuple(body.lines),
            self._parameters,
            self._strides(),
            self._results(),
            tuple(self._constants),
        )

    def _begin(self, steps: Sequence[Step]) -> Body:
        names = self._around.names.copy()
        for name in self._parameters:
            names.fresh(name)
        return Body(self._tape, self._views, names, steps, sized=bool(self._sized))

    # -- before the steps ------------------------------------------------------------------------------------------

    def _prologue(self, used: set[int]) -> tuple[list[Text], list[Base], list[str]]:
        """Return the statements that prepare memory, the variables that calls use, and the expressions of its
        arguments.
        """
        tape = self._tape
        wanted = [number for number in sorted(self._made_once) if number in used]
        if not wanted:
            return [], [], []
        for step in tape.prologue:
            if isinstance(step, Operate) and torch.Tag.nondeterministic_seeded in operator_of(step.operator).tags:
                raise NotEmitted(
                    f"random numbers drawn before the first call ({step.operator}) are the reference's own"
                )
        self._sized = ""  # the prepared memory is equal at all sizes
        body = self._body = self._begin(tape.prologue)
        needed = {number for step in tape.prologue for number in mentioned(step)}
        parameters, sources, parts = ["device"], [], dict[int, list[str]]()
        for name, view, text in self._outside(needed | self._packed.keys()):
            if view.buffer in self._packed:
                parameters.append(body.names.fresh(name.rpartition(".")[2]))
                parts.setdefault(view.buffer, []).append(parameters[-1])
            elif view.buffer not in body.bases:
                parameters.append(body.enter(view, name))
            else:
                continue
            sources.append(text)
        for number in self._packed:
            if number in used | needed:
                self._pack(number, parts[number])
        self._steps(tape.prologue, 0, stay=set(wanted))
        kept = [body.bases[number] for number in wanted]
        body.line(prefixed("return ", kept[0].name if len(kept) == 1 else tuple_of([base.name for base in kept])))
        given = [f"{name}: torch.{'device' if name == parameters[0] else 'Tensor'}" for name in parameters]
        return [Group("(", given, ") -> Any:"), *body.lines], kept, sources

    def _outside(self, used: Collection[int]) -> Iterator[tuple[str, View, str]]:
        """Yield the constructor's tensors and the state in these buffers: a name, the view, and an expression to
        read it.
        """
        held = [*zip(self._around.constructor, self._tape.arguments), *self._tape.state]
        for name, view in held:
            if view.buffer in used:
                short = name.rpartition(".")[2]
                yield short if self._body.names.is_free(short) else name, view, state_path(name)

    def _packed_state(self) -> dict[int, list[tuple[str, View]]]:
        """Find buffers whose layout differs from the reference's state; parameters are copied into them beforehand."""
        found: dict[int, list[tuple[str, View]]] = {}
        for name, view in self._tape.state:
            found.setdefault(view.buffer, []).append((name, view))
        packed = {}
        for number, entries in found.items():
            view = entries[0][1]
            alike = all(other == view and self._around.state[name].strides == view.strides for name, other in entries)
            inside = all(other.end_bytes <= view.end_bytes for other in self._views.get(number, ()))
            if not (alike and inside and view.offset == 0):
                packed[number] = entries
        return packed

    def _pack(self, number: int, sources: Sequence[str]) -> None:
        """Copy parameters side by side into one buffer."""
        entries = self._packed[number]
        view = self._body.covering(number)
        self._body.make(view, "packed" if len(entries) > 1 else entries[0][0], self._body.empty(view))
        for source, (_, part) in zip(sources, entries):
            self._body.line(f"{self._body.tensor(part)}.copy_({source})")

    def _enter_inputs(self) -> None:
        """Find variables for the call's tensors; of tensors that share memory, the one that reaches furthest is the
        base.
        """
        body = self._body
        for name, view in zip(self._parameters, self._tape.inputs):
            body.known.setdefault(view, name)
            base = body.bases.get(view.buffer)
            if base is None or view.end_bytes - view.offset > base.view.end_bytes - base.view.offset:
                body.bases[view.buffer] = Base(name, view, is_own=False)

    def _device(self) -> str:
        """Return the text of the device that the call runs on."""
        body = self._body
        if self._parameters:
            return f"{self._parameters[0]}.device"
        held = [base.name for base in body.bases.values() if not base.is_own]
        held += [state_path(name) for name in (*(name for name, _ in self._tape.state), *self._around.constructor)]
        return f"{held[0]}.device" if held else 'torch.device("cuda")'

    def _strides(self) -> Text:
        return tuple_of([numbers(view.strides) for view in self._tape.inputs])

    def _results(self) -> Text:
        tape = self._tape
        kind = next((kind for kind in ("tensor", "list", "tuple") if kind in tape.tree), "")
        made = {number for number, _ in made_by(tape.steps)}
        own = [view.buffer for view in tape.outputs if view.buffer in made]
        written = {number for step in tape.steps for number in effect_of(step, self._around.written).writes}
        plain = len(set(own)) == len(tape.outputs) and written <= made and not tape.rebound and tape.outputs
        nested = kind != "tensor" and [item.get("tensor") for item in tape.tree.get(kind, ())] != [*range(len(own))]
        if not kind or not plain or nested:
            return ""
        return tuple_of(["torch.Tensor" if kind == "tensor" else kind, *(form(view) for view in tape.outputs)])

    # -- steps -----------------------------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step], first: int, stay: set[int]) -> None:
        """Write the steps; `first` is the number of the first step, `stay` are the buffers needed after the last
        one.
        """
        stay = stay | {number for step in steps for number in addressed(step)}
        ending = {number for number, _ in made_by(steps)} - stay
        last = {number: at for at, step in enumerate(steps) for number in mentioned(step)}
        for at, step in enumerate(steps):
            if isinstance(step, Allocate):
                if self._is_used(step.buffer, steps[at + 1 :], stay):
                    view = self._body.covering(step.buffer)
                    self._body.make(view, self._hints.get(step.buffer, "memory"), self._body.empty(view))
            elif isinstance(step, Constant):
                self._constant(step)
            elif isinstance(step, Operate):
                self._operate(step)
            else:
                self._launch(step.choices[self._chosen.get(first + at, 0)])
            if any(isinstance(later, (Allocate, Operate)) for later in steps[at + 1 :]):
                self._body.delete(number for number, end in last.items() if end == at and number in ending)

    def _is_used(self, number: int, later: Sequence[Step], stay: set[int]) -> bool:
        """Return whether allocated memory is used; an operator's result may replace it, or nothing may mention it."""
        using = next((step for step in later if number in mentioned(step)), None)
        if isinstance(using, Operate):
            return all(view is None or view.buffer != number for view in new_results(using))
        return using is not None or number in stay

    def _constant(self, step: Constant) -> None:
        body = self._body
        view = body.covering(step.buffer)
        item_bytes = DTYPES[view.dtype].itemsize
        if len(step.data) % item_bytes or view.elements > VALUES_AT_MOST or not is_contiguous(view):
            view = View(buffer=step.buffer, dtype="uint8", shape=(len(step.data),), strides=(1,), offset=0)
        if step.relocations:
            view = View(buffer=step.buffer, dtype="int64", shape=(len(step.data) // 8,), strides=(1,), offset=0)
        size_bytes = view.elements * DTYPES[view.dtype].itemsize
        if view.elements > VALUES_AT_MOST or size_bytes > len(step.data):
            raise NotEmitted(f"{len(step.data):,} bytes of values that the file would have to spell out")
        values = torch.frombuffer(bytearray(step.data), dtype=torch.uint8) if step.data else torch.empty(0).byte()
        items: Any = values[:size_bytes].view(DTYPES[view.dtype]).reshape(view.shape).tolist()
        for at, address in step.relocations:
            items[at // 8] = body.address(address)
        wanted = self._hints.get(step.buffer, "table" if step.relocations else "constant")
        body.make(view, wanted, call("torch.tensor", [_spelled(items), f"dtype=torch.{view.dtype}", "device=device"]))
        body.needs_device = True

    def _operate(self, step: Operate) -> None:
        if step.operator == ATTENTION:
            self._attention(step)
            return
        body = self._body
        arguments = [self._value(value) for value in step.args]
        arguments += [prefixed(f"{name}=", self._value(value)) for name, value in step.kwargs]
        text = call(f"torch.ops.{step.operator}", arguments)
        returns = schema_of(step.operator).returns
        results = new_results(step)
        views = [view for view in results if view is not None]
        if not views:
            body.line(text)
        elif len(returns) == 1 and returns[0].type.kind() == "TensorType":
            body.make(views[0], self._wanted(step, views[0]), text)
        elif len(returns) in (1, len(results)):
            names = ["_" if view is None else body.names.fresh(self._wanted(step, view)) for view in results]
            body.line(prefixed(f"{', '.join(names)}{',' * (len(names) == 1)} = ", text))
            for name, view in zip(names, results):
                if view is not None:
                    body.hold(view, name)
        else:
            raise NotEmitted(f"{step.operator} returns tensors and lists of them")
        if kind_of(step.operator) == "heavy":
            for view in views:
                self._lay_out(view)

    def _wanted(self, step: Operate, view: View) -> str:
        return self._hints.get(view.buffer, step.operator.split(".")[1].strip("_"))

    def _lay_out(self, view: View) -> None:
        """Bring a library's result into the strides of the tape, which may differ on another device."""
        name = self._body.bases[view.buffer].name
        self._body.line(call(f"{name} = {LAYOUT}", [name, numbers(view.strides)]))

    def _attention(self, step: Operate) -> None:
        """Let torch choose the implementation on the device; the second result is needed by a backward pass only."""
        first, second = step.results[0], step.results[1]
        assert first is not None
        if second is not None and any(second in views_of(other) for other in self._tape.steps if other is not step):
            raise NotEmitted("the row maxima of torch's attention are used, which it gives on a CPU only")
        names = [argument.name for argument in schema_of(step.operator).arguments]
        given = {name: value for name, value in zip(names, step.args)} | dict(step.kwargs)
        arguments: list[Text] = [self._value(given.pop(name)) for name in names[:3]]
        arguments += [prefixed(f"{name}=", self._value(value)) for name, value in given.items()]
        text = call("torch.nn.functional.scaled_dot_product_attention", arguments)
        self._body.make(first, self._hints.get(first.buffer, "attention"), text)
        self._lay_out(first)

    def _launch(self, choice: Choice) -> None:
        """Write a launch; grid, options and trailing constants are given once, outside the function."""
        if choice.kernel in self._around.allocating:
            self._body.line(f"triton.set_allocator({ALLOCATOR})")
        fixed = [
            _is_constant(value) and (choice.kernel, name) not in self._around.loose for name, value in choice.arguments
        ]
        plain = [at for at, is_fixed in enumerate(fixed) if not is_fixed]
        given = plain[-1] + 1 if plain else 0
        kernel = self._around.kernels[choice.kernel]
        constants = (*choice.arguments[given:], *choice.options)
        known = [prefixed(f"{name}=", self._value(value)) for name, value in constants]
        sized = self._sized
        made = (
            call("SizedLaunch", [kernel, *known]) if sized else call("Launch", [kernel, numbers(choice.grid), *known])
        )
        key = (str(made), *self._compiled_for(choice, str(made)))
        if key not in self._around.launches:
            wanted = f"launch_{kernel.removesuffix('_kernel').strip('_')}"
            self._around.launches[key] = self._around.names.fresh(wanted), made
        launch, _ = self._around.launches[key]
        self._constants += [str(self._value(choice.arguments[at][1])) for at in range(given) if fixed[at]]
        first = [sized, numbers(choice.grid)] if sized else []
        self._body.line(call(launch, [*first, *(self._passed(value) for _, value in choice.arguments[:given])]))

    def _compiled_for(self, choice: Choice, made: str) -> tuple[str, ...]:
        """Return what distinguishes this launch from others with equal text, whose kernel may be compiled differently.

        In a plan for a range the numbers depend on the sizes, so each place in the plan has a launch of its own.
        """
        if self._sized:
            self._made[made] += 1
            return self._around.mode, str(self._made[made])
        return tuple(map(_specialisation, (value for _, value in choice.arguments)))

    # -- values ----------------------------------------------------------------------------------------------------

    def _value(self, value: Any) -> Text:
        if isinstance(value, View):
            return self._body.tensor(value)
        if isinstance(value, tuple):
            return Group("[", [self._value(item) for item in value], "]")
        if isinstance(value, Address):
            return self._body.address(value)
        if isinstance(value, Descriptor):
            return self._descriptor(value)
        if isinstance(value, Constexpr):
            return kernel_value(value_from_json(value.value), self._around.kernels)
        if isinstance(value, Named) and value.kind == "device":
            self._body.needs_device = True
            return "device"
        return f"torch.{value.name}" if isinstance(value, Named) else literal(value)

    def _passed(self, value: Any) -> Text:
        """Write an argument of a launch; several values together become a tuple."""
        return tuple_of([self._passed(item) for item in value]) if isinstance(value, tuple) else self._value(value)

    def _descriptor(self, value: Descriptor) -> Text:
        rows = (value.view.shape, value.view.strides, value.block_shape)
        arguments: list[Text] = [self._body.tensor(value.view), *(f"[{', '.join(map(str, row))}]" for row in rows)]
        if value.padding != "zero":
            arguments.append(f"padding={literal(value.padding)}")
        if value.round_f32_to_tf32:
            arguments.append("round_f32_to_tf32=True")
        return call("TensorDescriptor", arguments)

    # -- behind the steps ------------------------------------------------------------------------------------------

    def _copy_back(self) -> None:
        """Copy changed state to the module's own tensors, where the steps work on copies."""
        written = {number for step in self._tape.steps for number in effect_of(step, self._around.written).writes}
        packed = [entry for number in written & self._packed.keys() for entry in self._packed[number]]
        for name, view in (*self._tape.rebound, *packed):
            self._body.line(f"{state_path(name)}.copy_({self._body.tensor(view)})")

    def _count_writes(self) -> None:
        """Count the changes that kernels have made to memory from outside, as operators of torch count their own.

        Torch's norms do not count what they write to running statistics, which a backward pass may have saved.
        """
        uncounted = {view.buffer for name, view in self._tape.state if name.rpartition(".")[2] in RUNNING_STATISTICS}
        launches = [step for step in self._tape.steps if isinstance(step, Launch)]
        written = {number for step in launches for number in effect_of(step, self._around.written).writes}
        bases = [base for number, base in self._body.bases.items() if number in written - uncounted and not base.is_own]
        if bases:
            self._body.line(call(COUNTING, [tuple_of([base.name for base in bases])]))

    def _returned(self, tree: Any) -> Text:
        if "tensor" in tree:
            return self._body.tensor(self._tape.outputs[int(tree["tensor"])])
        if "list" in tree:
            return Group("[", [self._returned(item) for item in tree["list"]], "]")
        if "tuple" in tree:
            return tuple_of([self._returned(item) for item in tree["tuple"]])
        if "dict" in tree:
            items = [prefixed(f"{literal(key)}: ", self._returned(item)) for key, item in tree["dict"]]
            return Group("{", items, "}")
        return literal(float(tree["float"])) if "float" in tree else literal(tree["value"])


def _specialisation(value: Any) -> str:
    """Return the property of an argument that Triton may compile a kernel for: dtype and alignment, or the number."""
    if isinstance(value, tuple):
        return str([*map(_specialisation, value)])
    if isinstance(value, View):
        return f"{value.dtype} {value.begin_bytes % ALIGNMENT}"
    if isinstance(value, Descriptor):
        return f"{value.view.dtype} {value.block_shape} {value.padding}"
    return f"address {value.offset % ALIGNMENT}" if isinstance(value, Address) else repr(value)


def _is_constant(value: Any) -> bool:
    return isinstance(value, Constexpr) or (isinstance(value, tuple) and bool(value) and all(map(_is_constant, value)))


def form(tensor: View | StateTensor | TensorOutline) -> Group:
    """Return shape, dtype and strides in the form that the guard compares."""
    return tuple_of([numbers(tensor.shape), f"torch.{tensor.dtype}", numbers(tensor.strides)])


def state_path(name: str) -> str:
    """Return the expression that reads a parameter or buffer."""
    return f"state[{literal(name)}]"


def tensor_paths(values: Any, path: str, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield for each tensor in an argument its number, the expression that reads it, and a name."""
    if isinstance(values, TensorAt):
        yield values.index, path, name
    elif isinstance(values, dict):
        for key, item in values.items():
            yield from tensor_paths(item, f"{path}[{literal(key)}]", f"{name}_{key}")
    elif isinstance(values, (list, tuple)):
        for at, item in enumerate(values):
            yield from tensor_paths(item, f"{path}[{at}]", f"{name}_{at}")


def argument_paths(given: Outline, parameters: Sequence[str]) -> list[tuple[str, str]]:
    """Return for each tensor of a call the expression that reads it, and a name."""
    found = [item for name, value in zip(parameters, given.values) for item in tensor_paths(value, name, name)]
    if len(found) != len(given.tensors):
        raise NotEmitted("an argument holds tensors in an object of its own class")
    return [(path, name) for _, path, name in sorted(found)]


def _with_device(device: str, statements: list[Text]) -> list[Text]:
    """Return statements that use the variable `device`, with its definition, or with its value if only one uses it."""
    uses = [at for at, text in enumerate(statements) for _ in re.findall(r"(?<!\.)\bdevice\b(?!=)", str(text))]
    if len(uses) == 1:
        at = uses[0]
        inlined = replaced(statements[at], "device=device", f"device={device}")
        if str(inlined) != str(statements[at]):
            return [*statements[:at], inlined, *statements[at + 1 :]]
    return [f"device = {device}", *statements]


def _hints(tape: Tape) -> dict[int, str]:
    """Return names for buffers: those of the kernels' parameters that they are passed to."""
    found: dict[int, str] = {}
    for step in (*tape.steps, *tape.prologue):
        for name, value in step.choices[0].arguments if isinstance(step, Launch) else ():
            short = name.lower().removesuffix("ptr").removesuffix("pointer").strip("_") or name
            for number in buffers_in(value):
                if len(short) > 1 or number not in found:
                    found.setdefault(number, short)
    return found


def _spelled(items: Any) -> Text:
    if isinstance(items, list):
        return Group("[", [_spelled(item) for item in items], "]")
    return items if isinstance(items, str) else literal(items)  # a text is an address already
