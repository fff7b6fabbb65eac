"""Writes tapes as a Python file: `class ModelNew`, its kernels, and one plan for each known call.

    plans_of(evaluator, source) -> text

A plan is straight-line code: allocations, operators of torch and launches on local variables. Of the candidate's
Python only the kernels are in the file, as their author wrote them. The file imports torch and triton only. Its
parameters and buffers have the reference's names. A call of another form raises `NotImplementedError`, and gradients
are not supported. Not covered (`NotEmitted`): arguments in classes of the user's own, random numbers drawn when the
module is prepared, and constants too long to write out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from triton_agent.runs.ship.copied.judged import judged
from triton_agent.runs.ship.facts import COUNTING, NotEmitted
from triton_agent.runs.ship.module_forms import LAUNCHING, Kernels, Module, as_called, checks_of, given_names
from triton_agent.runs.ship.plan import Plan, argument_paths
from triton_agent.runs.ship.plan import form as form_of
from triton_agent.runs.ship.python_text import WIDTH, Group, Names, Text, lines, literal, prefixed, tuple_of
from triton_agent.runs.ship.ranges.brackets import Bracket
from triton_agent.runs.ship.ranges.fitting import Unfitted
from triton_agent.runs.ship.ranges.sized_plans import SizedForm, sized_forms
from triton_agent.runs.ship.source.source_parts import Parts, joined
from triton_agent.tools.evaluate.sets_evaluator import AnyEvaluator, SetsEvaluator
from triton_agent.tools.kernels import modules as kernel_modules
from triton_agent.tools.problem.size_range import SizeRange
from triton_agent.tools.processes.protocol import StateTensor, TapedModule
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.tape import Descriptor, Launch, View

TIED_COMMENT = "# parameters and buffers that are the same tensor as another one"
STATE_COMMENT = "# parameters and buffers: kind, shape, dtype, strides"
SMALLER_COMMENT = "# for the check, which was made at smaller sizes: the constructor's arguments, the state, the calls"


def plans_of(evaluator: AnyEvaluator, source: str, names: Sequence[str] = ()) -> str:
    """Return the file of a candidate, with plans for all sets of inputs or those named; raise `NotEmitted`."""
    return file_of(modules_of(evaluator, source, names))


def modules_of(evaluator: AnyEvaluator, source: str, names: Sequence[str] = ()) -> tuple[TapedModule, ...]:
    """Return a candidate's tapes at all sets of inputs, or at the named ones; raise `NotEmitted`."""
    if isinstance(evaluator, SetsEvaluator):
        found = evaluator.tapes(source, names or None)
    else:
        found = evaluator.tapes(source)
    if found.message:
        raise NotEmitted(found.message)
    return found.modules


def file_of(data: Sequence[TapedModule], ranges: Sequence[SizeRange] = (), brackets: Sequence[Bracket] = ()) -> str:
    """Return the text of a file for modules as `Evaluator.tapes` returns them; raise `NotEmitted`.

    With brackets of ranges the file also has a plan for each bracket, and `data` may be empty.
    """
    at_sizes = [module for bracket in brackets for module in bracket.modules.values()]
    loose = frozenset(item for bracket in brackets for item in bracket.loose)
    kernels = Kernels([*data, *at_sizes], ranges, loose)
    names, launches, parts = kernels.names, kernels.launches, kernels.parts
    modules = _told_apart([as_called(Module.read(module), kernels.written) for module in data])
    if not modules:
        modules = [dataclasses.replace(Module.read(at_sizes[0]), forms=[])]
    plans = [[kernels.plan(form, module) for form in module.forms] for module in modules]
    try:
        sized = [form for bracket in brackets for form in sized_forms(bracket, ranges, kernels)]
    except Unfitted as reason:
        raise NotEmitted(str(reason)) from reason
    functions, calls, rows = _functions(
        [*(plan for some in plans for plan in some), *(one.plan for one in sized)], names
    )
    remaining = iter(calls)
    own_calls = [[next(remaining) for _ in module.forms] for module in modules]
    for one, name in zip(sized, remaining):
        one.name = name
    functions += _layouts(sized, rows, names)
    body = "\n".join(line for function in functions for line in function)
    tied = _tied([*modules, *map(Module.read, at_sizes)])
    tables = [_tables(module, own_calls[at], at, () if at else sized) for at, module in enumerate(modules)]
    if tied or COUNTING in body:
        items = [prefixed(f"{literal(name)}: ", literal(first)) for name, first in tied.items()]
        tables.insert(0, "\n".join([TIED_COMMENT, *lines(Group("TIED = {", items, "}"), 0)]))
    if len(modules) > 1:
        others = enumerate(modules[1:], 2)
        smaller = [tuple_of([module.made_with(), f"STATE_{at}", f"plan_for_{at}"]) for at, module in others]
        tables.append("\n".join([SMALLER_COMMENT, *lines(prefixed("SMALLER = ", tuple_of(smaller)), 0)]))
    table = [line for name, row in rows.items() for line in lines(Group(f'"{name}": (', row, "),"), 4)]
    definitions = joined([part for part in parts.parts if not part.imports], {})
    launched = [line for name, made in launches.values() for line in lines(prefixed(f"{name} = ", made), 0)]
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
    at_once = [*modules, *(Module.read(module) for module in at_sizes)]
    imports = "\n".join(_imports(at_once, parts, definitions + needed, used))
    return f"{head}\n\n{imports}\n\n\n" + "\n\n\n".join(section for section in sections if section)


def _tied(modules: Sequence[Module]) -> dict[str, str]:
    """Return for each name of a tensor that has several the first of them, under which plans read it."""
    tied: dict[str, str] = {}
    for tape in (form.tape for module in modules for form in module.forms):
        first: dict[View, str] = {}
        tied |= {name: first[view] for name, view in tape.state if first.setdefault(view, name) != name}
    return tied


def _told_apart(modules: Sequence[Module]) -> list[Module]:
    """Return the modules that are constructed differently, in order, each with all of its calls.

    If two modules differ although they are constructed with equal arguments, for example by constants of the problem's
    file, only the first is part of the file.
    """
    found: dict[str, Module] = {}
    for module in modules:
        known = found.setdefault(module.made_with(), module)
        if known is not module and known.state == module.state:
            known.forms.extend(module.forms)
    return list(found.values())


def _imports(modules: Sequence[Module], parts: Parts, text: str, helpers: set[str]) -> Iterator[str]:
    if "kept" in helpers:
        yield "import functools"
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


def _functions(plans: Sequence[Plan], names: Names) -> tuple[list[list[str]], list[str], dict[str, list[Text]]]:
    """Return the functions without duplicates, the name of the function of each plan, and the table of these."""
    functions: list[list[str]] = []
    prepares: dict[tuple[str, ...], str] = {}
    known: dict[tuple[Any, ...], str] = {}
    calls: list[str] = []
    rows: dict[str, list[Text]] = {}
    for plan in plans:
        made = tuple(map(str, plan.prologue))
        if made and made not in prepares:
            prepares[made] = name = names.fresh("prepare")
            first, *others = plan.prologue
            functions.append(["@kept", *lines(prefixed(f"def {name}", first), 0), *_indented(others)])
        prepare = prepares.get(made, "")
        key = (prepare, tuple(map(str, plan.body)), plan.parameters)
        if key not in known:
            known[key] = name = names.fresh("call")
            given = ["state: dict[str, torch.Tensor]", *(f"{name}: torch.Tensor" for name in plan.parameters)]
            head = lines(Group(f"def {name}(", given, ") -> Any:"), 0)
            functions.append([*head, *(line.replace("{prepare}", prepare) for line in _indented(plan.body))])
            rows[name] = [name, plan.strides, plan.results or "None"]
        calls.append(known[key])
    return functions, calls, rows


def _layouts(sized: Sequence[SizedForm], rows: dict[str, list[Text]], names: Names) -> list[list[str]]:
    """Write functions that say how a plan for a range takes and returns tensors, and enter them into the table."""
    functions = []
    for one in sized:
        if rows[one.name][1] == one.plan.strides:
            name = names.fresh(f"layout_of_{one.name}")
            result = lines(prefixed("return ", tuple_of([one.plan.strides, one.plan.results or "None"])), 4)
            given = [f"{parameter}: torch.Tensor" for parameter in one.plan.parameters]
            head = lines(Group(f"def {name}(", given, ") -> Any:"), 0)
            functions.append([*head, *_indented(one.sizes), *result])
            rows[one.name][1:] = [name, name if one.plan.results else "None"]
    return functions


def _indented(statements: Sequence[Text]) -> list[str]:
    return [line for statement in statements for line in lines(statement, 4)]


# -- which call has which plan -----------------------------------------------------------------------------------------


def _tables(module: Module, calls: Sequence[str], at: int, sized: Sequence[SizedForm]) -> str:
    """Return the module's state, and a function that finds the plan of a call.

    A call whose arguments share memory runs the plan of the equal call whose arguments do not.
    """
    suffix = f"_{at + 1}" if at else ""
    rows = [line for t in module.state for line in lines(prefixed(f"{literal(t.name)}: ", _kind_and_form(t)), 4)]
    state = [
        STATE_COMMENT,
        f"STATE{suffix} = {{",
        *(row if row.endswith(("(", ",")) else f"{row}," for row in rows),
        "}",
    ]
    if not rows:
        state = [f"STATE{suffix} = {{}}"]
    calls_known = [*(form.call for form in module.forms), *(one.call for one in sized)]
    given = given_names(calls_known, module)
    alike = len({len(known.values) for known in calls_known}) == 1
    found: dict[tuple[str, ...], tuple[str, dict[bool, str]]] = {}
    for form, name in zip(module.forms, calls):
        own = given if alike else [f"args[{number}]" for number in range(len(form.call.values))]
        checks = [] if alike else [f"len(args) == {len(own)}"]
        for path, value in zip(own, form.call.values):
            checks += checks_of(path, value, form.call.tensors)
        paths = argument_paths(form.call, own)
        tensors = str(tuple_of([path for path, _ in paths]))
        found.setdefault(tuple(checks), (tensors, {}))[1].setdefault(form.train, name)
    for one in sized:
        found.setdefault(tuple(one.checks), (one.tensors, {}))[1].setdefault(one.train, one.name)
    # An omitted argument differs from None.
    absent = [f"{name}: Any = ..." for name in given] if alike else ["*args: Any"]
    text = [*lines(Group(f"def plan_for{suffix}(", ["training: bool", *absent], ") -> Any:"), 0)]
    text.append('    """Return the plan of a call and the tensors that it takes; None where there is no plan."""')
    for conditions, (tensors, by_mode) in found.items():
        same = len(by_mode) == 2 and len(set(by_mode.values())) == 1
        for train, name in [*by_mode.items()][: 1 if same else None]:
            mode = [] if same else ["training" if train else "not training"]
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
