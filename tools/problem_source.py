"""A problem's source text and what can be read off it without running it.

Covers: reading the file, the names and classes at its top level, the local modules that it imports. It does not
follow imports of installed packages, nor those that are made at run time.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
from collections.abc import Iterator
from pathlib import Path

from triton_agent.tools.errors import ProblemError, UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A Python file that was read and parsed."""

    path: Path
    text: str
    tree: ast.Module


def read(path: Path) -> SourceFile:
    """The file at `path`, or an error that says what is wrong with it and where."""
    _require_python_file(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    return parsed(path, _decode(path, raw))


def parsed(path: Path, text: str) -> SourceFile:
    """Parse the text of the file at `path`, or raise an error that says what is wrong with it and where."""
    tree = _parse(path, text)
    if not tree.body:
        raise ProblemError("the file is empty", where=str(path), remedy=CONVENTION)
    return SourceFile(path=path, text=text, tree=tree)


CONVENTION = (
    "a problem file has `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`; "
    'or name a class of any file: path.py:ClassName --input "f16[8,128,1024]"'
)


def _require_python_file(path: Path) -> None:
    if path.is_dir():
        files = sorted(entry.name for entry in path.glob("*.py"))
        hint = f"it holds {', '.join(files[:5])}" if files else "it holds no .py file"
        raise UsageError("is a folder, not a problem file", where=str(path), remedy=hint)
    if not path.exists():
        raise UsageError("no such file", where=str(path), remedy=_neighbours(path))
    if path.suffix != ".py":
        raise UsageError("is not a .py file", where=str(path), remedy=CONVENTION)


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either"
    names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".py"]
    close = difflib.get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else "check the spelling of the path"


def _decode(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ProblemError(
            f"is not UTF-8: byte 0x{raw[error.start]:02x}", where=f"{path}:{line}", remedy="save the file as UTF-8"
        ) from None


def _parse(path: Path, text: str) -> ast.Module:
    try:
        return ast.parse(text, filename=str(path))
    except SyntaxError as error:
        shown = f": {error.text.strip()}" if error.text else ""
        where = f"{path}:{error.lineno or 1}"
        raise ProblemError(f"syntax error: {error.msg}{shown}", where=where, remedy="mend the file first") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"cannot be parsed: {error}", where=str(path), remedy="mend the file first") from None


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run on import, those inside `if`, `try`, `with` and loops included."""
    waiting: list[ast.stmt] = list(reversed(tree.body))
    while waiting:
        statement = waiting.pop()
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting.extend(reversed(_nested_statements(statement)))


def _nested_statements(statement: ast.stmt) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            found.extend(child.body)
    return found


def bound_names(tree: ast.Module) -> dict[str, int]:
    """Names bound at the top level and the line of each; `*` stands for a star import, which may bind any."""
    names: dict[str, int] = {}
    for statement in top_level(tree):
        for name in _names_bound_by(statement):
            names.setdefault(name, statement.lineno)
    return names


def _names_bound_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [
        node.id
        for target in targets
        if target is not None
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    """The classes defined at the top level."""
    return {node.name: node for node in top_level(tree) if isinstance(node, ast.ClassDef)}


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions defined at the top level."""
    return {node.name: node for node in top_level(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def outermost_modules(tree: ast.Module) -> list[str]:
    """Modules that no other class or function of the file names: they are what it is about."""
    found = module_classes(tree)
    named: set[str] = set()
    for own, node in (functions(tree) | classes(tree)).items():
        named |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} - {own}
    return [name for name in found if name not in named]


def module_classes(tree: ast.Module) -> dict[str, int]:
    """Classes that look like an `nn.Module`, by base or by having a `forward`, and the line of each."""
    found: dict[str, int] = {}
    for name, node in classes(tree).items():
        bases = {ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases}
        forward = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
        if forward or bases & found.keys() or any(base.endswith("Module") for base in bases):
            found[name] = node.lineno
    return found


def import_root(path: Path) -> tuple[Path, str]:
    """The folder that imports of this file start from, and the package the file belongs to (empty: none)."""
    folder, parts = path.resolve().parent, []
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(parts))


def local_modules(source: SourceFile) -> dict[str, Path]:
    """Modules beside the file that it imports, those that they import included: name relative to the root -> file."""
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
                    waiting.extend(_tree_of(file, root))
    return dict(sorted(found.items()))


def texts_beside(path: Path) -> str:
    """The texts of those modules, one after the other; nothing of files that cannot be read."""
    texts = []
    with contextlib.suppress(UsageError, OSError, UnicodeDecodeError):
        for file in local_modules(read(path)).values():
            texts.append(file.read_text(encoding="utf-8-sig"))
    return "\n\n".join(text for text in texts if text.strip())


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level else []
            parts = parts[: len(parts) - node.level + 1] if node.level else parts
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _files_of(name: str, roots: tuple[Path, ...]) -> list[Path]:
    """The files that importing the dotted `name` runs, as far as they lie under one of the roots."""
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


def _tree_of(file: Path, root: Path) -> list[tuple[ast.Module, str]]:
    package = ".".join(file.parent.relative_to(root).parts)
    try:
        return [(ast.parse(file.read_bytes()), package)]
    except (OSError, SyntaxError, ValueError):
        return []  # loading the problem reports it, with the line
