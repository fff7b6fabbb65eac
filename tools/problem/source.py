"""The source text of a problem, and the facts that can be read from it without running it.

Reads the file, the names and classes at its top level, and the local modules that it imports. It does not follow
imports of installed packages or imports made at run time.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
from collections.abc import Iterator
from pathlib import Path

from triton_agent.tools.errors import ProblemError, UsageError

CONVENTION = (
    "a problem file has `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`; "
    'or name a class of any file: path.py:ClassName --input "f32[8,128,1024]"'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A parsed Python file."""

    path: Path
    text: str
    tree: ast.Module


def read(path: Path) -> SourceFile:
    """Read and parse the file, or raise an error that says what is wrong and where."""
    if path.is_dir():
        files = sorted(entry.name for entry in path.glob("*.py"))
        hint = f"it holds {', '.join(files[:5])}" if files else "it holds no .py file"
        raise UsageError("is a folder, not a problem file", where=str(path), remedy=hint)
    if not path.exists():
        if not path.parent.is_dir():
            raise UsageError("no such file", where=str(path), remedy=f"there is no folder {path.parent} either")
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".py"]
        close = difflib.get_close_matches(path.name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "check the spelling of the path"
        raise UsageError("no such file", where=str(path), remedy=hint)
    if path.suffix != ".py":
        raise UsageError("is not a .py file", where=str(path), remedy=CONVENTION)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: byte 0x{raw[error.start]:02x}"
        raise ProblemError(what, where=f"{path}:{line}", remedy="save the file as UTF-8") from None
    return parsed(path, text)


def parsed(path: Path, text: str) -> SourceFile:
    """Parse the text of the file at `path`, or raise an error that says what is wrong and where."""
    try:
        tree = ast.parse(text, filename=str(path))
    except SyntaxError as error:
        shown = f": {error.text.strip()}" if error.text else ""
        where = f"{path}:{error.lineno or 1}"
        raise ProblemError(f"syntax error: {error.msg}{shown}", where=where, remedy="correct the file first") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"cannot be parsed: {error}", where=str(path), remedy="correct the file first") from None
    if not tree.body:
        raise ProblemError("the file is empty", where=str(path), remedy=CONVENTION)
    return SourceFile(path=path, text=text, tree=tree)


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, including those inside `if`, `try`, `with` and loops."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks = (ast.stmt, ast.ExceptHandler, ast.match_case)
            waiting.extend(reversed([child for child in ast.iter_child_nodes(node) if isinstance(child, blocks)]))


def bound_names(tree: ast.Module) -> dict[str, int]:
    """Return the line of each name bound at the top level; `*` stands for a star import, which may bind any name."""
    names: dict[str, int] = {}
    for statement in top_level(tree):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound = [statement.name]
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            bound = [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
        else:
            target = getattr(statement, "target", None)
            targets = statement.targets if isinstance(statement, ast.Assign) else [target] if target else []
            found = (node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
            bound = [node.id for node in found if isinstance(node.ctx, ast.Store)]
        for name in bound:
            names.setdefault(name, statement.lineno)
    return names


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in top_level(tree) if isinstance(node, ast.ClassDef)}


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    return {node.name: node for node in top_level(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def module_classes(tree: ast.Module) -> dict[str, int]:
    """Return the line of each class that looks like an `nn.Module`, by its base or a method `forward`."""
    found: dict[str, int] = {}
    for name, node in classes(tree).items():
        bases = {ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases}
        forward = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
        if forward or bases & found.keys() or any(base.endswith("Module") for base in bases):
            found[name] = node.lineno
    return found


def outermost_modules(tree: ast.Module) -> list[str]:
    """Return modules that no other class or function of the file mentions: most likely the file's main subject."""
    named: set[str] = set()
    for own, node in (functions(tree) | classes(tree)).items():
        named |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} - {own}
    return [name for name in module_classes(tree) if name not in named]


def only_outermost_module(tree: ast.Module) -> str | None:
    """Return the module that must be meant if none is named; None if there are several, or none."""
    found = outermost_modules(tree)
    return found[0] if len(found) == 1 else None


def needed_arguments(tree: ast.Module, name: str) -> list[str]:
    """Return the names of the constructor's arguments that have no default, as far as the file shows them."""
    known = classes(tree)
    for item in known[name].body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            told = item.args
            positional = [*told.posonlyargs, *told.args]
            positional = positional[1 : len(positional) - len(told.defaults)]
            named = [argument for argument, default in zip(told.kwonlyargs, told.kw_defaults) if default is None]
            return [argument.arg for argument in (*positional, *named)]
    bases = [base.id for base in known[name].bases if isinstance(base, ast.Name) and base.id in known]
    return needed_arguments(tree, bases[0]) if bases and bases[0] != name else []


def import_root(path: Path) -> tuple[Path, str]:
    """Return the folder that this file's imports start from, and the package it belongs to (empty for none)."""
    folder, parts = path.resolve().parent, []
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(parts))


def local_modules(source: SourceFile) -> dict[str, Path]:
    """Return the local modules that the file imports, directly or not, by path relative to the import root."""
    path = source.path.resolve()
    root, package = import_root(path)
    found: dict[str, Path] = {}
    waiting = [(source.tree, package)]
    while waiting:
        tree, package = waiting.pop()
        for name in _imported(tree, package):
            for file in _files_of(name, (root, path.parent)):
                key = file.relative_to(root).as_posix()
                if file != path and key not in found:
                    found[key] = file
                    # Errors in this module are reported with their line when the problem is loaded.
                    with contextlib.suppress(OSError, SyntaxError, ValueError):
                        within = ".".join(file.parent.relative_to(root).parts)
                        waiting.append((ast.parse(file.read_bytes()), within))
    return dict(sorted(found.items()))


def texts_beside(path: Path) -> str:
    """Return the texts of the local modules that the file imports, skipping those that cannot be read."""
    texts = []
    with contextlib.suppress(UsageError, OSError, UnicodeDecodeError):
        for file in local_modules(read(path)).values():
            texts.append(file.read_text(encoding="utf-8-sig"))
    return "\n\n".join(text for text in texts if text.strip())


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the dotted names that a module of `package` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level else []
            parts = parts[: len(parts) - node.level + 1] if node.level else parts
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _files_of(name: str, roots: tuple[Path, ...]) -> list[Path]:
    """Return the files that importing the dotted `name` runs, below the first root that has it."""
    for root in roots:
        files, folder = [], root
        for part in name.split("."):
            for file in (folder / part / "__init__.py", folder / f"{part}.py"):
                if file.is_file():
                    files.append(file)
                    break
            folder = folder / part
        if files:
            return files
    return []
