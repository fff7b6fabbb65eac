"""From tapes to a Python file that does what they say: `class ModelNew`, its kernels, and one plan for each known call.

    emit([Form(tape=tape, call=outline, train=False)], kernels, ModelOutline(...)) -> text

A plan is straight-line code: allocations, operators of torch and launches on local variables. Nothing of the Python
that the tapes were made from is in the file, except the kernels as their author wrote them. The file imports torch and
triton only. Its parameters and buffers have the reference's names. A call of another form raises `NotImplementedError`,
and gradients are not followed. Not covered (`NotEmitted`): arguments in classes of the user's own, random numbers drawn
when the module is prepared, and constants too long to spell out.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from triton_agent.tools.isolate.tensors import DTYPES
from triton_agent.tools.tape import kernel_modules
from triton_agent.tools.tape.kernel_effects import WrittenParameters
from triton_agent.tools.tape.kernels import KernelSet
from triton_agent.tools.tape.outline import Outline, TensorAt, TensorOutline
from triton_agent.tools.tape.plan_text import ALLOCATOR, LAYOUT, NotEmitted, Plan, StateTensor, Surroundings, plan_of
from triton_agent.tools.tape.python_text import Group, Names, Text, attribute, call, is_plain, lines, literal, tuple_of
from triton_agent.tools.tape.tape import Descriptor, Launch, Tape
from triton_agent.tools.tape.tape_reading import row_major

__all__ = ["Form", "ModelOutline", "NotEmitted", "StateTensor", "emit"]

PLANS = "_plans"
FACT = "_fact"
OWN_NAMES = ("torch", "nn", "ModelNew", "TensorDescriptor", FACT, LAYOUT, ALLOCATOR)
"""Names of the module that no kernel may take."""
FACT_TEXT = f'''
def {FACT}(value):
    """What tells calls apart: of a tensor its shape, dtype and strides, of anything else its type and value."""
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
    chosen: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The configuration of each autotuned launch by the number of its step, as the executor reports it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutline:
    """The reference's module, as far as the file has to agree with it."""

    state: tuple[StateTensor, ...]
    constructor: Outline
    parameters: tuple[str, ...] = ()
    """Names of forward's parameters."""


def emit(forms: Sequence[Form], kernels: KernelSet, model: ModelOutline) -> str:
    """The text of a file; raises `NotEmitted`."""
    module = kernel_modules.build(kernels, taken=OWN_NAMES)
    names = Names({*OWN_NAMES, *_bound_in(module.text)})
    around = Surroundings(
        state={tensor.name: tensor for tensor in model.state},
        constructor=[f"self.{name}" for name in _constructor_names(model)],
        kernels=module.names,
        allocating=_allocating(kernels),
        written=WrittenParameters(kernels),
        names=names,
    )
    plans = [plan_of(form.tape, form.call, _parameters(form, model, names), around, form.chosen) for form in forms]
    methods, calls = _methods(plans, {tensor.name.split(".")[0] for tensor in model.state})
    rest = module.text.removeprefix(kernel_modules.HEADER).strip("\n")
    body = "\n".join(line for method in methods for line in method)
    helpers = [
        text
        for name, text in ((LAYOUT, LAYOUT_TEXT), (ALLOCATOR, ALLOCATOR_TEXT))
        if f"{name}(" in body or f"({name})" in body
    ]
    sections = [
        '"""One plan for each known call, written by triton-agent from what the calls were seen to do."""',
        "\n".join([*_imports(forms, rest + body), *_import_lines(rest)]),
        _without_imports(rest),
        *(text.strip("\n") for text in (*helpers, FACT_TEXT)),
        "\n".join(_class_lines(model, methods)),
    ]
    text = "\n\n\n".join([*_joined_head(sections[:2], sections[2]), *sections[3:]])
    return f"{text}\n\n\n{_table(forms, calls)}\n"


# -- the module --------------------------------------------------------------------------------------------------------


def _joined_head(head: Sequence[str], kernels: str) -> Iterator[str]:
    starts = kernels.startswith(("@", "def "))
    yield "\n\n".join([*head, *([] if starts or not kernels else [kernels])])
    if starts:
        yield kernels


def _imports(forms: Sequence[Form], text: str) -> Iterator[str]:
    yield from ("import torch", "import triton", "import triton.language as tl")
    for module in sorted(set(re.findall(r"\btl\.(extra(?:\.\w+)*)\.\w+", text))):
        yield f"import triton.language.{module}"
    yield "from torch import nn"
    if any(isinstance(value, Descriptor) for form in forms for value in _launch_arguments(form.tape)):
        yield "from triton.tools.tensor_descriptor import TensorDescriptor"


def _launch_arguments(tape: Tape) -> Iterator[Any]:
    for step in (*tape.prologue, *tape.steps):
        for choice in step.choices if isinstance(step, Launch) else ():
            for _, value in choice.arguments:
                yield from value if isinstance(value, tuple) else (value,)


def _import_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith(("import ", "from "))]


def _without_imports(text: str) -> str:
    """Bindings and kernels, two empty lines between definitions."""
    tree = ast.parse(text)
    rows = text.split("\n")
    parts: list[str] = []
    end = 0
    for node in tree.body:
        start = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))]) - 1
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            end = node.end_lineno or node.lineno
            continue
        above = [row for row in rows[end:start] if row.strip()]
        end = node.end_lineno or node.lineno
        parts.append("\n".join([*above, *rows[start:end]]))
    left = "\n".join(row for row in rows[end:] if row.strip())
    text = ""
    for part in [*parts, *([left] if left else [])]:
        defines = part.startswith(("@", "def "))
        text += part if not text else f"\n\n\n{part}" if defines else f"\n{part}"
    return text


def _bound_in(text: str) -> set[str]:
    found = {"triton", "tl"}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


def _allocating(kernels: KernelSet) -> frozenset[str]:
    """Kernels that make descriptors on the device, themselves or in what they call."""
    found: set[str] = set()
    for identity, function in kernels.ordered():
        if "make_tensor_descriptor" in function.source or found & set(function.references()):
            found.add(identity)
    return frozenset(found)


# -- the class ---------------------------------------------------------------------------------------------------------


def _parameters(form: Form, model: ModelOutline, names: Names) -> list[str]:
    """Names for the arguments of this call."""
    mine = names.copy()
    given = [*model.parameters, *("argument" for _ in form.call.values)]
    return [mine.fresh(name) for name, _ in zip(given, form.call.values)]


def _methods(plans: Sequence[Plan], taken: set[str]) -> tuple[list[list[str]], list[str]]:
    """The methods of the class, equal ones once, and for each plan the one that is called."""
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


def _class_lines(model: ModelOutline, methods: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "class ModelNew(nn.Module):"
    yield '    """Computes what the reference computes, in the calls listed below it; without gradients."""'
    yield ""
    yield "    def __init__(self, *args, **kwargs):"
    yield "        super().__init__()"
    yield from _construction(model)
    for method in methods:
        name = method[0].split("(")[0].removeprefix("    def ")
        if name.startswith("_prepare"):
            yield f"        self.{name}d = None"
    yield FORWARD_TEXT.rstrip("\n")
    for method in methods:
        yield ""
        yield from method


def _construction(model: ModelOutline) -> Iterator[str]:
    """Parameters and buffers by the reference's names, in containers without behaviour."""
    for given, name in zip(_constructor_paths(model.constructor), _constructor_names(model)):
        yield from lines(call("self.register_buffer", [literal(name), given, "persistent=False"]), 8)
    made = {""}
    for tensor in model.state:
        *owners, leaf = tensor.name.split(".")
        path, owner = "", "self"
        for part in owners:
            path = f"{path}.{part}"
            if path not in made:
                made.add(path)
                child = "nn.Module()"
                yield (
                    f"        {owner}.{part} = {child}"
                    if is_plain(part)
                    else f'        {owner}.add_module("{part}", {child})'
                )
            owner = attribute(owner, part)
        yield from lines(_registration(tensor, owner, leaf), 8)


def _registration(tensor: StateTensor, owner: str, leaf: str) -> Text:
    contiguous = row_major(tensor.shape) == tensor.strides
    shape = [str(tuple_of([str(size) for size in tensor.shape]))]
    if not contiguous:
        shape.append(str(tuple_of([str(stride) for stride in tensor.strides])))
    empty = call("torch.empty" if contiguous else "torch.empty_strided", [*shape, f"dtype=torch.{tensor.dtype}"])
    if tensor.is_buffer or not (DTYPES[tensor.dtype].is_floating_point or DTYPES[tensor.dtype].is_complex):
        return call(f"{owner}.register_buffer", [literal(leaf), empty])
    parameter = call("nn.Parameter", [empty, "requires_grad=False"])
    if is_plain(leaf):
        return Group(f"{owner}.{leaf} = {parameter.opening}", parameter.items, parameter.closing)
    return call(f"{owner}.register_parameter", [literal(leaf), parameter])


def _constructor_names(model: ModelOutline) -> list[str]:
    names = Names({tensor.name.split(".")[0] for tensor in model.state})
    return [names.fresh(f"constructor_{number}") for number, _ in enumerate(model.constructor.tensors)]


def _constructor_paths(constructor: Outline) -> list[str]:
    """How the tensors among the constructor's arguments are reached."""
    found: dict[int, str] = {}

    def look(value: Any, path: str) -> None:
        if isinstance(value, TensorAt):
            found[value.index] = path
        elif isinstance(value, dict):
            for key, item in value.items():
                look(item, f"{path}[{literal(key)}]")
        elif isinstance(value, (list, tuple)):
            for at, item in enumerate(value):
                look(item, f"{path}[{at}]")

    positional, keywords = constructor.values
    look(list(positional), "args")
    look(keywords, "kwargs")
    if len(found) != len(constructor.tensors):
        raise NotEmitted("the constructor takes tensors in an object of a class of its own")
    return [found[index] for index in sorted(found)]


# -- the table of calls ------------------------------------------------------------------------------------------------


def _table(forms: Sequence[Form], calls: Sequence[str]) -> str:
    """Each known call with its method."""
    items: list[str] = ["    # train mode; of each argument shape, dtype and strides, or type and value"]
    known: set[str] = set()
    for form, method in zip(forms, calls):
        facts = [_fact(value, form.call.tensors) for value in form.call.values]
        key = tuple_of([str(form.train), *facts])
        if str(key) in known:
            continue
        known.add(str(key))
        items += lines(Group(key.opening, key.items, f"): ModelNew.{method},"), 4)
    return "\n".join([f"ModelNew.{PLANS} = {{", *items, "}"])


def _fact(value: Any, tensors: Sequence[TensorOutline]) -> Text:
    """What `_fact` in the file finds of such an argument."""
    if isinstance(value, TensorAt):
        tensor = tensors[value.index]
        shape, strides = (str(tuple_of([str(size) for size in row])) for row in (tensor.shape, tensor.strides))
        return tuple_of([shape, f"torch.{tensor.dtype}", strides])
    if type(value) in (list, tuple):
        return tuple_of([type(value).__name__, *(_fact(item, tensors) for item in value)])
    if isinstance(value, dict):
        return tuple_of(["dict", *(tuple_of([literal(key), _fact(item, tensors)]) for key, item in value.items())])
    if value is None:
        return tuple_of(["type(None)", "None"])
    if type(value) in (bool, int, float, str):
        return tuple_of([type(value).__name__, literal(value)])
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return tuple_of([f"torch.{type(value).__name__}", str(value)])
    raise NotEmitted(f"an argument that is a {type(value).__name__}")
