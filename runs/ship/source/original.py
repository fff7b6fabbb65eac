"""Copies the reference out of the user's project: its class and everything it needs, as text for one file.

If that is impossible (`following.py`), the class is imported from the project instead, and the note says so.
Statements of the file with other effects, such as switches of torch, are left out and listed.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from triton_agent.runs.ship.source.following import (
    CannotInline,
    Collector,
    Unit,
    acts_on,
    give_names,
    imports_of,
    texts_of,
)
from triton_agent.runs.ship.source.names import renamed
from triton_agent.runs.ship.source.source_parts import Import, is_docstring
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec

ORIGINAL = "OriginalModel"
"""Name of the reference's class in a shipped file."""
LEFT_OUT_AT_MOST = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The reference as text for a shipped file."""

    text: str
    imports: tuple[Import, ...]
    class_name: str
    """Name of the class in the user's project."""
    constructor: str | None
    """A function with the constructor's parameters that returns their values; None if the class has no `__init__`
    of its own.
    """
    future: bool
    """True if the text relies on `from __future__ import annotations`."""
    bound: frozenset[str]
    """Top-level names of the file that the reference takes."""
    notes: tuple[str, ...]


def take_out(spec: ProblemSpec, taken: Mapping[str, str]) -> Original:
    """Return the reference of a problem. `taken` maps names already used in the shipped file to what they import."""
    if spec.kind is ProblemKind.VERIFIER:
        raise UsageError(
            "a problem with only a verifier has no reference",
            where=spec.path,
            remedy="there is nothing to fall back on",
        )
    path, name = Path(spec.path), spec.class_name or "Model"
    root, package = problem_source.import_root(path)
    collector = Collector(root)
    unit = collector.unit(path)
    try:
        collector.take(unit, {name})
        return _inlined(collector, unit, name, taken)
    except (CannotInline, UsageError, SyntaxError) as reason:
        return _imported(unit, name, package, str(reason))


def _inlined(collector: Collector, main: Unit, name: str, taken: Mapping[str, str]) -> Original:
    units = collector.order
    give_names(units, {**taken, ORIGINAL: ""}, main, {name: ORIGINAL})
    pieces = texts_of(units)
    final = main.names.get(name, name)
    if final != ORIGINAL:
        pieces.append(f"{ORIGINAL} = {final}")
    imports = imports_of(units)
    bound = {unit.names.get(own, own) for unit in units for own in unit.own} | {item.local for item in imports}
    return Original(
        text="\n\n\n".join(pieces),
        imports=imports,
        class_name=name,
        constructor=_constructor(main, name),
        future=any(unit.parts.future for unit in units),
        bound=frozenset(bound | {ORIGINAL}),
        notes=_notes(units, main),
    )


def _constructor(main: Unit, name: str) -> str | None:
    """Return a function with the parameters of `__init__`, without annotations."""
    node = problem_source.classes(main.parts.tree).get(name)
    for item in node.body if node is not None else []:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__" and not item.args.posonlyargs:
            arguments = _without_annotations(item.args)
            arguments.args = arguments.args[1:]
            missing = len(arguments.defaults) - len(arguments.args)
            arguments.defaults = arguments.defaults[max(0, missing) :]
            return _constructor_text(arguments, main)
    return None


def _constructor_text(arguments: ast.arguments, main: Unit) -> str:
    every = (*arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
    names = [arg.arg for arg in every if arg is not None]
    values = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
    for arg in every:
        if arg is not None:
            arg.annotation = ast.Name("Any")
    from triton_agent.runs.ship.python_text import Group, lines  # imports torch, for which `optimize` does not wait

    head = "\n".join(lines(Group("def _constructor(", _parameters(arguments), ") -> Any:"), 0))
    return renamed(f"{head}\n    return {values}", main.renamed())


def _parameters(arguments: ast.arguments) -> list[str]:
    """Return the text of each parameter, with its default."""
    plain = [None] * (len(arguments.args) - len(arguments.defaults))
    found = [_parameter(arg, default) for arg, default in zip(arguments.args, [*plain, *arguments.defaults])]
    if arguments.vararg or arguments.kwonlyargs:
        found.append(f"*{ast.unparse(arguments.vararg)}" if arguments.vararg else "*")
    found += [_parameter(arg, default) for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [*found, f"**{ast.unparse(arguments.kwarg)}"] if arguments.kwarg else found


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(arg) if default is None else f"{ast.unparse(arg)} = {ast.unparse(default)}"


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    copy: ast.arguments = ast.parse(f"def f({ast.unparse(arguments)}): pass").body[0].args  # type: ignore[attr-defined]
    for arg in (*copy.posonlyargs, *copy.args, *copy.kwonlyargs, copy.vararg, copy.kwarg):
        if arg is not None:
            arg.annotation = None
    return copy


def _notes(units: list[Unit], main: Unit) -> tuple[str, ...]:
    """Return notes on statements of the file that do more than define things; a shipped file leaves them out."""
    notes = []
    for part in main.parts.parts:
        acts = (isinstance(part.node, ast.Expr) and not is_docstring(part)) or bool(acts_on(part))
        if acts and part not in main.needed:
            notes.append(f"left out: {main.path.name}:{part.line} {ast.unparse(part.node).splitlines()[0]}")
    others = [unit.path.name for unit in units if unit is not main and unit.needed]
    taken = [f"also taken from {', '.join(others)}"] if others else []
    return (*taken, *notes[:LEFT_OUT_AT_MOST])


def _imported(unit: Unit, name: str, package: str, reason: str) -> Original:
    """Return the class as an import, for a class that cannot be copied."""
    module = f"{package}.{unit.path.stem}" if package else unit.path.stem
    item = Import(local=ORIGINAL, module=module, name=name, renames=True)
    note = f"not self-contained: the reference is imported from {module}, which has to be importable ({reason})"
    return Original(
        text="",
        imports=(item,),
        class_name=name,
        constructor=None,
        future=False,
        bound=frozenset({ORIGINAL}),
        notes=(note,),
    )
