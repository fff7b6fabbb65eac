"""Puts the shipped file together: kernels, plans, the reference, guard and evidence, needing torch and triton only.

      ship(problem, plans, facts, draft=...) -> the file's text
      switched_on(text) -> a draft whose guard admits the kernels; drafts are judged in this form
      forced(text) -> the file without its guard; kernels are judged in this form

The kernels come with a plan for each verified call, written from the calls' tapes (`plan_file.py`); none of the
candidate's other Python is in the file. Imports are moved to the top, and names that two sections would both use are
changed. `copied/machinery.py` holds the guard, which reads generated constants and the generated function `plan_for`;
`evidence.py` writes the header. To be judged, the file ends with the class of `copied/judged.py`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from triton_agent.runs.ship import evidence
from triton_agent.runs.ship.copied.judged import JUDGED, judged
from triton_agent.runs.ship.facts import COUNTING, CallForm, Gpu, ShippedFacts
from triton_agent.runs.ship.source.original import ORIGINAL, Original, take_out
from triton_agent.runs.ship.source.source_parts import Import, Part, Parts, import_block, is_docstring, joined
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Determinism, Environment

MARKER = "# -- which calls run the kernels"
"""Line of `machinery.py` at which the copied text begins."""
SMALLER = "\nSMALLER = "
"""Beginning of the table of plans at the sizes of the check, in files that have such plans."""
FEATURES = (
    "ORDER_IS_FREE",
    "CALLS_LIBDEVICE",
    "SERVES_RANGES",
    "REPLAYS_GRAPHS",
    "TAKES_COMPLEX",
    "HAS_TIES",
    "WRITES",
    "HOLDS_OBJECTS",
)
"""Features of some files. An `if` of the guard that begins with such a name is copied into these files only, without
the name."""
UNUSED = "\0"
"""Placeholder for a line of the guard that a file does not need."""
IN_ORDER = "def _in_order("
CONSTRUCTOR = "def _constructor("
"""Beginnings of functions that tell which parameter an argument is for; files leave out those that they do not need."""
MODEL = "# -- the model"
"""Line of `machinery.py` in front of which a file with CUDA graphs has the text of `graph_replay.py`."""
GRAPHS = "# -- CUDA graphs"
"""Line of `graph_replay.py` at which the copied text begins."""
PLAIN = "_plain"
"""Function of the guard for constructors that take objects of the user's classes; other files leave it out."""
COMPILERS = frozenset({"torch.compile", "torch.jit.script", "torch.jit.script_if_tracing", "torch.jit.ignore"})
"""Compilers that a reference may use and that no judged file may contain."""


def ship(problem: ProblemSpec, plans: str, facts: ShippedFacts, *, draft: bool) -> str:
    """Return the text of `<name>_optimized.py`. A draft's kernels run only when asked for."""
    machinery = _machinery()
    written, reserved = Parts(plans), reserved_names(problem)
    changes = _changes(written, reserved)
    taken = {changes.get(name, name): target for name, target in bound_names(written).items()}
    original = take_out(problem, {**reserved, **taken})
    docstring = _docstring(problem, facts, original, draft=draft)
    kernels, launching, calls, known = _plan_sections(written, changes)
    constants = _constants(problem, plans, facts, original, draft=draft)
    plain, guard = _plain_and_guard(machinery, _features(plans, facts), constants)
    if not facts.call.holds_objects:
        guard = _with_parts_of("plain_attributes.py", guard, without=("Held", "_inside", "_reached"))
    if facts.call.is_bare:
        guard = _with_parts_of("bare_guard.py", guard, without=("OF_TENSORS", "_reached", "_verified_state"))
    if facts.cuda_graph:
        graphs = _copied("graph_replay.py")
        guard = guard.replace(MODEL, f"{graphs.text[graphs.text.index(GRAPHS) :].strip()}\n\n\n{MODEL}", 1)
    if PLAIN in constants:
        constants = f"{plain}\n\n\n{constants}"
    imports = _imports(written, changes, original, machinery, f"{constants}\n{guard}")
    sections = [
        "\n\n".join([docstring, imports, _titled("the kernels", kernels)]),
        _titled("launching them", launching),
        _titled("the verified calls, step by step", calls),
        _titled("the reference", original.text),
        _titled("what was verified", f"{constants}\n{known}"),
        guard,
    ]
    if original.class_name != "ModelNew":
        sections.append(f"{original.class_name} = ModelNew")
    return "\n\n\n".join(section for section in sections if section) + "\n"


def is_shipped(text: str) -> bool:
    """Return whether `ship` made this file."""
    return all(f"\n{part}" in text for part in (f"class ModelNew({ORIGINAL}):", "USE_KERNELS = ", MARKER))


def has_cuda_graphs(text: str) -> bool:
    """Return whether a shipped file replays its calls as CUDA graphs."""
    return f"\n{GRAPHS}" in text


def switched_on(text: str) -> str:
    """Return a draft whose guard admits the kernels, as after `use_kernels = "always"`."""
    return f'{_uncompiled(text)}\n\nModelNew.use_kernels = "always"\n'


def forced(text: str) -> str:
    """Return a shipped file with its kernels in place of the guard, so that they are judged; other files unchanged.

    The result serves only the calls that were verified, so it has to be evaluated with `as_given`.
    """
    if not is_shipped(text):
        return text
    before_guard = text[: text.index(f"\n{MARKER}")].rstrip("\n")
    return f"{_uncompiled(before_guard)}\n\n\n{judged(several=SMALLER in text)}"


def _uncompiled(text: str) -> str:
    """Return the text without compilers around the reference; the functions that they wrap compute the same.

    Only the judged text is changed: in the shipped file the reference stays as its owner wrote it.
    """
    if not any(name in text for name in COMPILERS):
        return text
    return ast.unparse(_Uncompiled().visit(ast.parse(text))) + "\n"


class _Uncompiled(ast.NodeTransformer):
    """Removes decorators of compilers, and replaces calls of compilers by their first argument."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = [item for item in node.decorator_list if not _is_compiler(item)]
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list = [item for item in node.decorator_list if not _is_compiler(item)]
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return node.args[0] if _is_compiler(node) and node.args else node


def _is_compiler(node: ast.expr) -> bool:
    """Return whether an expression is `torch.compile`, `torch.compile(...)` or `functools.partial(torch.compile,
    ...)`.
    """
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "partial":
        return bool(node.args) and _is_compiler(node.args[0])
    return ast.unparse(node.func if isinstance(node, ast.Call) else node) in COMPILERS


# -- names -------------------------------------------------------------------------------------------------------------


def _machinery() -> Parts:
    return _copied("machinery.py")


@functools.cache
def _copied(name: str) -> Parts:
    return Parts((Path(__file__).parent / "copied" / name).read_text(encoding="utf-8"))


def reserved_names(problem: ProblemSpec) -> dict[str, str]:
    """Return names that neither plans nor reference may take: builtins, and the names of machinery and class."""
    names = dict.fromkeys(dir(builtins), "") | bound_names(_machinery()) | bound_names(_copied("graph_replay.py"))
    names |= dict.fromkeys(("STATE", "TIED", "CALLS", "SMALLER", *JUDGED), "")
    return names | dict.fromkeys((problem.class_name or "Model", ORIGINAL, "ModelNew"), "")


def bound_names(parts: Parts) -> dict[str, str]:
    """Return the names that the top level binds, each with the import it comes from."""
    names = {name: "" for part in parts.parts if not part.imports for name in part.binds}
    return names | {item.local: item.target for part in parts.parts for item in part.imports}


def _changes(written: Parts, reserved: dict[str, str]) -> dict[str, str]:
    """Return new names for kernels whose names are reserved."""
    bound, changes = bound_names(written), dict[str, str]()
    for name, target in bound.items():
        if name in reserved and not _is_of_the_plans(name) and not (target and reserved[name] == target):
            new = f"kernels_{name.lstrip('_')}"
            while new in bound or new in reserved:
                new += "_"
            changes[name] = new
    return changes


def _is_of_the_plans(name: str) -> bool:
    """Return whether a name of a file of plans is one that the guard and the judged class use."""
    return name in JUDGED or bool(re.fullmatch(r"(STATE|plan_for)(_\d+)?|TIED|CALLS|SMALLER|layout_of_\w+", name))


# -- sections ----------------------------------------------------------------------------------------------------------


def _titled(title: str, text: str) -> str:
    gap = "\n\n\n" if text.startswith(("def ", "class ", "@", "async def ")) else "\n\n"
    return f"# -- {title} {'-' * (114 - len(title))}{gap}{text}" if text else ""


def _docstring(problem: ProblemSpec, facts: ShippedFacts, original: Original, *, draft: bool) -> str:
    text = evidence.header(problem, facts, original.class_name, original.notes, draft=draft)
    plain = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{plain}\n"""'


def _imports(candidate: Parts, changes: dict[str, str], original: Original, machinery: Parts, text: str) -> str:
    """Return the imports of all parts; those of the guard only where `text`, the guard of this file, needs them."""
    parts = (*machinery.parts, *_copied("graph_replay.py").parts)
    items = [item for part in parts for item in part.imports if re.search(rf"\b{item.local}\b", text)]
    items = [*(item for part in candidate.parts for item in part.imports), *items]
    items = [item for item in items if item.module != "__future__" and not item.module.startswith("triton_agent")]
    block = import_block([*(_with_local(item, changes) for item in items), *original.imports])
    future = candidate.future or original.future
    return f"from __future__ import annotations\n\n{block}" if future else block


def _with_local(item: Import, changes: dict[str, str]) -> Import:
    local = changes.get(item.local, item.local)
    renames = item.renames or local != item.local
    return Import(local=local, module=item.module, name=item.name, renames=renames)


def _plan_sections(written: Parts, changes: dict[str, str]) -> tuple[str, str, str, str]:
    """Return the texts of the kernels, of their launches, of the plans, and of the tables of calls."""
    launching = ("Launch", "SizedLaunch", "kept", "with_strides", "allocate")
    sections: tuple[list[Part], ...] = ([], [], [], [])
    for part in written.parts:
        name = next(iter(part.binds), "")
        if part.imports or is_docstring(part) or name in JUDGED:
            continue
        if name in launching:
            sections[1].append(part)
        elif _is_of_the_plans(name):
            sections[3].append(part)
        else:
            is_plan = sections[1] or {"Launch", "SizedLaunch"} & part.mentions
            sections[2 if is_plan else 0].append(part)
    kernels, helpers, calls, known = (joined(parts, changes) for parts in sections)
    return kernels, helpers, calls, known


def _plain_and_guard(machinery: Parts, features: Collection[str], constants: str) -> tuple[str, str]:
    """Return the function for objects of the user's classes, which few files need, and the rest of the guard."""
    plain = next(part.text for part in machinery.parts if PLAIN in part.binds)
    lines = machinery.text.split("\n")
    for node in ast.walk(machinery.tree):
        if isinstance(node, ast.If) and (name := ast.unparse(node.test).split(" and ")[0]) in FEATURES:
            first = lines[node.lineno - 1]
            lines[node.lineno - 1] = first.replace(f"if {name} and ", "if ")
            if name not in features:
                lines[node.lineno - 1 : node.end_lineno] = [UNUSED] * (
                    (node.end_lineno or node.lineno) - node.lineno + 1
                )
    text = "\n".join(line for line in lines if line != UNUSED)
    text = text[text.index(MARKER) :].strip("\n").replace(f"{plain}\n\n\n", "")
    if "WRITES" not in features:
        overlap = next(part.text for part in machinery.parts if "_overlap" in part.binds)
        text = text.replace(f"{overlap}\n\n\n", "")
    if IN_ORDER not in constants:
        text = text.replace("*_in_order(*args, **kwargs)", "*args, **kwargs")
    if CONSTRUCTOR not in constants:
        text = text.replace("_constructor(*args, **kwargs)", "(args, kwargs)")
    return plain, text


def _with_parts_of(file: str, guard: str, *, without: Collection[str]) -> str:
    """Return the guard with the parts of another file in place of those of the same names."""
    replacing = {name: part for part in _copied(file).parts if not part.imports for name in part.binds}
    for part in Parts(guard).parts:
        name = next(iter(part.binds), "")
        if name in replacing:
            guard = guard.replace(part.text, replacing[name].text)
        elif name in without:
            gap = "\n\n\n" if part.text.startswith(("def ", "class ")) else "\n"
            guard = guard.replace(f"{part.text}{gap}", "")
    return guard


def _features(plans: str, facts: ShippedFacts) -> set[str]:
    found = {"ORDER_IS_FREE": not _is_deterministic(plans, facts), "CALLS_LIBDEVICE": "libdevice" in plans}
    found |= {"SERVES_RANGES": "\ndef layout_of_" in plans, "REPLAYS_GRAPHS": facts.cuda_graph}
    found |= {"TAKES_COMPLEX": "complex" in plans, "HAS_TIES": "\nTIED = {" in plans, "WRITES": COUNTING in plans}
    found |= {"HOLDS_OBJECTS": facts.call.holds_objects}
    return {name for name, has in found.items() if has}


def _constants(
    problem: ProblemSpec, candidate_source: str, facts: ShippedFacts, original: Original, *, draft: bool
) -> str:
    """Return the constants that the guard compares."""
    call, environment = facts.call, facts.evaluation.environment
    digest = hashlib.sha256(f"{problem.digest}{candidate_source}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    operator = f"{_slug(original.class_name)}_{digest}"
    constructor = original.constructor
    if constructor is None and call.constructed:
        constructor = f"{CONSTRUCTOR}*args: Any, **kwargs: Any) -> Any:\n    return (args, kwargs)"
    if constructor and "SimpleNamespace(" in (call.constructed or ""):
        head, _, values = constructor.rpartition("return ")
        constructor = f"{head}return {PLAIN}({values})"
    rows = {} if draft or facts.gpu is None else {measured_on(facts.gpu, environment): True}
    lines = [
        *([constructor, "", ""] if constructor else []),
        *([] if _is_in_order(call, candidate_source) else [*_in_order(call), "", ""]),
        f"USE_KERNELS = {_quoted('never' if draft else 'verified')}",
        "# a model that was made with other arguments runs the reference",
        f"CONSTRUCTED = {_construction(call) if constructor or call.constructed is None else '((), {})'}",
        "# whether the kernels were faster than the reference, by GPU, its compute capability, torch and triton",
        measured_table(rows),
        "# how torch was set: whether products of float32 may be TF32, the dtype of autocast, and the default one",
        f"TF32 = {environment.precision == 'tf32'}",
        f"AUTOCAST = {f'torch.{environment.autocast}' if environment.autocast else None}",
        f"DEFAULT_DTYPE = torch.{call.default_dtype}",
        f"OPERATOR = {_quoted(operator)}  # the kernels' name in graphs of torch.compile",
    ]
    return "\n".join(lines)


def measured_on(gpu: Gpu, environment: Environment) -> str:
    """Return the key of the table MEASURED for this GPU with these versions, as text."""
    return measured_key(gpu.name, gpu.capability, _minor(environment.torch), _minor(environment.triton))


def measured_key(name: str, capability: tuple[int, int], torch: str, triton: str) -> str:
    return f"({_quoted(name)}, {capability}, {_quoted(torch)}, {_quoted(triton)})"


def measured_table(rows: Mapping[str, bool]) -> str:
    """Return the constant that says on which GPUs the kernels were faster than the reference."""
    return (
        "\n".join(["MEASURED = {", *(f"    {key}: {faster}," for key, faster in rows.items()), "}"])
        if rows
        else "MEASURED = {}"
    )


def _in_order(call: CallForm) -> list[str]:
    """Return a function that puts the arguments of a call in the order of forward's parameters.

    Arguments that the verified calls leave out at the end are left out where they have their default.
    """
    defaults = {name: repr(call.defaults[name]) if name in call.defaults else "..." for name in call.parameters}
    given = [f"{name}: Any = {default}" for name, default in defaults.items()]
    names, at = [*call.parameters], len(call.parameters) - call.keyword_only
    if call.keyword_only:
        given.insert(at, "*")
    least = len(names) if call.keyword_only else min((len(one.arguments) for one in call.calls), default=len(names))
    result = _tuple(names[:least])
    for count in range(least + 1, len(names) + 1):
        name, default = names[count - 1], defaults[names[count - 1]]
        is_given = f"{name} is not {default}" if default in ("None", "...") else f"repr({name}) != {default!r}"
        result = f"{_tuple(names[:count])} if {is_given} else {result}"
    return [f"def _in_order({', '.join(given)}) -> Any:", f"    return {result}"]


def _is_in_order(call: CallForm, plans: str) -> bool:
    """Return whether `plan_for` takes the arguments as forward does."""
    given = "".join(f", {name}: Any = ..." for name in call.parameters)
    return not call.keyword_only and not call.defaults and f"\ndef plan_for(training: bool{given}) -> Any:" in plans


def _construction(call: CallForm) -> str:
    if call.constructed is None:
        return "None  # the constructor's arguments cannot be written down: no model is known again"
    return f"_constructor({call.constructed})"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _quoted(text: str) -> str:
    return json.dumps(text)  # a Python literal, too, in double quotes


def _slug(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _is_deterministic(source: str, facts: ShippedFacts) -> bool:
    return facts.evaluation.determinism is not Determinism.DIFFERS and not _uses_atomics(source)


def _uses_atomics(source: str) -> bool:
    """Return whether programs may add in any order, so that two runs may differ in the last bits."""
    names = (node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return any(name.startswith("atomic_") for name in names)
