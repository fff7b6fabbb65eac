"""Copies several classes and functions of a project, together with what they need, as one text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_agent.runs.ship.source.following import CannotInline, Collector, Unit, give_names, imports_of, texts_of
from triton_agent.runs.ship.source.source_parts import Import
from triton_agent.tools.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A class or function of a file's top level."""

    path: Path
    root: Path
    """The folder that imports of this file start from."""
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Definitions of one or more files as one text."""

    text: str
    imports: tuple[Import, ...]
    future: bool
    names: Mapping[tuple[Path, str], str]
    """Names in the text, by file and name in the file."""


def gather(wanted: Sequence[Wanted], taken: Mapping[str, str], unmade: Sequence[Wanted] = ()) -> Gathered:
    """Return the wanted definitions with what they need; raise `UsageError` if one cannot be copied out of its project.

    Classes in `unmade` are copied without their constructors, and without definitions that only these need.
    """
    by_file: dict[Path, list[Wanted]] = {}
    for item in wanted:
        by_file.setdefault(item.path.resolve(), []).append(item)
    collector = Collector(Path())
    for item in unmade:
        path = item.path.resolve()
        classes = frozenset(other.name for other in unmade if other.path.resolve() == path)
        collector.units.setdefault(path, Unit(path, item.root, classes))
    for path, items in by_file.items():
        collector.root = items[0].root
        try:
            collector.take(collector.unit(path), {item.name for item in items})
        except (CannotInline, SyntaxError) as reason:
            names = ", ".join(item.name for item in items)
            raise UsageError(
                f"{names} cannot be taken out of its file: {reason}",
                where=str(path),
                remedy="import by name what it needs of its project: from module import name",
            ) from None
    units = _in_order_of_need(collector.order)
    give_names(units, dict(taken))
    return Gathered(
        text="\n\n\n".join(texts_of(units)),
        imports=imports_of(units),
        future=any(unit.parts.future for unit in units),
        names={(item.path, item.name): _name_of(collector, item) for item in wanted},
    )


def _name_of(collector: Collector, item: Wanted) -> str:
    return collector.unit(item.path).names.get(item.name, item.name)


def _in_order_of_need(units: Sequence[Unit]) -> list[Unit]:
    """Return the files, ordered so that a file follows those it imports from."""
    found: list[Unit] = []
    seen: set[int] = set()

    def take(unit: Unit) -> None:
        if id(unit) not in seen:
            seen.add(id(unit))
            for other, _ in unit.from_units.values():
                take(other)
            found.append(unit)

    for unit in units:
        take(unit)
    return found
