"""Reads a Python file as a list of top-level statements, each with its text, imports and names, and joins them
again.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from triton_agent.runs.ship.source.names import mentioned, renamed
from triton_agent.tools.problem import source as problem_source


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One name that an import statement binds."""

    local: str
    module: str
    """Name of the module, with leading dots if it is relative."""
    name: str | None
    """None for `import module`; `*` for all names."""
    renames: bool
    """True if it was written with `as`."""

    @property
    def target(self) -> str:
        """Return the full name of the imported object, however the import is written."""
        if self.name is None:
            return self.module if self.renames else self.module.split(".")[0]
        return f"{self.module}.{self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One top-level statement."""

    node: ast.stmt
    text: str
    binds: frozenset[str]
    mentions: frozenset[str]
    imports: tuple[Import, ...]
    """Imported names; empty unless the statement is a plain import."""

    @property
    def line(self) -> int:
        return self.node.lineno


class Parts:
    """The top-level statements of one file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.split("\n")
        self.parts = tuple(self._part(index, node) for index, node in enumerate(self.tree.body))
        self.future = any(item.module == "__future__" for part in self.parts for item in part.imports)

    def _part(self, index: int, node: ast.stmt) -> Part:
        holder = ast.Module(body=[node], type_ignores=[])
        imports = tuple(imports_of(node)) if isinstance(node, (ast.Import, ast.ImportFrom)) else ()
        return Part(
            node=node,
            text=self._segment(index, node),
            binds=frozenset(problem_source.bound_names(holder)),
            mentions=frozenset(mentioned(node)),
            imports=imports,
        )

    def _segment(self, index: int, node: ast.stmt) -> str:
        """Return whole lines with the comments right above; only the statement itself if others share its lines."""
        body = self.tree.body
        above = body[index - 1].end_lineno or 0 if index else 0
        below = _first_line(body[index + 1]) if index + 1 < len(body) else len(self._lines) + 1
        start, end = _first_line(node), node.end_lineno or node.lineno
        if above >= start or below <= end:
            return ast.get_source_segment(self.text, node) or ast.unparse(node)
        while start - 1 > above and self._lines[start - 2].startswith("#"):
            start -= 1
        return "\n".join(self._lines[start - 1 : end])

    def binding(self, name: str) -> list[Part]:
        """Return the statements that bind a name."""
        return [part for part in self.parts if name in part.binds]

    def bound(self) -> frozenset[str]:
        return frozenset(name for part in self.parts for name in part.binds)

    def without(self, parts: Sequence[Part]) -> str:
        """Return the text without these statements, everything else as it was written."""
        dropped = {row for part in parts for row in _rows(part.node)}
        dropped -= {row for part in self.parts if part not in parts for row in _rows(part.node)}  # `import a; b = 1`
        kept = [line for row, line in enumerate(self._lines) if row not in dropped]
        return "\n".join(kept).strip("\n")


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)])


def _rows(node: ast.stmt) -> range:
    return range(_first_line(node) - 1, node.end_lineno or node.lineno)


def imports_of(node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    """Yield the names that an import statement binds."""
    for alias in node.names:
        renames = alias.asname is not None
        if isinstance(node, ast.Import):
            local = alias.asname or alias.name.split(".")[0]
            yield Import(local=local, module=alias.name, name=None, renames=renames)
        else:
            module = "." * node.level + (node.module or "")
            yield Import(local=alias.asname or alias.name, module=module, name=alias.name, renames=renames)


def is_docstring(part: Part) -> bool:
    node = part.node
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_script(part: Part) -> bool:
    """Return whether the statement is `if __name__ == "__main__":`, which a shipped file does not need."""
    return isinstance(part.node, ast.If) and "__name__" in part.mentions


def joined(parts: Iterable[Part], names: Mapping[str, str]) -> str:
    """Return the statements' text, with two empty lines around definitions."""
    text = ""
    before: ast.stmt | None = None
    for part in parts:
        definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        apart = isinstance(part.node, definition) or isinstance(before, definition)
        text += ("\n\n\n" if apart else "\n") if text else ""
        text += renamed(part.text, names)
        before = part.node
    return text


def import_block(imports: Iterable[Import]) -> str:
    """Return import statements, the standard library's first, each name once."""
    once = {(item.local, item.target): item for item in imports}
    plain, members = set[str](), dict[str, set[str]]()
    for item in once.values():
        if item.name is None:
            same = not item.renames or item.local == item.module
            plain.add(f"import {item.module}" if same else f"import {item.module} as {item.local}")
        else:
            same = item.name == item.local
            members.setdefault(item.module, set()).add(item.name if same else f"{item.name} as {item.local}")
    lines = sorted(plain) + [f"from {module} import {', '.join(sorted(members[module]))}" for module in sorted(members)]
    own = [line for line in lines if line.split()[1].split(".")[0] in sys.stdlib_module_names]
    others = [line for line in lines if line not in own]
    return "\n\n".join("\n".join(block) for block in (own, others) if block)
