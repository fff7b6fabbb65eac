"""Turns checked kernels back into a Python module that Triton compiles or interprets.

The text of each function stays as its author wrote it, with its comments and line count. Only two things change: its
signature (annotations and defaults come from the data, not from the text), and names of globals that have another
meaning in another function of the module. A comparison of syntax trees verifies that nothing else changed.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dataclasses
import hashlib
import json
import types
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from triton_agent.tools.kernels.kernel import (
    Constexpr,
    DType,
    FunctionReference,
    JitFunction,
    KernelSet,
    LanguageName,
    Value,
    pointee,
    value_to_json,
)
from triton_agent.tools.kernels.language import check
from triton_agent.tools.kernels.language_names import dtype_paths, table
from triton_agent.tools.parsing import name_parts, parse

HEADER: Final = "import triton\nimport triton.language as tl\n"
SLOTS, SLOT_LINES = 64, 256
"""Number of places for functions in a module, and lines of each place. Globals stand before the first one."""
_TL = "triton.language"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelModule:
    """The text of a module, and the positions of its functions."""

    text: str
    names: Mapping[str, str]
    """Name of each function, by identity."""
    first_lines: Mapping[str, tuple[int, int]]
    """Line of each `def` in the module and in the candidate's file, by identity."""


def build(kernels: KernelSet, taken: Collection[str] = (), *, apart: bool = False) -> KernelModule:
    """Check the kernels and return a module that defines all of them; raise `NotKernelLanguage` if one is refused.

    The module binds none of the names in `taken`. With `apart`, the lines of a function depend on its own text only,
    so that Triton, whose cache has the line in its key, compiles a function once that several modules have.
    """
    check(kernels)
    return _Builder(kernels, taken).build(apart=apart)


def load(kernels: KernelSet, folder: Path) -> dict[str, Any]:
    """Write the module into `folder`, execute it and return its functions by identity.

    With TRITON_INTERPRET=1, call `interpreter.install()` first: the module may bind functions of the language.
    """
    return execute(build(kernels), folder)


def execute(module: KernelModule, folder: Path) -> dict[str, Any]:
    """Execute a module that has been built; see `load`."""
    name = f"kernels_{hashlib.sha256(module.text.encode()).hexdigest()[:16]}"
    path = folder / f"{name}.py"
    path.write_text(module.text, encoding="utf-8")
    namespace = types.ModuleType(name)
    namespace.__file__ = str(path)
    exec(compile(module.text, str(path), "exec", dont_inherit=True), namespace.__dict__)
    return {identity: getattr(namespace, function) for identity, function in module.names.items()}


class _Builder:
    def __init__(self, kernels: KernelSet, taken: Collection[str] = ()) -> None:
        self._functions = kernels.ordered()
        self._trees = {identity: _definition(function.source) for identity, function in self._functions}
        self._used = {n.id for tree in self._trees.values() for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self._used |= {p.name for _, function in self._functions for p in function.parameters}
        self._bound = {name: f"taken {name}" for name in (*dir(builtins), *taken)}
        """Names bound in the module, each with a text that identifies its value."""
        self._bound["triton"], self._bound["tl"] = (_key(LanguageName(path=path)) for path in ("triton", _TL))
        self._names: dict[str, str] = {}
        self._imports: list[str] = []
        self._assignments: list[str] = []

    def build(self, *, apart: bool = False) -> KernelModule:
        for identity, function in self._functions:
            is_free = function.name not in self._bound
            self._names[identity] = function.name if is_free else self._fresh(function.name, "kernel")
            self._bound[self._names[identity]] = _key(FunctionReference(identity=identity))
        texts = []
        for identity, function in self._functions:
            renamed = {name: self._global(function, identity, name, value) for name, value in function.globals}
            texts.append(self._decorator(function) + "\n" + self._rewritten(function, identity, renamed))
        parts = [HEADER + "".join(sorted(self._imports))]
        if self._assignments:
            parts.append("".join(self._assignments))
        text = "\n".join(parts)
        first_lines = {}
        places = _places(texts) if apart else {}
        for index in places or range(len(texts)):
            identity, function = self._functions[index]
            text += "\n" * max(2, places.get(index, 0) - text.count("\n"))
            first_lines[identity] = (text.count("\n") + 2, function.first_line)
            text += texts[index]
        definitions = {node.name for node in parse(text).body if isinstance(node, ast.FunctionDef)}
        if definitions != set(self._names.values()):
            raise AssertionError("the module does not hold the functions it was built from")
        return KernelModule(text=text, names=self._names, first_lines=first_lines)

    def _fresh(self, name: str, prefix: str) -> str:
        """Return a name that no function uses and that the module does not bind."""
        candidate, number = f"{prefix}_{name}", 2
        while candidate in self._bound or candidate in self._used:
            candidate, number = f"{prefix}_{number}_{name}", number + 1
        return candidate

    def _global(self, function: JitFunction, identity: str, name: str, value: Value) -> str:
        """Return the module's name for a global of a function; bind it if it is new."""
        inner = value.value if isinstance(value, Constexpr) else value
        if isinstance(inner, FunctionReference):
            target = self._names[inner.identity]
            local = {n.id for n in ast.walk(self._trees[identity]) if isinstance(n, ast.Name) and n.id == target}
            parameters = {parameter.name for parameter in function.parameters}
            if target == name or (target not in local and target not in parameters):
                return target
        if "." not in name and name not in self._bound:
            chosen = name
        elif "." not in name and self._bound[name] == _key(value):
            return name
        else:
            chosen = self._fresh(name.replace(".", "_"), function.name)
        self._bound[chosen] = _key(value)
        path = value.path if isinstance(value, LanguageName) else ""
        if path and table()[path].role == "module" and "PropagateNan" not in path:
            parent, _, last = path.rpartition(".")
            source = f"from {parent} import {last}" if parent else f"import {last}"
            self._imports.append(f"{source}{'' if chosen == last else f' as {chosen}'}\n")
        else:
            self._assignments.append(f"{chosen} = {self._expression(value)}\n")
        return chosen

    def _decorator(self, function: JitFunction) -> str:
        if function.kind == "constexpr":
            return "@triton.constexpr_function"
        options = []
        if function.noinline:
            options.append("noinline=True")
        for option, names in (
            ("do_not_specialize", [p.name for p in function.parameters if not p.specialized]),
            ("do_not_specialize_on_alignment", [p.name for p in function.parameters if not p.aligned]),
        ):
            if names:
                options.append(f"{option}={json.dumps(names)}")
        return f"@triton.jit({', '.join(options)})" if options else "@triton.jit"

    def _expression(self, value: Value) -> str:
        match value:
            case Constexpr():
                return f"tl.constexpr({self._expression(value.value)})"
            case FunctionReference():
                return self._names[value.identity]
            case LanguageName():
                inside = value.path.removeprefix(f"{_TL}.")
                return value.path if inside == value.path else f"tl.{inside}"
            case DType():
                element, pointers = pointee(value.name)
                text = f"tl.{dtype_paths()[element]}"
                for is_constant in reversed(pointers):
                    text = f"tl.pointer_type({text}, const=True)" if is_constant else f"tl.pointer_type({text})"
                return text
            case tuple():
                return f"({', '.join(map(self._expression, value))}{',' * (len(value) == 1)})"
            case float() if value != value or abs(value) == float("inf"):
                return f'float("{value!r}")'
        return repr(value)

    def _rewritten(self, function: JitFunction, identity: str, renamed: Mapping[str, str]) -> str:
        """Return the function's text with its signature and renamed globals, keeping line numbers."""
        definition = self._trees[identity]
        expected = copy.deepcopy(definition)
        expected.name, expected.returns = self._names[identity], None
        expected.body = [_Renamer(renamed).visit(statement) for statement in expected.body]
        edits: list[_Edit] = [(definition, self._names[identity])]
        for node, argument, parameter in zip(definition.args.args, expected.args.args, function.parameters):
            annotation = f'"{parameter.annotation}"' if parameter.annotation else ""
            if parameter.annotation in ("constexpr", "const"):
                annotation = f"tl.{parameter.annotation}"
            argument.annotation = ast.parse(annotation, mode="eval").body if annotation else None
            edits.append((node, f"{parameter.name}: {annotation}" if annotation else parameter.name))
        defaults = [self._expression(p.default) for p in function.parameters if p.has_default]
        expected.args.defaults = [ast.parse(text, mode="eval").body for text in defaults]
        edits += zip(definition.args.defaults, defaults)
        for statement in definition.body:
            edits += _renaming_edits(statement, renamed)
        text = _edited(function.source, definition, edits)
        if ast.dump(_definition(text)) != ast.dump(expected) or text.count("\n") != function.source.count("\n"):
            raise AssertionError(f"rebuilding kernel {function.name} changed its meaning")
        return text


def _places(texts: Sequence[str]) -> dict[int, int]:
    """Return the line of each text in a module, in rising order: a slot that its hash chooses, or the next free one."""
    slots: dict[int, int] = {}
    taken: set[int] = set()
    for index, text in enumerate(texts):
        slot = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % SLOTS
        length = text.count("\n") // SLOT_LINES + 1
        while not taken.isdisjoint(range(slot, slot + length)):
            slot += 1
        taken.update(range(slot, slot + length))
        slots[index] = slot
    return {index: (slot + 1) * SLOT_LINES for index, slot in sorted(slots.items(), key=lambda item: item[1])}


_Edit = tuple[ast.AST, str]


def _key(value: Value) -> str:
    return json.dumps(value_to_json(value), sort_keys=True)


def _definition(source: str) -> ast.FunctionDef:
    definition = parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


def _renaming_edits(node: ast.AST, renamed: Mapping[str, str]) -> list[_Edit]:
    name = _global_at(node, renamed)
    if name is not None:
        return [] if renamed[name] == name else [(node, renamed[name])]
    return [edit for inner in ast.iter_child_nodes(node) for edit in _renaming_edits(inner, renamed)]


def _global_at(node: ast.AST, renamed: Mapping[str, str]) -> str | None:
    """Return the global that a name or dotted name refers to, or None."""
    name = ".".join(name_parts(node))
    return name if name in renamed else None


class _Renamer(ast.NodeTransformer):
    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed

    def visit(self, node: ast.AST) -> Any:
        name = _global_at(node, self._renamed)
        return super().visit(node) if name is None else ast.Name(id=self._renamed[name], ctx=ast.Load())


def _edited(source: str, definition: ast.FunctionDef, edits: list[_Edit]) -> str:
    """Replace the text of nodes, keeping the number of lines."""
    data = source.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    spans: list[tuple[int, int, bytes]] = []
    for node, text in edits:
        if node is definition:
            start = data.index(definition.name.encode(), 3)
            end = start + len(definition.name.encode())
        else:
            start = place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        spans.append((start, end, text.encode() + b"\n" * data.count(b"\n", start, end)))
    if definition.returns is not None:
        end = place(definition.returns.end_lineno or 1, definition.returns.end_col_offset or 0)
        start = data.rindex(b"->", 0, place(definition.returns.lineno, definition.returns.col_offset))
        spans.append((len(data[:start].rstrip(b" ")), end, b"\n" * data.count(b"\n", start, end)))
    for start, end, replacement in sorted(spans, reverse=True):
        data = data[:start] + replacement + data[end:]
    return data.decode()
