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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.plan import (
    ALLOCATOR,
    LAYOUT,
    Plan,
    PlanWriter,
    Surroundings,
    tensor_paths,
)
from triton_agent.runs.ship.plan_body import numbers
from triton_agent.runs.ship.python_text import (
    Group,
    Names,
    Text,
    attribute,
    call,
    is_plain,
    lines,
    literal,
    tuple_of,
)
from triton_agent.runs.ship.source.source_parts import Parts, joined
from triton_agent.runs.ship.tape_reading import row_major
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator
from triton_agent.tools.kernels import modules as kernel_modules
from triton_agent.tools.kernels.effects import WrittenParameters
from triton_agent.tools.kernels.kernel import KernelSet
from triton_agent.tools.processes.protocol import StateTensor, TapedModule
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.outline import Opaque, Outline, TensorAt, TensorOutline, from_json
from triton_agent.tools.tape.tape import Descriptor, Launch, Named, Tape, decode

PLANS = "_plans"
FACT = "_fact"
OWN_NAMES = ("torch", "nn", "ModelNew", "TensorDescriptor", FACT, LAYOUT, ALLOCATOR)
"""Names of the module that no kernel may take."""
FACT_TEXT = f'''
def {FACT}(value):
    """Key that tells calls apart: shape, dtype and strides of a tensor, type and value of anything else."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.stride()
    if isinstance(value, (list, tuple)):
        return (type(value), *map({FACT}, value))
    if isinstance(value, dict):
        return (dict, *((key, {FACT}(item)) for key, item in value.items()))
    return type(value), value
'''
LAYOUT_TEXT = f'''
def {LAYOUT}(tensor, strides):
    """The tensor with these strides, which a library may choose otherwise on another device."""
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
'''
ALLOCATOR_TEXT = f'''
def {ALLOCATOR}(size, alignment, stream):
    """Memory that a kernel needs for its own descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
'''
FORWARD_TEXT = f"""
    def forward(self, *args):
        plan = self.{PLANS}.get((self.training, *map({FACT}, args)))
        if plan is None:
            known = "\\n".join(map(str, self.{PLANS}))
            raise NotImplementedError(f"no plan for this call; known are (train mode, arguments):\\n{{known}}")
        return plan(self, *args)
"""


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
        names = Names({tensor.name.split(".")[0] for tensor in self.state})
        return [names.fresh(f"constructor_{number}") for number, _ in enumerate(self.constructor.tensors)]

    def made_with(self) -> str:
        """What the file compares of the constructor's arguments; empty where they are not plain."""
        try:
            positional, keywords = self.constructor.values
            given = (tuple(positional), keywords)
            return ", ".join(str(_fact(value, self.constructor.tensors)) for value in given)
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
    modules = _told_apart([Module.read(module) for module in data])
    kernels = KernelSet()
    for form in (form for module in data for form in module.forms):
        kernels = kernels.merged(KernelSet.from_json(form.kernels))
    kernel_text = kernel_modules.build(kernels, taken=OWN_NAMES)
    parts = Parts(kernel_text.text)
    names = Names({*OWN_NAMES, *parts.bound()})
    allocating: set[str] = set()  # kernels that make descriptors on the device, themselves or in what they call
    for identity, function in kernels.ordered():
        if "make_tensor_descriptor" in function.source or allocating & set(function.references()):
            allocating.add(identity)
    plans: list[list[Plan]] = []
    for module in modules:
        around = Surroundings(
            state={tensor.name: tensor for tensor in module.state},
            constructor=[f"self.{name}" for name in module.constructor_names()],
            kernels=kernel_text.names,
            allocating=frozenset(allocating),
            written=WrittenParameters(kernels),
            names=names,
        )
        plans.append(
            [
                PlanWriter(form.tape, form.call, _parameters(form, module, names), around, form.chosen).plan()
                for form in module.forms
            ]
        )
    taken = {tensor.name.split(".")[0] for module in modules for tensor in module.state}
    methods, calls = _methods([plan for some in plans for plan in some], taken)
    body = "\n".join(line for method in methods for line in method)
    definitions = joined([part for part in parts.parts if not part.imports], {})
    helpers = [(LAYOUT, LAYOUT_TEXT), (ALLOCATOR, ALLOCATOR_TEXT)]
    head = '"""One plan for each known call, written by triton-agent from what the calls were seen to do."""'
    imports = "\n".join(_imports(modules, parts, definitions + body))
    gap = "\n\n\n" if definitions.startswith(("@", "def ")) else "\n\n"
    remaining = iter(calls)
    tables = [_table(module, [next(remaining) for _ in module.forms], at) for at, module in enumerate(modules)]
    return "\n\n\n".join(
        [
            f"{head}\n\n{imports}{gap}{definitions}" if definitions else f"{head}\n\n{imports}",
            *(text.strip("\n") for name, text in helpers if f"{name}(" in body or f"({name})" in body),
            FACT_TEXT.strip("\n"),
            "\n".join(_class_lines(modules, methods)),
            "\n".join([*tables, ""]),
        ]
    )


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


def _imports(modules: Sequence[Module], parts: Parts, text: str) -> Iterator[str]:
    yield from ("import torch", "import triton", "import triton.language as tl")
    for module in sorted(set(re.findall(r"\btl\.(extra(?:\.\w+)*)\.\w+", text))):
        yield f"import triton.language.{module}"
    yield "from torch import nn"
    steps = [step for module in modules for form in module.forms for step in (*form.tape.prologue, *form.tape.steps)]
    choices = [choice for step in steps if isinstance(step, Launch) for choice in step.choices]
    values = [value for choice in choices for _, value in choice.arguments]
    if any(isinstance(item, Descriptor) for value in values for item in (value if type(value) is tuple else (value,))):
        yield "from triton.tools.tensor_descriptor import TensorDescriptor"
    own = kernel_modules.HEADER.splitlines()
    yield from (part.text for part in parts.parts if part.imports and part.text not in own)


def _parameters(form: Form, module: Module, names: Names) -> list[str]:
    """Names for the arguments of this call."""
    mine = names.copy()
    given = [*module.parameters, *("argument" for _ in form.call.values)]
    return [mine.fresh(name) for name, _ in zip(given, form.call.values)]


# -- the class ---------------------------------------------------------------------------------------------------------


def _methods(plans: Sequence[Plan], taken: set[str]) -> tuple[list[list[str]], list[str]]:
    """Return the methods of the class, equal ones once, and for each plan the name of the one that is called."""
    names = Names(taken)
    methods: list[list[str]] = []
    prepares: dict[tuple[str, ...], str] = {}
    known: dict[tuple[Any, ...], str] = {}
    calls: list[str] = []
    for plan in plans:
        if plan.prologue and plan.prologue not in prepares:
            name = f"_{names.fresh('prepare')}"
            prepares[plan.prologue] = name
            head = [
                f"    def {name}(self, device):",
                '        """Return what calls need of parameters and constants; anew when parameters changed."""',
            ]
            methods.append([*head, *(line.replace("{prepared}", f"{name}d") for line in plan.prologue)])
        prepare = prepares.get(plan.prologue, "")
        key = (prepare, plan.body, plan.parameters)
        if key not in known:
            known[key] = f"_{names.fresh('call')}"
            signature = call(f"def {known[key]}", ["self", *plan.parameters])
            head = [*lines(Group(signature.opening, signature.items, "):"), 4)]
            methods.append([*head, *(line.replace("{prepare}", prepare) for line in plan.body)])
        calls.append(known[key])
    return methods, calls


def _class_lines(modules: Sequence[Module], methods: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "class ModelNew(nn.Module):"
    yield '    """Computes what the reference computes, in the calls listed below it; without gradients."""'
    yield ""
    yield "    def __init__(self, *args, **kwargs):"
    yield "        super().__init__()"
    for at, module in enumerate(modules):
        if at:  # made otherwise, and with calls of its own
            yield f"        {'if' if at == 1 else 'elif'} ({FACT}(args), {FACT}(kwargs)) == ({module.made_with()}):"
            yield f"            self.{PLANS} = self.{PLANS}_{at + 1}"
            yield from (f"    {line}" for line in _construction(module))
    made = list(_construction(modules[0]))
    if len(modules) > 1 and made:
        yield "        else:"
        yield from (f"    {line}" for line in made)
    else:
        yield from made
    for method in methods:
        name = method[0].split("(")[0].removeprefix("    def ")
        if name.startswith("_prepare"):
            yield f"        self.{name}d = None"
    yield FORWARD_TEXT.rstrip("\n")
    for method in methods:
        yield ""
        yield from method


def _construction(module: Module) -> Iterator[str]:
    """Parameters and buffers by the reference's names, in containers without behaviour."""
    positional, keywords = module.constructor.values
    found = [*tensor_paths(list(positional), "args", ""), *tensor_paths(keywords, "kwargs", "")]
    if len(found) != len(module.constructor.tensors):
        raise NotEmitted("the constructor takes tensors in an object of a class of its own")
    for (_, path, _), name in zip(sorted(found), module.constructor_names()):
        yield from lines(call("self.register_buffer", [literal(name), path, "persistent=False"]), 8)
    made = {""}
    for tensor in module.state:
        *owners, leaf = tensor.name.split(".")
        path, owner = "", "self"
        for part in owners:
            path = f"{path}.{part}"
            if path not in made:
                made.add(path)
                is_named = is_plain(part)
                yield (
                    f"        {owner}.{part} = nn.Module()"
                    if is_named
                    else f'        {owner}.add_module("{part}", nn.Module())'
                )
            owner = attribute(owner, part)
        yield from lines(_registration(tensor, owner, leaf), 8)


def _registration(tensor: StateTensor, owner: str, leaf: str) -> Text:
    contiguous = row_major(tensor.shape) == tensor.strides
    rows = [numbers(tensor.shape), *([] if contiguous else [numbers(tensor.strides)])]
    empty = call("torch.empty" if contiguous else "torch.empty_strided", [*rows, f"dtype=torch.{tensor.dtype}"])
    if tensor.is_buffer or not (DTYPES[tensor.dtype].is_floating_point or DTYPES[tensor.dtype].is_complex):
        return call(f"{owner}.register_buffer", [literal(leaf), empty])
    parameter = call("nn.Parameter", [empty, "requires_grad=False"])
    if is_plain(leaf):
        return Group(f"{owner}.{leaf} = {parameter.opening}", parameter.items, parameter.closing)
    return call(f"{owner}.register_parameter", [literal(leaf), parameter])


# -- the table of calls ------------------------------------------------------------------------------------------------


def _table(module: Module, calls: Sequence[str], at: int) -> str:
    """Each known call with its method.

    Arguments that share memory make the same call as others that do not, and run the plan of these.
    """
    items: list[str] = ["    # train mode; of each argument shape, dtype and strides, or type and value"]
    known: set[str] = set()
    for form, method in zip(module.forms, calls):
        key = tuple_of([str(form.train), *(_fact(value, form.call.tensors) for value in form.call.values)])
        if str(key) not in known:
            known.add(str(key))
            items += lines(Group(key.opening, key.items, f"): ModelNew.{method},"), 4)
    return "\n".join([f"ModelNew.{PLANS}{f'_{at + 1}' if at else ''} = {{", *items, "}"])


def _fact(value: Any, tensors: Sequence[TensorOutline]) -> Text:
    """What `_fact` in the file finds of such an argument."""
    if isinstance(value, TensorAt):
        tensor = tensors[value.index]
        return tuple_of([numbers(tensor.shape), f"torch.{tensor.dtype}", numbers(tensor.strides)])
    if isinstance(value, (list, tuple)):
        return tuple_of([type(value).__name__, *(_fact(item, tensors) for item in value)])
    if isinstance(value, dict):
        return tuple_of(["dict", *(tuple_of([literal(key), _fact(item, tensors)]) for key, item in value.items())])
    if isinstance(value, Named):
        return tuple_of([f"torch.{value.kind}", f"torch.{value.name}"])
    if isinstance(value, Opaque):
        raise NotEmitted(f"an argument that is a {value.kind}")
    return tuple_of(["type(None)" if value is None else type(value).__name__, literal(value)])
