"""Follows the names that a class needs through its file and into the project's files that it imports from.

It follows functions, classes and values of a file's top level, its imports, and statements that change a needed value.
If a name leads to something that cannot be copied (a module of the project used as a whole, a star import from one, an
import inside a function), `CannotInline` says why.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_agent.runs.ship.source.source_parts import Import, Part, Parts, is_script, joined
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.source import SourceFile

OF_THE_FILE = frozenset({"__file__", "__path__", "__package__", "__spec__", "__loader__"})
"""Names whose value differs from file to file."""


class CannotInline(Exception):
    """Raised with the reason why something cannot be copied."""


class Unit:
    """One file of the project, and the part of it that is needed."""

    def __init__(self, path: Path, root: Path, unmade: frozenset[str] = frozenset()) -> None:
        self.path = path.resolve()
        self.root = root
        source = problem_source.read(path)
        self.parts = Parts(_without_constructors(source, unmade) if unmade else source.text)
        self.package = ".".join(self.path.parent.relative_to(root).parts) if self.path.is_relative_to(root) else ""
        self.needed: list[Part] = []
        self.imports: list[Import] = []
        self.names: dict[str, str] = {}
        """Names in this file, with their names in the shipped file."""
        self.from_units: dict[str, tuple[Unit, str]] = {}

    @property
    def own(self) -> frozenset[str]:
        return frozenset(name for part in self.needed for name in part.binds)

    def in_order(self) -> list[Part]:
        return [part for part in self.parts.parts if part in self.needed]

    def renamed(self) -> dict[str, str]:
        return {old: new for old, new in self.names.items() if old != new}

    def module_file(self, item: Import) -> Path | None:
        """Return the project's file that an import reads from; None for an installed package."""
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
            raise CannotInline(f"line of `from {item.module} import {item.name}` leads nowhere")
        return None


class Collector:
    """Follows names through the files of a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units: dict[Path, Unit] = {}
        self.order: list[Unit] = []
        """Files of the project; a file comes after those it imports from."""

    def unit(self, path: Path) -> Unit:
        path = path.resolve()
        if path not in self.units:
            self.units[path] = Unit(path, self.root)
        return self.units[path]

    def take(self, unit: Unit, wanted: set[str]) -> None:
        """Collect everything that these names need, in this file and in others."""
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

    def _take_one(self, unit: Unit, name: str) -> set[str]:
        if name in OF_THE_FILE:
            raise CannotInline(f"{unit.path.name} asks for {name}")
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

    def _take_import(self, unit: Unit, item: Import) -> None:
        file = unit.module_file(item)
        if file is None:
            if item.module != "__future__" and item not in unit.imports:
                unit.imports.append(item)
            return
        if item.name is None or self._is_module(item, file):
            raise CannotInline(f"{unit.path.name} uses module `{item.target}` as a whole")
        other = self.unit(file)
        if other is unit:
            raise CannotInline(f"{unit.path.name} imports itself")
        unit.from_units[item.local] = (other, item.name)
        self.take(other, {item.name})

    def _is_module(self, item: Import, file: Path) -> bool:
        if file.name != "__init__.py" or item.name is None:
            return False
        return (file.parent / f"{item.name}.py").is_file() or (file.parent / item.name).is_dir()

    def _take_star(self, unit: Unit, name: str) -> None:
        stars = [item for part in unit.parts.parts for item in part.imports if item.name == "*"]
        for item in stars:
            if unit.module_file(item) is not None:
                raise CannotInline(f"{unit.path.name} imports * from `{item.module}`")
            if item not in unit.imports:
                unit.imports.append(item)
        if not stars:
            raise CannotInline(f"{unit.path.name} uses {name}, which it does not define at its top level")

    def _refuse_inner_imports(self, unit: Unit, part: Part) -> None:
        for node in ast.walk(part.node):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node is not part.node:
                from_project = isinstance(node, ast.ImportFrom) and bool(node.level)
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
                for name in names:
                    item = Import(local="", module=name, name=None, renames=True)
                    if from_project or unit.module_file(item) is not None:
                        raise CannotInline(f"{unit.path.name}:{node.lineno} imports `{name}` inside a function")

    def _acting_on(self, unit: Unit) -> set[str]:
        """Collect statements that change a needed value, such as `TABLE["x"] = 1`, and return the names they
        mention.
        """
        own = unit.own
        for part in unit.parts.parts:
            if part not in unit.needed and not part.imports and acts_on(part) in own and not is_script(part):
                unit.needed.append(part)
                return set(part.mentions)
        return set()


def acts_on(part: Part) -> str:
    """Return the name whose value a statement changes; empty for all other statements."""
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


def _without_constructors(source: SourceFile, unmade: frozenset[str]) -> str:
    """Return the file's text without the constructors of these classes."""
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


# -- one text of several files -----------------------------------------------------------------------------------------


def give_names(
    units: Sequence[Unit], used: dict[str, str], main: Unit | None = None, fixed: Mapping[str, str] | None = None
) -> None:
    """Choose each name's name in the text: its own unless taken; `fixed` holds the names already chosen for `main`."""
    for unit in units:
        decided = (fixed or {}) if unit is main else {}
        prefix = "original" if unit is main else unit.path.stem
        targets = {item.local: item.target for item in unit.imports if item.name != "*"}
        for name in sorted(unit.own | targets.keys()):
            new, target = decided.get(name, name), targets.get(name, "")
            while name not in decided and new in used and not (target and used[new] == target):
                new = f"{prefix}_{new}"
            unit.names[name] = new
            used[new] = target
    for unit in units:
        for local, (other, theirs) in unit.from_units.items():
            unit.names[local] = other.names.get(theirs, theirs)


def texts_of(units: Sequence[Unit]) -> list[str]:
    """Return the needed statements of each file, under their names in the text."""
    return [joined(unit.in_order(), unit.renamed()) for unit in units if unit.needed]


def imports_of(units: Sequence[Unit]) -> tuple[Import, ...]:
    """Return imports from installed packages, under their names in the text."""
    return tuple(_with_local(item, unit.names) for unit in units for item in unit.imports)


def _with_local(item: Import, names: dict[str, str]) -> Import:
    local = names.get(item.local, item.local)
    return dataclasses.replace(item, local=local, renames=item.renames or local != item.local)
