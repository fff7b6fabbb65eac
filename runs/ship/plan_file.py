"""From tapes to a Python file that does what they say: `class ModelNew`, its kernels, and one plan for each known call.

    plans_of(evaluator, source) -> text

A plan is straight-line code: allocations, operators of torch and launches on local variables. Nothing of the Python
that the tapes were made from is in the file, except the kernels as their author wrote them. The file imports torch and
triton only. Its parameters and buffers have the reference's names. A call of another form raises `NotImplementedError`,
and gradients are not followed. Not covered (`NotEmitted`): arguments in classes of the user's own, random numbers drawn
when the module is prepared, and constants too long to spell out.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.judged import JUDGED, judged
from triton_agent.runs.ship.plan import Plan, PlanWriter, Surroundings, argument_paths
from triton_agent.runs.ship.plan import form as form_of
from triton_agent.runs.ship.python_text import WIDTH, Group, Names, Text, call, lines, literal, prefixed, tuple_of
from triton_agent.runs.ship.source.source_parts import Parts, joined
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator
from triton_agent.tools.kernels import modules as kernel_modules
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.processes.protocol import StateTensor, TapedModule
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.outline import Opaque, Outline, TensorAt, TensorOutline, from_json
from triton_agent.tools.tape.slicing import effect_of
from triton_agent.tools.tape.tape import Descriptor, Launch, Named, Tape, decode

LAUNCHING = Parts(Path(__file__).with_name("launching.py").read_text(encoding="utf-8"))
"""What plans are written with; a file has those definitions that it needs."""
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
        "plan_for",
    ),
    *(*JUDGED, *LAUNCHING.bound()),
)
"""Names of the module that no kernel may take."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way in which the module is called, and what it does then."""

    tape: Tape
    call: Outline
    train: bool
    chosen: Mapping[int, int]
    """The configuration of each autotuned launch by the number of its step, as the executor reports it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The reference's module made in one way, as far as the file has to agree with it, and its calls."""

    constructor: Outline
    state: tuple[StateTensor, ...]
    parameters: tuple[str, ...]
    """Names of forward's parameters."""
    forms: list[Form]

    @classmethod
    def read(cls, module: TapedModule) -> Module:
        """Read what the checker sends; the evaluator admitted the tapes."""
        forms = [
            Form(tape=decode(form.tape), call=from_json(form.call), train=form.train, chosen=form.chosen)
            for form in module.forms
        ]
        constructor = from_json(module.constructor)
        return cls(constructor=constructor, state=module.state, parameters=module.parameters, forms=forms)

    def constructor_names(self) -> list[str]:
        """Names under which tensors among the constructor's arguments are kept."""
        taken = {tensor.name.split(".")[0] for tensor in self.state}
        names = []
        for number, _ in enumerate(self.constructor.tensors):
            name = f"constructor_{number}"
            while name in taken:
                name += "_"
            names.append(name)
        return names

    def made_with(self) -> str:
        """What the file compares of the constructor's arguments; empty where they are not plain."""
        try:
            positional, keywords = self.constructor.values
            given = (tuple(positional), keywords)
            return str(tuple_of([_fact(value, self.constructor.tensors) for value in given]))
        except NotEmitted:
            return ""


def plans_of(evaluator: AnyEvaluator, source: str, names: Sequence[str] = ()) -> str:
    """Return the file of a candidate, with plans for all sets of inputs or those named; raise `NotEmitted`."""
    if isinstance(evaluator, SetsEvaluator):
        found = evaluator.tapes(source, names or None)
    else:
        found = evaluator.tapes(source)
    if found.message:
        raise NotEmitted(found.message)
    return file_of(found.modules)


def file_of(data: Sequence[TapedModule]) -> str:
    """Return the text of a file for modules as `Evaluator.tapes` hands them out; raise `NotEmitted`."""
    kernels = KernelSet()
    for form in (form for module in data for form in module.forms):
        kernels = kernels.merged(KernelSet.from_json(form.kernels))
    written = WrittenParameters(kernels)
    modules = _told_apart([_as_called(Module.read(module), written) for module in data])
    kernel_text = kernel_modules.build(kernels, taken=OWN_NAMES)
    parts = Parts(kernel_text.text)
    names = Names({*OWN_NAMES, *parts.bound()})
    allocating: set[str] = set()  # kernels that make descriptors on the device, themselves or in what they call
    for identity, function in kernels.ordered():
        if "make_tensor_descriptor" in function.source or allocating & set(function.references()):
            allocating.add(identity)
    launches: dict[str, str] = {}
    plans: list[list[Plan]] = []
    for module in modules:
        around = Surroundings(
            state={tensor.name: tensor for tensor in module.state},
            constructor=module.constructor_names(),
            kernels=kernel_text.names,
            launches=launches,
            allocating=frozenset(allocating),
            written=written,
            names=names,
        )
        plans.append(
            [PlanWriter(form.tape, _tensor_names(form, module), around, form.chosen).plan() for form in module.forms]
        )
    functions, calls, rows = _functions([plan for some in plans for plan in some], names)
    remaining = iter(calls)
    tables = [_tables(module, [next(remaining) for _ in module.forms], at) for at, module in enumerate(modules)]
    if len(modules) > 1:
        others = enumerate(modules[1:], 2)
        smaller = [tuple_of([module.made_with(), f"STATE_{at}", f"plan_for_{at}"]) for at, module in others]
        tables.append("\n".join(["# at the sizes of the check", *lines(prefixed("SMALLER = ", tuple_of(smaller)), 0)]))
    table = [line for name, row in rows.items() for line in lines(Group(f'"{name}": (', row, "),"), 4)]
    definitions = joined([part for part in parts.parts if not part.imports], {})
    launched = [line for text, name in launches.items() for line in f"{name} = {text}".split("\n")]
    body = "\n".join(line for function in functions for line in function)
    needed = "\n".join([body, *launched])
    helpers = [part for part in LAUNCHING.parts if any(re.search(rf"\b{name}\b", needed) for name in part.binds)]
    sections = [
        definitions,
        *(part.text for part in helpers if not part.imports),
        "\n".join(launched),
        *("\n".join(function) for function in functions),
        *tables,
        "\n".join(["CALLS = {", "    # strides of the tensors that each plan takes, what it returns", *table, "}"]),
        judged(several=len(modules) > 1),
    ]
    head = '"""One plan for each known call, written by triton-agent from what the calls were seen to do."""'
    used = {name for part in helpers for name in part.binds}
    imports = "\n".join(_imports(modules, parts, definitions + needed, used))
    return f"{head}\n\n{imports}\n\n\n" + "\n\n\n".join(section for section in sections if section)


def _told_apart(modules: Sequence[Module]) -> list[Module]:
    """Modules that are made otherwise, the first ones first, and each with all of its calls.

    Where two differ although they are made with the same arguments, as by constants of the problem's file, only the
    first has a place in the file.
    """
    found: dict[str, Module] = {}
    for module in modules:
        known = found.setdefault(module.made_with(), module)
        if known is not module and known.state == module.state:
            known.forms.extend(module.forms)
    return list(found.values())


def _as_called(module: Module, written: WrittenParameters) -> Module:
    """Leave out other layouts of the arguments, which were not measured; a module that changes them keeps its calls."""
    for form in module.forms:
        inputs = {view.buffer for view in form.tape.inputs}
        if any(effect_of(step, written).writes & inputs for step in form.tape.steps):
            return module
    first = [*_conditions(module.forms[0])]
    known: dict[bool, Form] = {}
    for form in module.forms:
        if [*_conditions(form)] == first:
            known.setdefault(form.train, form)
    return dataclasses.replace(module, forms=[*known.values()])


def _conditions(form: Form) -> Iterator[str]:
    for number, value in enumerate(form.call.values):
        yield from _checks(f"args[{number}]", value, form.call.tensors)


def _imports(modules: Sequence[Module], parts: Parts, text: str, helpers: set[str]) -> Iterator[str]:
    if "kept" in helpers:
        yield "import functools"
    if helpers:
        yield "from typing import Any\n"
    yield from ("import torch", "import triton", "import triton.language as tl")
    for module in sorted(set(re.findall(r"\btl\.(extra(?:\.\w+)*)\.\w+", text))):
        yield f"import triton.language.{module}"
    steps = [step for module in modules for form in module.forms for step in (*form.tape.prologue, *form.tape.steps)]
    choices = [choice for step in steps if isinstance(step, Launch) for choice in step.choices]
    values = [value for choice in choices for _, value in choice.arguments]
    if any(isinstance(item, Descriptor) for value in values for item in (value if type(value) is tuple else (value,))):
        yield "from triton.tools.tensor_descriptor import TensorDescriptor"
    if "kept" in helpers:
        yield "from torch.utils.weak import WeakIdKeyDictionary"
    own = kernel_modules.HEADER.splitlines()
    yield from (part.text for part in parts.parts if part.imports and part.text not in own)


def _given_names(forms: Sequence[Form], module: Module) -> list[str]:
    """Return names for the arguments of these calls."""
    names = Names({*OWN_NAMES, "training"})
    count = max(len(form.call.values) for form in forms)
    return [names.fresh(name) for name in (*module.parameters, *["argument"] * count)[:count]]


def _tensor_names(form: Form, module: Module) -> list[str]:
    """Return names for the tensors of this call."""
    names = Names(OWN_NAMES)
    return [names.fresh(name) for _, name in argument_paths(form.call, _given_names([form], module))]


def _functions(plans: Sequence[Plan], names: Names) -> tuple[list[list[str]], list[str], dict[str, list[Text]]]:
    """Return the functions, equal ones once; for each plan the name of the one to call; the table of these."""
    functions: list[list[str]] = []
    prepares: dict[tuple[str, ...], str] = {}
    known: dict[tuple[Any, ...], str] = {}
    calls: list[str] = []
    rows: dict[str, list[Text]] = {}
    for plan in plans:
        if plan.prologue and plan.prologue not in prepares:
            prepares[plan.prologue] = name = names.fresh("prepare")
            first, *others = plan.prologue
            functions.append(["@kept", f"def {name}{first}", *others])
        prepare = prepares.get(plan.prologue, "")
        key = (prepare, plan.body, plan.parameters)
        if key not in known:
            known[key] = name = names.fresh("call")
            signature = call(f"def {name}", ["state", *plan.parameters])
            head = lines(Group(signature.opening, signature.items, "):"), 0)
            functions.append([*head, *(line.replace("{prepare}", prepare) for line in plan.body)])
            rows[name] = [name, plan.strides, plan.results or "None"]
        calls.append(known[key])
    return functions, calls, rows


# -- which call has which plan -----------------------------------------------------------------------------------------


def _tables(module: Module, calls: Sequence[str], at: int) -> str:
    """Return the module's state, and a function that finds the plan of a call.

    Arguments that share memory make the same call as others that do not, and run the plan of these.
    """
    suffix = f"_{at + 1}" if at else ""
    rows = [line for t in module.state for line in lines(prefixed(f"{literal(t.name)}: ", _kind_and_form(t)), 4)]
    state = [f"STATE{suffix} = {{", *(row if row.endswith(("(", ",")) else f"{row}," for row in rows), "}"]
    if not rows:
        state = [f"STATE{suffix} = {{}}"]
    given = _given_names(module.forms, module)
    alike = len({len(form.call.values) for form in module.forms}) == 1
    found: dict[tuple[str, ...], tuple[str, dict[bool, str]]] = {}
    for form, name in zip(module.forms, calls):
        own = given if alike else [f"args[{number}]" for number in range(len(form.call.values))]
        checks = [] if alike else [f"len(args) == {len(own)}"]
        for path, value in zip(own, form.call.values):
            checks += _checks(path, value, form.call.tensors)
        paths = argument_paths(form.call, own)
        tensors = str(tuple_of([path for path, _ in paths]))
        found.setdefault(tuple(checks), (tensors, {}))[1].setdefault(form.train, name)
    absent = [f"{name}=..." for name in given] if alike else ["*args"]  # an argument left out is no None
    signature = call(f"def plan_for{suffix}", ["training", *absent])
    text = [*lines(Group(signature.opening, signature.items, "):"), 0)]
    text.append('    """Return the plan of a call and the tensors that it takes; None where there is no plan."""')
    for conditions, (tensors, by_mode) in found.items():
        one = len(by_mode) == 2 and len(set(by_mode.values())) == 1
        for train, name in [*by_mode.items()][: 1 if one else None]:
            mode = [] if one else ["training" if train else "not training"]
            text += _if([*mode, *conditions], f"return {name}, {tensors}")
    return "\n".join([*state, "", "", *text, "    return None"])


def _if(checks: Sequence[str], then: str) -> list[str]:
    together = f"    if {' and '.join(checks) or 'True'}:"
    if len(together) <= WIDTH:
        return [together, f"        {then}"]
    first, *others = checks
    return ["    if (", f"        {first}", *(f"        and {text}" for text in others), "    ):", f"        {then}"]


def _kind_and_form(tensor: StateTensor) -> Group:
    is_number = DTYPES[tensor.dtype].is_floating_point or DTYPES[tensor.dtype].is_complex
    kind = "buffer" if tensor.is_buffer or not is_number else "parameter"
    return tuple_of([f'"{kind}"', *form_of(tensor).items])


def _checks(path: str, value: Any, tensors: Sequence[TensorOutline]) -> Iterator[str]:
    """Conditions under which an argument is this one."""
    if isinstance(value, TensorAt):
        shape, dtype, strides = form_of(tensors[value.index]).items
        yield f"isinstance({path}, torch.Tensor)"
        yield from (f"{path}.shape == {shape}", f"{path}.stride() == {strides}", f"{path}.dtype is {dtype}")
    elif isinstance(value, (list, tuple)):
        yield from (f"type({path}) is {type(value).__name__}", f"len({path}) == {len(value)}")
        for at, item in enumerate(value):
            yield from _checks(f"{path}[{at}]", item, tensors)
    elif isinstance(value, dict):
        yield from (f"type({path}) is dict", f"list({path}) == [{', '.join(map(literal, value))}]")
        for key, item in value.items():
            yield from _checks(f"{path}[{literal(key)}]", item, tensors)
    elif isinstance(value, Opaque):
        raise NotEmitted(f"an argument that is a {value.kind}")
    elif isinstance(value, Named):
        yield from (f"type({path}) is torch.{value.kind}", f"{path} == torch.{value.name}")
    elif value is None or isinstance(value, bool):
        yield f"{path} is {value}"
    else:
        yield from (f"type({path}) is {type(value).__name__}", f"{path} == {literal(value)}")


def _fact(value: Any, tensors: Sequence[TensorOutline]) -> Text:
    """What `_fact` in a judged file finds of such an argument of the constructor."""
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
