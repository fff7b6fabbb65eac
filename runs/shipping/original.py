"""The original, taken out of the user's project: its class and what that needs, as text for one file.

Followed by name, from the class on: functions, classes and values of the same file, imports, and what is imported by
name from the project's own modules. Where that cannot be done (a module of the project used as a whole, a star import
from one), the class is imported from the project instead, and the note says so. Statements of the file that act on
something else, such as switches of torch's, are left out and listed.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_agent.runs.shipping.names import renamed
from triton_agent.runs.shipping.source_parts import Import, Part, Parts, is_docstring, is_script, joined
from triton_agent.tools import problem_source
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import ProblemKind, ProblemSpec
from triton_agent.tools.problem_source import SourceFile

ORIGINAL = "OriginalModel"
"""What the original's class is called in a shipped file."""
OF_THE_FILE = frozenset({"__file__", "__path__", "__package__", "__spec__", "__loader__"})
"""Names whose value in another file is another."""
LEFT_OUT_AT_MOST = 6


class _CannotInline(Exception):
    """Carries the reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The original as it goes into a shipped file."""

    text: str
    imports: tuple[Import, ...]
    class_name: str
    """As the user calls it."""
    constructor: str | None
    """A function with its constructor's parameters that returns their values; None where they are not in the text."""
    future: bool
    """Whether it counts on `from __future__ import annotations`."""
    bound: frozenset[str]
    """Names of the file's top level that it takes."""
    notes: tuple[str, ...]


class _Unit:
    """One file of the project, and what of it is needed."""

    def __init__(self, path: Path, root: Path, unmade: frozenset[str] = frozenset()) -> None:
        self.path = path.resolve()
        self.root = root
        source = problem_source.read(path)
        self.parts = Parts(_without_constructors(source, unmade) if unmade else source.text)
        self.package = ".".join(self.path.parent.relative_to(root).parts) if self.path.is_relative_to(root) else ""
        self.needed: list[Part] = []
        self.imports: list[Import] = []
        self.names: dict[str, str] = {}
        """Name here -> name in the shipped file."""
        self.from_units: dict[str, tuple[_Unit, str]] = {}

    @property
    def own(self) -> frozenset[str]:
        return frozenset(name for part in self.needed for name in part.binds)

    def in_order(self) -> list[Part]:
        return [part for part in self.parts.parts if part in self.needed]

    def module_file(self, item: Import) -> Path | None:
        """The project's file that an import reads from; None for an installed package."""
        level = len(item.module) - len(item.module.lstrip("."))
        package = self.package.split(".") if self.package else []
        base = package[: len(package) - level + 1] if level else []
        dotted = ".".join([*base, *filter(None, [item.module.lstrip(".")])])
        for folder in dict.fromkeys((self.root, self.path.parent)):
            place = folder.joinpath(*dotted.split("."))
            found = next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)
            if found is not None and dotted:
                return found
        if level:
            raise _CannotInline(f"line of `from {item.module} import {item.name}` leads nowhere")
        return None


class _Collector:
    """Follows names through the files of a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units: dict[Path, _Unit] = {}
        self.order: list[_Unit] = []
        """Those that others import from come first."""

    def unit(self, path: Path) -> _Unit:
        path = path.resolve()
        if path not in self.units:
            self.units[path] = _Unit(path, self.root)
        return self.units[path]

    def take(self, unit: _Unit, wanted: set[str]) -> None:
        """Everything in a file that these names need, down to other files."""
        waiting, seen = set(wanted), set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting |= self._take_one(unit, name)
            if not waiting:
                waiting = self._acting_on(unit) - seen
        if unit not in self.order:
            self.order.append(unit)

    def _take_one(self, unit: _Unit, name: str) -> set[str]:
        if name in OF_THE_FILE:
            raise _CannotInline(f"{unit.path.name} asks for {name}")
        more: set[str] = set()
        found = unit.parts.binding(name)
        for part in found:
            if part.imports:
                for item in part.imports:
                    if item.local == name:
                        self._take_import(unit, item)
            elif part not in unit.needed:
                self._refuse_inner_imports(unit, part)
                unit.needed.append(part)
                more |= part.mentions | part.binds
        if not found and not hasattr(builtins, name) and name not in ("__name__", "__doc__"):
            self._take_star(unit, name)
        return more

    def _take_import(self, unit: _Unit, item: Import) -> None:
        file = unit.module_file(item)
        if file is None:
            if item.module != "__future__" and item not in unit.imports:
                unit.imports.append(item)
            return
        if item.name is None or self._is_module(item, file):
            raise _CannotInline(f"{unit.path.name} uses module `{item.target}` as a whole")
        other = self.unit(file)
        if other is unit:
            raise _CannotInline(f"{unit.path.name} imports itself")
        unit.from_units[item.local] = (other, item.name)
        self.take(other, {item.name})

    def _is_module(self, item: Import, file: Path) -> bool:
        if file.name != "__init__.py" or item.name is None:
            return False
        return (file.parent / f"{item.name}.py").is_file() or (file.parent / item.name).is_dir()

    def _take_star(self, unit: _Unit, name: str) -> None:
        stars = [item for part in unit.parts.parts for item in part.imports if item.name == "*"]
        for item in stars:
            if unit.module_file(item) is not None:
                raise _CannotInline(f"{unit.path.name} imports * from `{item.module}`")
            if item not in unit.imports:
                unit.imports.append(item)
        if not stars:
            raise _CannotInline(f"{unit.path.name} uses {name}, which its top level does not bind")

    def _refuse_inner_imports(self, unit: _Unit, part: Part) -> None:
        for node in ast.walk(part.node):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node is not part.node:
                from_project = isinstance(node, ast.ImportFrom) and bool(node.level)
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
                for name in names:
                    item = Import(local="", module=name, name=None, renames=True)
                    if from_project or unit.module_file(item) is not None:
                        raise _CannotInline(f"{unit.path.name}:{node.lineno} imports `{name}` inside a function")

    def _acting_on(self, unit: _Unit) -> set[str]:
        """What is mentioned by statements that change a needed value: `TABLE["x"] = 1`, `Model.scale = 2`."""
        own = unit.own
        for part in unit.parts.parts:
            if part not in unit.needed and not part.imports and _acts_on(part) in own and not is_script(part):
                unit.needed.append(part)
                return set(part.mentions)
        return set()


def _acts_on(part: Part) -> str:
    """The name that a statement changes something of; empty for all others."""
    node = part.node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        place: ast.expr = node.value.func
    elif isinstance(node, (ast.Assign, ast.Delete)):
        place = node.targets[0]
    elif isinstance(node, ast.AugAssign):
        place = node.target
    else:
        return ""
    if isinstance(place, ast.Name):
        return ""
    while isinstance(place, (ast.Attribute, ast.Subscript)):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def take_out(spec: ProblemSpec, taken: Mapping[str, str]) -> Original:
    """The original of a problem; `taken` are names of the shipped file, with what they are imports of, if they are."""
    if spec.kind is ProblemKind.VERIFIER:
        raise UsageError(
            "a problem with only a verifier has no original", where=spec.path, remedy="there is nothing to fall back on"
        )
    path, name = Path(spec.path), spec.class_name or "Model"
    root, package = problem_source.import_root(path)
    collector = _Collector(root)
    unit = collector.unit(path)
    try:
        collector.take(unit, {name})
        return _inlined(collector, unit, name, taken)
    except (_CannotInline, UsageError, SyntaxError) as reason:
        return _imported(unit, name, package, str(reason))


def _inlined(collector: _Collector, main: _Unit, name: str, taken: Mapping[str, str]) -> Original:
    used = {**taken, ORIGINAL: ""}
    for unit in collector.order:
        _give_names(unit, used, unit is main, name)
    for unit in collector.order:
        for local, (other, theirs) in unit.from_units.items():
            unit.names[local] = other.names.get(theirs, theirs)
    pieces = [joined(unit.in_order(), _changes(unit)) for unit in collector.order if unit.needed]
    final = main.names.get(name, name)
    if final != ORIGINAL:
        pieces.append(f"{ORIGINAL} = {final}")
    units = collector.order
    imports = [_with_local(item, unit.names) for unit in units for item in unit.imports]
    bound = {unit.names.get(own, own) for unit in units for own in unit.own} | {item.local for item in imports}
    return Original(
        text="\n\n\n".join(pieces),
        imports=tuple(imports),
        class_name=name,
        constructor=_constructor(main, name),
        future=any(unit.parts.future for unit in units),
        bound=frozenset(bound | {ORIGINAL}),
        notes=_notes(units, main),
    )


def _give_names(unit: _Unit, used: dict[str, str], is_main: bool, class_name: str) -> None:
    prefix = "original" if is_main else unit.path.stem
    targets = {item.local: item.target for item in unit.imports if item.name != "*"}
    for name in sorted(unit.own | targets.keys()):
        new, target = ORIGINAL if is_main and name == class_name else name, targets.get(name, "")
        while new in used and new != ORIGINAL and not (target and used[new] == target):
            new = f"{prefix}_{new}"
        unit.names[name] = new
        used[new] = target


def _changes(unit: _Unit) -> dict[str, str]:
    return {old: new for old, new in unit.names.items() if old != new}


def _with_local(item: Import, names: dict[str, str]) -> Import:
    local = names.get(item.local, item.local)
    return dataclasses.replace(item, local=local, renames=item.renames or local != item.local)


def _constructor(main: _Unit, name: str) -> str | None:
    """Of `__init__`'s parameters, annotations left out."""
    node = problem_source.classes(main.parts.tree).get(name)
    for item in node.body if node is not None else []:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__" and not item.args.posonlyargs:
            arguments = _without_annotations(item.args)
            arguments.args = arguments.args[1:]
            missing = len(arguments.defaults) - len(arguments.args)
            arguments.defaults = arguments.defaults[max(0, missing) :]
            return _constructor_text(arguments, main)
    return None


def _constructor_text(arguments: ast.arguments, main: _Unit) -> str:
    every = (*arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
    names = "".join(f"{arg.arg}, " for arg in every if arg is not None)
    text = f"def _constructor({ast.unparse(arguments)}):\n    return ({names.rstrip(' ')})"
    return renamed(text, _changes(main))


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    copy: ast.arguments = ast.parse(f"def f({ast.unparse(arguments)}): pass").body[0].args  # type: ignore[attr-defined]
    for arg in (*copy.posonlyargs, *copy.args, *copy.kwonlyargs, copy.vararg, copy.kwarg):
        if arg is not None:
            arg.annotation = None
    return copy


def _notes(units: list[_Unit], main: _Unit) -> tuple[str, ...]:
    """What the file does on import besides defining things; a shipped file does not do it."""
    notes = []
    for part in main.parts.parts:
        acts = (isinstance(part.node, ast.Expr) and not is_docstring(part)) or bool(_acts_on(part))
        if acts and part not in main.needed:
            notes.append(f"left out: {main.path.name}:{part.line} {ast.unparse(part.node).splitlines()[0]}")
    others = [unit.path.name for unit in units if unit is not main and unit.needed]
    taken = [f"also taken from {', '.join(others)}"] if others else []
    return (*taken, *notes[:LEFT_OUT_AT_MOST])


def _imported(unit: _Unit, name: str, package: str, reason: str) -> Original:
    """The class by import, where it cannot be taken out."""
    module = f"{package}.{unit.path.stem}" if package else unit.path.stem
    item = Import(local=ORIGINAL, module=module, name=name, renames=True)
    note = f"not self-contained: the original is imported from {module}, which has to be importable ({reason})"
    return Original(
        text="",
        imports=(item,),
        class_name=name,
        constructor=None,
        future=False,
        bound=frozenset({ORIGINAL}),
        notes=(note,),
    )


# -- several at once ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A class or function of a file's top level."""

    path: Path
    root: Path
    """The folder that imports of this file start from."""
    name: str


def _without_constructors(source: SourceFile, unmade: frozenset[str]) -> str:
    """The file's text less the constructors of these classes."""
    lines, dropped = source.text.split("\n"), set[int]()
    for name, node in problem_source.classes(source.tree).items():
        for item in node.body if name in unmade else ():
            if isinstance(item, ast.FunctionDef) and item.name == "__init__" and item.end_lineno is not None:
                first = min([item.lineno, *(decorator.lineno for decorator in item.decorator_list)])
                dropped |= set(range(first - 1, item.end_lineno))
                if len(node.body) == 1:
                    lines[first - 1] = " " * item.col_offset + "pass"
                    dropped.discard(first - 1)
    return "\n".join(line for row, line in enumerate(lines) if row not in dropped)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Definitions of one or more files as one text."""

    text: str
    imports: tuple[Import, ...]
    future: bool
    names: Mapping[tuple[Path, str], str]
    """By file and name there: the name in the text."""


def gather(wanted: Sequence[Wanted], taken: Mapping[str, str], unmade: Sequence[Wanted] = ()) -> Gathered:
    """All of them with what they need; raises `UsageError` where one cannot be taken out of its project.

    Classes among `unmade` go without their constructors, and without what only these need.
    """
    by_file: dict[Path, list[Wanted]] = {}
    for item in wanted:
        by_file.setdefault(item.path.resolve(), []).append(item)
    collector = _Collector(Path())
    for item in unmade:
        path = item.path.resolve()
        classes = frozenset(other.name for other in unmade if other.path.resolve() == path)
        collector.units.setdefault(path, _Unit(path, item.root, classes))
    for path, items in by_file.items():
        collector.root = items[0].root
        try:
            collector.take(collector.unit(path), {item.name for item in items})
        except (_CannotInline, SyntaxError) as reason:
            names = ", ".join(item.name for item in items)
            raise UsageError(
                f"{names} cannot be taken out of its file: {reason}",
                where=str(path),
                remedy="import by name what it needs of its project: from module import name",
            ) from None
    units, used = _in_order_of_need(collector.order), dict(taken)
    for unit in units:
        _give_names(unit, used, False, "")
    for unit in units:
        for local, (other, theirs) in unit.from_units.items():
            unit.names[local] = other.names.get(theirs, theirs)
    return Gathered(
        text="\n\n\n".join(joined(unit.in_order(), _changes(unit)) for unit in units if unit.needed),
        imports=tuple(_with_local(item, unit.names) for unit in units for item in unit.imports),
        future=any(unit.parts.future for unit in units),
        names={(item.path, item.name): _name_of(collector, item) for item in wanted},
    )


def _name_of(collector: _Collector, item: Wanted) -> str:
    return collector.unit(item.path).names.get(item.name, item.name)


def _in_order_of_need(units: Sequence[_Unit]) -> list[_Unit]:
    """Those that others import from come first, in whatever order they were met."""
    found: list[_Unit] = []
    seen: set[int] = set()

    def take(unit: _Unit) -> None:
        if id(unit) not in seen:
            seen.add(id(unit))
            for other, _ in unit.from_units.values():
                take(other)
            found.append(unit)

    for unit in units:
        take(unit)
    return found
