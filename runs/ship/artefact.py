"""The file that is handed to a user: kernels, original, guard and evidence in one, needing torch and triton only.

    ship(problem, plans, facts, draft=...) -> the file's text
    switched_on(text) -> a draft whose guard admits the kernels, as a draft is judged
    forced(text) -> the same file without its guard, as its kernels are judged

The kernels come with a plan for each verified call, written from the calls' tapes (`plan_file.py`); none of the
candidate's other Python is in the file. Imports go to the top, and names that two parts would both use are changed. The
guard, which all shipped files have in common, is `machinery.py`; the header is `evidence.py`.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import re
from pathlib import Path

from triton_agent.runs.ship import evidence
from triton_agent.runs.ship.facts import Call, CallForm, ShippedFacts, TensorForm
from triton_agent.runs.ship.source.names import renamed
from triton_agent.runs.ship.source.original import ORIGINAL, Original, take_out
from triton_agent.runs.ship.source.source_parts import Import, Parts, import_block, is_docstring, is_script
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Determinism

KERNELS = "KernelModel"
"""Name of the class with the plans in a shipped file."""
MARKER = "# -- which call may run the kernels"
"""The line of `machinery.py` at which the copied part begins."""
SWITCH = "ModelNew = KernelModel"
COMPILERS = frozenset({"torch.compile", "torch.jit.script", "torch.jit.script_if_tracing", "torch.jit.ignore"})
"""Compilers that the reference may be written for, and that no judged file may reach."""


def ship(problem: ProblemSpec, plans: str, facts: ShippedFacts, *, draft: bool) -> str:
    """Return the text of `<name>_optimized.py`. A draft's kernels run only when asked for."""
    machinery = _machinery()
    candidate, reserved = Parts(plans), reserved_names(problem)
    changes = _changes(candidate, reserved)
    taken = {changes.get(name, name): target for name, target in bound_names(candidate).items()}
    original = take_out(problem, {**reserved, **taken})
    docstring = _docstring(problem, facts, original, draft=draft)
    imports = _imports(candidate, changes, original, machinery)
    sections = [
        "\n\n".join([docstring, imports, _titled("the kernels", _kernels(candidate, changes))]),
        _titled("the reference", original.text),
        _titled("what was verified", _constants(problem, plans, facts, original, draft=draft)),
        machinery.text[machinery.text.index(MARKER) :].strip("\n"),
    ]
    if original.class_name != "ModelNew":
        sections.append(f"{original.class_name} = ModelNew")
    return "\n\n\n".join(section for section in sections if section) + "\n"


def is_shipped(text: str) -> bool:
    """Return whether `ship` made this file."""
    return f"\nclass ModelNew({ORIGINAL}):" in text and "\nUSE_KERNELS = " in text


def switched_on(text: str) -> str:
    """Return a draft whose guard admits the kernels, as it does once its owner asks for them."""
    return f'{_uncompiled(text)}\n\nModelNew.use_kernels = "always"\n'


def forced(text: str) -> str:
    """Return a shipped file in which the kernels take the guard's place, so that they are judged; others as they are.

    It serves the calls that it was verified for and no others, so evaluate it with `as_given`.
    """
    return f"{_uncompiled(text)}\n\n{SWITCH}\n" if is_shipped(text) else text


def _uncompiled(text: str) -> str:
    """Return the text without compilers around the reference; what they return computes the same.

    Only the text that is judged is changed: in the file that is handed over the reference stays as its owner wrote it.
    """
    if not any(name in text for name in COMPILERS):
        return text
    return ast.unparse(_Uncompiled().visit(ast.parse(text))) + "\n"


class _Uncompiled(ast.NodeTransformer):
    """Decorators go, calls become their first argument."""

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
    """`torch.compile`, `torch.compile(...)`, `functools.partial(torch.compile, ...)`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "partial":
        return bool(node.args) and _is_compiler(node.args[0])
    return ast.unparse(node.func if isinstance(node, ast.Call) else node) in COMPILERS


# -- names -------------------------------------------------------------------------------------------------------------


def _machinery() -> Parts:
    return Parts(Path(__file__).with_name("machinery.py").read_text(encoding="utf-8"))


def reserved_names(problem: ProblemSpec) -> dict[str, str]:
    """Return names that neither plans nor original may take: builtins, the machinery's, the class's."""
    names = dict.fromkeys(dir(builtins), "") | bound_names(_machinery())
    return names | dict.fromkeys((problem.class_name or "Model", KERNELS, ORIGINAL, "ModelNew"), "")


def bound_names(parts: Parts) -> dict[str, str]:
    """Return names of the top level, each with what it is an import of."""
    names = {name: "" for part in parts.parts if not part.imports for name in part.binds}
    return names | {item.local: item.target for part in parts.parts for item in part.imports}


def _changes(candidate: Parts, reserved: dict[str, str]) -> dict[str, str]:
    """Return new names for those of the plans that are reserved."""
    bound, changes = bound_names(candidate), {"ModelNew": KERNELS}
    for name, target in bound.items():
        if name in reserved and name != "ModelNew" and not (target and reserved[name] == target):
            new = f"kernels_{name.lstrip('_')}"
            while new in bound or new in reserved:
                new += "_"
            changes[name] = new
    return changes


# -- sections ----------------------------------------------------------------------------------------------------------


def _titled(title: str, text: str) -> str:
    gap = "\n\n\n" if text.startswith(("def ", "class ", "@", "async def ")) else "\n\n"
    return f"# -- {title} {'-' * (114 - len(title))}{gap}{text}" if text else ""


def _docstring(problem: ProblemSpec, facts: ShippedFacts, original: Original, *, draft: bool) -> str:
    text = evidence.header(problem, facts, original.class_name, original.notes, draft=draft)
    plain = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{plain}\n"""'


def _imports(candidate: Parts, changes: dict[str, str], original: Original, machinery: Parts) -> str:
    items = [item for parts in (candidate, machinery) for part in parts.parts for item in part.imports]
    items = [item for item in items if item.module != "__future__" and not item.module.startswith("triton_agent")]
    block = import_block([*(_with_local(item, changes) for item in items), *original.imports])
    future = candidate.future or original.future
    return f"from __future__ import annotations\n\n{block}" if future else block


def _with_local(item: Import, changes: dict[str, str]) -> Import:
    local = changes.get(item.local, item.local)
    renames = item.renames or local != item.local
    return Import(local=local, module=item.module, name=item.name, renames=renames)


def _kernels(candidate: Parts, changes: dict[str, str]) -> str:
    dropped = [part for part in candidate.parts if part.imports or is_script(part)]
    if candidate.parts and is_docstring(candidate.parts[0]):
        dropped.append(candidate.parts[0])
        words = ast.get_docstring(candidate.tree) or ""
        about = "\n".join(f"# {line}".rstrip() for line in words.splitlines())
    else:
        about = ""
    text = re.sub(r"\n{4,}", "\n\n\n", renamed(candidate.without(dropped), changes)).strip("\n")
    return f"{about}\n\n\n{text}" if about else text


def _constants(
    problem: ProblemSpec, candidate_source: str, facts: ShippedFacts, original: Original, *, draft: bool
) -> str:
    """Return the constants that the guard compares."""
    call, environment = facts.call, facts.evaluation.environment
    calls = [item for item in call.calls if item.train in facts.modes]
    digest = hashlib.sha256(f"{problem.digest}{candidate_source}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    gpu = "None" if draft or facts.gpu is None else f"({_quoted(facts.gpu.name)}, {facts.gpu.capability})"
    compiles = not environment.autocast and any(item.results is not None for item in calls)
    operator = f"{_slug(original.class_name)}_{digest}" if compiles else ""
    generic = "def _constructor(*args, **kwargs):\n    return args, kwargs"
    lines = [
        original.constructor or generic,
        "",
        "",
        f"USE_KERNELS = {_quoted('never' if draft else 'verified')}",
        f"CONSTRUCTED = {_construction(call)}",
        f"PARAMETERS = {_tuple([_quoted(name) for name in call.parameters])}",
        *_mapping("STATE", [(name, _form(form)) for name, form in call.state]),
        "CALLS = (",
        "    # train mode; of each argument shape, dtype, strides; what comes out",
        *(line for item in calls for line in _call_lines(item)),
        ")",
        f"VERSIONS = ({_quoted(_minor(environment.torch))}, {_quoted(_minor(environment.triton))})",
        f"GPU = {gpu}",
        f"MATMUL_PRECISION = {_quoted('high' if environment.precision == 'tf32' else facts.matmul_precision)}",
        f"AUTOCAST = {_quoted(environment.autocast)}",
        f"DETERMINISTIC = {_is_deterministic(candidate_source, facts)}",
        f"OPERATOR = {_quoted(operator)}",
    ]
    return "\n".join(lines)


def _construction(call: CallForm) -> str:
    if not call.literal:
        return "None  # the constructor's arguments cannot be written down: no model is known again"
    given = [repr(value) for value in call.init] + [f"{name}={value!r}" for name, value in call.init_keywords.items()]
    return f"_constructor({', '.join(given)})"


def _mapping(name: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return [f"{name} = {{}}"]
    return [f"{name} = {{", *(f"    {_quoted(key)}: {value}," for key, value in rows), "}"]


def _call_lines(call: Call) -> list[str]:
    results = "None"
    if call.results is not None:
        nest = {"tensor": "torch.Tensor"}.get(call.nest, call.nest)
        results = f"({nest}, {_tuple([_form(form) for form in call.results])})"
    arguments = _tuple([_argument(value) for value in call.arguments])
    return ["    (", f"        {call.train},", f"        {arguments},", f"        {results},", "    ),"]


def _argument(value: object) -> str:
    if isinstance(value, TensorForm):
        return _form(value)
    if isinstance(value, (list, tuple)):
        return _tuple([type(value).__name__, *map(_argument, value)])
    if isinstance(value, dict):
        return _tuple(["dict", *(f"({key!r}, {_argument(item)})" for key, item in value.items())])
    kind = "type(None)" if value is None else type(value).__name__
    return f"({kind}, {value!r})"


def _form(form: TensorForm) -> str:
    return f"({form.shape!r}, torch.{form.dtype}, {form.strides!r})"


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _quoted(text: str) -> str:
    return json.dumps(text)  # a Python literal, too, in double quotes


def _slug(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _is_deterministic(source: str, facts: ShippedFacts) -> bool:
    return facts.evaluation.determinism is not Determinism.DIFFERS and not _uses_atomics(source)


def _uses_atomics(source: str) -> bool:
    """Return whether programs may add in any order, so that two runs may differ in the last digit."""
    names = (node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return any(name.startswith("atomic_") for name in names)
