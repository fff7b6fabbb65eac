"""A module as read from its tapes: how it is constructed and called, and the plans of these calls.

      Module.read(taped) -> the calls of one module that the checker sent
      Kernels(taped_modules).plan(form, module) -> the plan of one form of call

Not covered (`NotEmitted`): arguments in classes of the user's own.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.ship.copied.judged import JUDGED
from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.plan import Loose, Plan, PlanWriter, Surroundings, argument_paths
from triton_agent.runs.ship.plan import form as form_of
from triton_agent.runs.ship.python_text import Group, Names, Text, literal, tuple_of
from triton_agent.runs.ship.source.source_parts import Parts
from triton_agent.runs.ship.tape_reading import repeats, row_major
from triton_agent.tools.kernels import modules as kernel_modules
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import JitFunction, KernelSet
from triton_agent.tools.problem.named_tuples import is_named
from triton_agent.tools.problem.size_range import SizeRange
from triton_agent.tools.processes.protocol import StateTensor, TapedModule
from triton_agent.tools.tape.outline import Opaque, Outline, TensorAt, TensorOutline, from_json
from triton_agent.tools.tape.slicing import effect_of
from triton_agent.tools.tape.tape import Named, Tape, decode

LAUNCHING = Parts((Path(__file__).parent / "copied" / "launching.py").read_text(encoding="utf-8"))
"""Definitions that plans use; a file has those that it needs."""
OWN_NAMES = (
    *(
        "torch",
        "nn",
        "functools",
        "Any",
        "TensorDescriptor",
        "WeakIdKeyDictionary",
        "STATE",
        "CALLS",
        "SMALLER",
        "TIED",
        "plan_for",
    ),
    *(*JUDGED, *LAUNCHING.bound()),
)
"""Names in a file of plans that no kernel may take."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of call of the module, and its tape."""

    tape: Tape
    call: Outline
    train: bool
    chosen: Mapping[int, int]
    """The configuration of each autotuned launch by the number of its step, as the executor reports it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The reference's module, constructed with certain arguments: its state, and its forms of call."""

    constructor: Outline
    state: tuple[StateTensor, ...]
    parameters: tuple[str, ...]
    """Names of forward's parameters."""
    forms: list[Form]

    @classmethod
    def read(cls, module: TapedModule) -> Module:
        """Read a module that the checker sent; its tapes were admitted by the evaluator."""
        forms = [
            Form(tape=decode(form.tape), call=from_json(form.call), train=form.train, chosen=form.chosen)
            for form in module.forms
        ]
        constructor = from_json(module.constructor)
        return cls(constructor=constructor, state=module.state, parameters=module.parameters, forms=forms)

    def constructor_names(self) -> list[str]:
        """Return the names under which tensors among the constructor's arguments are kept."""
        taken = {tensor.name.split(".")[0] for tensor in self.state}
        names = []
        for number, _ in enumerate(self.constructor.tensors):
            name = f"constructor_{number}"
            while name in taken:
                name += "_"
            names.append(name)
        return names

    def made_with(self) -> str:
        """Return what the file compares of the constructor's arguments; empty if they are not plain data."""
        try:
            positional, keywords = self.constructor.values
            given = (tuple(positional), keywords)
            return str(tuple_of([_fact(value, self.constructor.tensors) for value in given]))
        except NotEmitted:
            return ""


class Kernels:
    """The kernels of some modules, with the names and launches of the file that will hold them."""

    def __init__(
        self, data: Sequence[TapedModule], ranges: Sequence[SizeRange] = (), loose: Collection[Loose] = ()
    ) -> None:
        """Turn the `loose` compile-time arguments into plain ones, in the kernels' texts as well."""
        kernels = KernelSet()
        for form in (form for module in data for form in module.forms):
            kernels = kernels.merged(KernelSet.from_json(form.kernels))
        self.written = WrittenParameters(kernels)
        self.loose = loose
        loosened = {
            identity: _loosened(kernels.functions[identity], loose)
            for identity, _ in loose
            if identity in kernels.functions
        }
        referred = {name for function in kernels.functions.values() for name in function.references()}
        kept = [
            function for identity, function in kernels.functions.items() if identity not in loosened.keys() - referred
        ]
        built = kernel_modules.build(KernelSet.of([*kept, *loosened.values()]), taken=OWN_NAMES)
        own_names = {identity: built.names[function.identity] for identity, function in loosened.items()}
        self.parts, self._kernel_names = Parts(built.text), {**built.names, **own_names}
        self.names = Names({*OWN_NAMES, *self.parts.bound()})
        taken = {name for module in data for name in module.parameters}
        self.variables = [
            self.names.fresh(f"{one.variable}_" if one.variable in taken else one.variable) for one in ranges
        ]
        self._allocating: set[str] = set()  # kernels that make descriptors, themselves or in what they call
        for identity, function in kernels.ordered():
            if "make_tensor_descriptor" in function.source or self._allocating & set(function.references()):
                self._allocating.add(identity)
        self.launches: dict[tuple[str, ...], tuple[str, Group]] = {}

    def plan(self, form: Form, module: Module, *, sized: str = "", mode: str = "") -> Plan:
        """Write the plan of one form of call; `sized` and `mode` are as in `Surroundings`."""
        around = Surroundings(
            state={tensor.name: tensor for tensor in module.state},
            constructor=module.constructor_names(),
            kernels=self._kernel_names,
            launches=self.launches,
            allocating=frozenset(self._allocating),
            written=self.written,
            names=self.names,
            sized=sized,
            loose=self.loose,
            mode=mode,
        )
        return PlanWriter(form.tape, tensor_names(form, module), around, form.chosen).plan()


def _loosened(function: JitFunction, loose: Collection[Loose]) -> JitFunction:
    """Return the kernel with its loose compile-time arguments as plain ones."""
    names = {name for identity, name in loose if identity == function.identity}
    parameters = [
        dataclasses.replace(parameter, annotation="") if parameter.name in names else parameter
        for parameter in function.parameters
    ]
    return dataclasses.replace(function, parameters=tuple(parameters))


def as_called(module: Module, written: WrittenParameters) -> Module:
    """Leave out calls that look like earlier ones, and other layouts of the arguments, which were not measured, unless
    the module writes to its arguments.

    Dense arguments stay where the first call has repeated ones, since no other numbers fit into these.
    """
    first, any_layout = module.forms[0], any(_writes_to_inputs(form, written) for form in module.forms)
    kept = [[*_conditions(one)] for one in (first, dataclasses.replace(first, call=_dense(first.call)))]
    known: dict[tuple[bool, str], Form] = {}
    for form in module.forms:
        conditions = [*_conditions(form)]
        if any_layout or conditions in kept:
            known.setdefault((form.train, "\n".join(conditions)), form)
    modes = {form.train: form.tape for form in known.values() if form.call == first.call}
    if len(modes) == 2 and modes[True] == modes[False]:  # other layouts were traced in one mode, and the other is alike
        for (train, seen), form in list(known.items()):
            known.setdefault((not train, seen), dataclasses.replace(form, train=not train))
    return dataclasses.replace(module, forms=[*known.values()])


def _dense(call: Outline) -> Outline:
    """Return the call with dense tensors in place of those that repeat elements in memory."""
    tensors = (
        dataclasses.replace(it, strides=row_major(it.shape)) if repeats(it.shape, it.strides) else it
        for it in call.tensors
    )
    return dataclasses.replace(call, tensors=tuple(tensors))


def _writes_to_inputs(form: Form, written: WrittenParameters) -> bool:
    inputs = {view.buffer for view in form.tape.inputs}
    return any(effect_of(step, written).writes & inputs for step in form.tape.steps)


def _conditions(form: Form) -> Iterator[str]:
    for number, value in enumerate(form.call.values):
        yield from checks_of(f"args[{number}]", value, form.call.tensors)


def given_names(calls: Sequence[Outline], module: Module) -> list[str]:
    """Return names for the arguments of these calls."""
    names = Names({*OWN_NAMES, "training"})
    count = max(len(known.values) for known in calls)
    return [names.fresh(name) for name in (*module.parameters, *["argument"] * count)[:count]]


def tensor_names(form: Form, module: Module) -> list[str]:
    """Return names for the tensors of this call."""
    names = Names(OWN_NAMES)
    return [names.fresh(name) for _, name in argument_paths(form.call, given_names([form.call], module))]


# -- conditions --


def checks_of(path: str, value: Any, tensors: Sequence[TensorOutline]) -> Iterator[str]:
    """Yield the conditions under which an argument equals this value."""
    if isinstance(value, TensorAt):
        shape, dtype, strides = form_of(tensors[value.index]).items
        yield f"isinstance({path}, torch.Tensor)"
        yield from (f"{path}.shape == {shape}", f"{path}.stride() == {strides}", f"{path}.dtype is {dtype}")
    elif is_named(value):
        yield f"type({path}).__name__ == {literal(type(value).__name__)}"
        yield f'getattr({path}, "_fields", None) == {tuple(value._fields)!r}'
        for at, item in enumerate(value):
            yield from checks_of(f"{path}[{at}]", item, tensors)
    elif isinstance(value, (list, tuple)):
        yield from (f"type({path}) is {type(value).__name__}", f"len({path}) == {len(value)}")
        for at, item in enumerate(value):
            yield from checks_of(f"{path}[{at}]", item, tensors)
    elif isinstance(value, dict):
        yield from (f"type({path}) is dict", f"list({path}) == [{', '.join(map(literal, value))}]")
        for key, item in value.items():
            yield from checks_of(f"{path}[{literal(key)}]", item, tensors)
    elif isinstance(value, Opaque):
        raise NotEmitted(f"an argument that is a {value.kind}")
    elif isinstance(value, Named):
        yield from (f"type({path}) is torch.{value.kind}", f"{path} == torch.{value.name}")
    elif value is None or isinstance(value, bool):
        yield f"{path} is {value}"
    else:
        yield from (f"type({path}) is {type(value).__name__}", f"{path} == {literal(value)}")


def _fact(value: Any, tensors: Sequence[TensorOutline]) -> Text:
    """Return what `_fact` of a judged file returns for this argument of the constructor."""
    if isinstance(value, TensorAt):
        return form_of(tensors[value.index])
    if isinstance(value, (list, tuple)):
        return tuple_of([type(value).__name__, *(_fact(item, tensors) for item in value)])
    if isinstance(value, dict):
        return tuple_of(["dict", *(tuple_of([literal(key), _fact(item, tensors)]) for key, item in value.items())])
    if isinstance(value, types.SimpleNamespace):
        return tuple_of([literal("SimpleNamespace"), _fact(vars(value), tensors)])
    if isinstance(value, Named):
        return tuple_of([f"torch.{value.kind}", f"torch.{value.name}"])
    if isinstance(value, Opaque):
        raise NotEmitted(f"an argument that is a {value.kind}")
    return tuple_of(["type(None)" if value is None else type(value).__name__, literal(value)])
