"""Collects the source text of classes and functions in memory, so that it can be written into another file.

  taken_in([Attention], [gelu], folder, taken) -> Sources

Definitions that come with Python or an installed package are imported; all others are copied as text, together with
what they refer to (`ship/source/gathering.py`). The cells of a notebook count as one file. Not covered: definitions
inside a function, at a prompt or by `exec`; these are refused with advice.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import site
import sys
import sysconfig
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from triton_agent.runs.ship.source.gathering import Wanted, gather
from triton_agent.runs.ship.source.source_parts import Import
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem import source as problem_source

CELLS = "notebook_cells.py"
"""File into which the cells of a notebook are written."""
PUBLIC = ("builtins", "torch.nn", "torch.nn.functional", "torch", "math")
"""Modules in which a definition is looked up before the module that it names itself, which may be private."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Definitions in the form in which they go into another file."""

    text: str
    imports: tuple[Import, ...]
    future: bool
    """True if the text relies on `from __future__ import annotations`."""
    names: Mapping[int, str]
    """Name of each class and function in that file, by `id()` of the object."""


def taken_in(needed: Sequence[type], wished: Sequence[Any], folder: Path, taken: Sequence[str]) -> Sources:
    """Return the source of all `needed` classes, and of the `wished` definitions whose source can be found.

    The constructors of the needed classes are left out, with what only they refer to. `taken` are names that the other
    file uses itself.
    """
    had = [thing for thing in wished if _is_available(thing, folder)]
    bases = {base for kind in needed for base in kind.__mro__ if issubclass(base, nn.Module)}
    unmade = [_place(base, folder) for base in bases if not _is_installed(base) and _is_available(base, folder)]
    try:
        return _gathered([*needed, *had], folder, taken, unmade)
    except UsageError:
        if not had:
            raise
        return _gathered(needed, folder, taken, unmade)


def _is_available(thing: Any, folder: Path) -> bool:
    try:
        if _is_installed(thing):
            _importable_from(thing)
        else:
            _place(thing, folder)
    except UsageError:
        return False
    return True


def _gathered(things: Sequence[Any], folder: Path, taken: Sequence[str], unmade: Sequence[Wanted]) -> Sources:
    installed = [thing for thing in things if _is_installed(thing)]
    own = [thing for thing in things if not _is_installed(thing)]
    places = {id(thing): _place(thing, folder) for thing in own}
    used = dict.fromkeys((*dir(builtins), *taken), "") | {"torch": "torch", "nn": "torch.nn"}
    names, imports = _imported(installed, used)
    gathered = gather(list(places.values()), used, unmade)
    for thing in own:
        place = places[id(thing)]
        _, dot, inner = thing.__qualname__.partition(".")
        names[id(thing)] = gathered.names[place.path, place.name] + dot + inner
    return Sources(text=gathered.text, imports=(*imports, *gathered.imports), future=gathered.future, names=names)


def _imported(things: Sequence[Any], used: dict[str, str]) -> tuple[dict[int, str], list[Import]]:
    names: dict[int, str] = {}
    imports: list[Import] = []
    for thing in things:
        module, called = _importable_from(thing)
        top, dot, inner = called.partition(".")
        if module == "builtins":
            names[id(thing)] = called
            continue
        target, local = f"{module}.{top}", top
        while local in used and used[local] != target:
            local = f"{module.rpartition('.')[2]}_{local}"
        if used.get(local) != target:
            used[local] = target
            imports.append(Import(local=local, module=module, name=top, renames=local != top))
        names[id(thing)] = local + dot + inner
    return names, imports


def _importable_from(thing: Any) -> tuple[str, str]:
    """Return the module that the thing can be imported from, preferably a public one, and its name there."""
    places = [*((name, thing.__name__) for name in PUBLIC), (thing.__module__, thing.__qualname__)]
    for module, called in places:
        found: Any = sys.modules.get(module or "")
        for part in called.split("."):
            found = getattr(found, part, None)
        if found is thing:
            return module, called
    raise UsageError(
        f"{thing.__module__}.{thing.__qualname__} was made at run time and cannot be imported again",
        remedy="undo what made it, such as torch.nn.utils.parametrize.remove_parametrizations",
    )


def _is_installed(thing: Any) -> bool:
    """Return whether it comes with Python or an installed package."""
    module = sys.modules.get(thing.__module__)
    if thing.__module__ == "__main__":
        return False
    file = getattr(module, "__file__", None)
    if file is None:  # a module without a specification was made by exec and cannot be imported
        return module is None or module.__spec__ is not None or isinstance(thing, types.BuiltinFunctionType)
    return any(Path(file).resolve().is_relative_to(folder) for folder in _installations())


def _installations() -> list[Path]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    return [Path(folder).resolve() for folder in (*folders, *site.getsitepackages(), site.getusersitepackages())]


def _place(thing: Any, folder: Path) -> Wanted:
    """Return the file that defines the thing, and its name there."""
    called = f"{thing.__module__}.{thing.__qualname__}"
    if "<locals>" in thing.__qualname__ or "<lambda>" in thing.__qualname__:
        raise UsageError(
            f"{called} was defined inside a function, where its text does not stand alone",
            remedy="define it at the top level of a file or of a notebook's cell",
        )
    path = _file_of(thing, folder)
    if path is None:
        raise UsageError(
            f"the source of {called} is not available: it was typed at a prompt or made by exec",
            remedy="put it into a file and import it from there",
        )
    name = thing.__qualname__.partition(".")[0]
    if name not in problem_source.bound_names(problem_source.read(path).tree):
        raise UsageError(f"{called} is not in the file it is said to be from", where=str(path), remedy="reload it")
    return Wanted(path=path, root=_root(thing.__module__, path), name=name)


def _file_of(thing: Any, folder: Path) -> Path | None:
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and file.endswith(".py") and Path(file).is_file():
        return Path(file).resolve()
    return _cells(vars(module), folder) if thing.__module__ == "__main__" else None


def _cells(main: Mapping[str, Any], folder: Path) -> Path | None:
    """Write the cells run so far, in order, as one file; return None outside a notebook."""
    cells = [cell for cell in main.get("In", ()) if isinstance(cell, str) and _is_python(cell)]
    if not cells:
        return None
    path = folder / CELLS
    path.write_text("\n\n".join(cells) + "\n", encoding="utf-8")
    return path


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:  # a shell's command or another magic
        return False
    return bool(text.strip())


def _root(module: str, path: Path) -> Path:
    """Return the folder that the module's imports start from."""
    parts = [] if module == "__main__" else module.split(".")
    inside = [*parts, "__init__"] if path.stem == "__init__" else parts
    if parts and list(path.with_suffix("").parts[-len(inside) :]) == inside:
        return path.parents[len(inside) - 1]
    return problem_source.import_root(path)[0]
