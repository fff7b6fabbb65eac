"""Outlines of problem files, computed from their text, to keep a benchmark's problems out of training data.

A file is parsed and never run. A dataset is considered to contain it if a class has the same text up to names, numbers
of sizes, comments and layout, or nearly the same operators and pairs of operators that feed each other. Not covered:
operators in loops over data, and classes that are imported from elsewhere.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from triton_agent.tools.graph.operators import words

LIKENESS = 0.8
"""Share of common operators and pairs from which on two problems count as alike."""
_PASSED_THROUGH = words(
    "view reshape unsqueeze squeeze contiguous float half bfloat16 to type typeas expand expandas detach clone size"
)
"""Calls that are not counted as operators; their argument stands for them."""
_OPERATORS = {
    **{"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "MatMult": "matmul", "Pow": "pow"},
    **{"USub": "neg", "Gt": "gt", "Lt": "lt", "GtE": "ge", "LtE": "le", "FloorDiv": "floordivide", "Mod": "remainder"},
}
_SAME = {"multiply": "mul", "subtract": "sub", "divide": "div", "truedivide": "div", "mm": "matmul", "bmm": "matmul"}
_MODULES = frozenset({"torch", "F", "nn", "functional", "special", "linalg", "math"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The parts of a class that are compared."""

    text: str
    """Hash of the class's normalized text."""
    operators: Counter[str]
    """Operators, and pairs of them as `one>other`."""

    def likeness(self, other: Outline) -> float:
        small, large = sorted((self.operators.total(), other.operators.total()))
        if not small or small < LIKENESS * large:  # the common share cannot reach the limit
            return 0.0
        common = (self.operators & other.operators).total()
        return common / (small + large - common)


class Known:
    """The problems of the given folders."""

    def __init__(self, outlines: Iterable[tuple[str, Outline]]) -> None:
        self._outlines = list(outlines)
        self._texts = {outline.text: name for name, outline in self._outlines}

    def __len__(self) -> int:
        return len(self._outlines)

    def like(self, outlines: Iterable[Outline]) -> str:
        """Return the name of a known problem that is like one of these outlines; empty if there is none."""
        for outline in outlines:
            if outline.text in self._texts:
                return self._texts[outline.text]
            for name, other in self._outlines:
                if outline.likeness(other) >= LIKENESS:
                    return name
        return ""


def outlines_below(folder: Path) -> Iterator[tuple[str, Outline]]:
    """Yield the outlines of all classes with a `forward` in a Python file or in the Python files of a folder."""
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    for file in files:
        for outline in outlines_of(file.read_text(errors="replace")):
            yield file.name, outline


def outlines_of(text: str) -> list[Outline]:
    """Return an outline of each class with a `forward`; an empty list if the text is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = []
    for node in classes.values():
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        if "forward" in methods:
            reader = _Reader(_layers(methods.get("__init__")))
            reader.body(methods["forward"].body)
            if reader.operators:
                found.append(Outline(text=_normalised(methods), operators=reader.operators))
    return found


def _layers(init: ast.FunctionDef | None) -> dict[str, list[str]]:
    """Map each attribute to the operators that `__init__` assigns to it: one for a layer, several for a sequence."""
    found = {}
    for node in ast.walk(init) if init else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found[target.attr] = _layer(node.value)
    return {name: layers for name, layers in found.items() if layers != ["parameter"]}


def _layer(call: ast.Call) -> list[str]:
    name = _word(call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""))
    if name in ("sequential", "modulelist"):
        return [word for inner in call.args if isinstance(inner, ast.Call) for word in _layer(inner)]
    return [] if name == "identity" else [name]


def _word(name: str) -> str:
    """Return one spelling for `LeakyReLU`, `leaky_relu` and `F.leaky_relu_`, and for `Conv2d` and `conv2d`."""
    word = re.sub(r"[123]d$", "", name.rstrip("_").lower()).replace("_", "")
    return _SAME.get(word, word)


class _Reader:
    """Tracks which operator feeds which, statement by statement."""

    def __init__(self, layers: Mapping[str, list[str]]) -> None:
        self.operators: Counter[str] = Counter()
        self._layers = layers
        self._makers: dict[str, frozenset[str]] = {}

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assign):
                makers = self._read(statement.value)
                for target in statement.targets:
                    for node in ast.walk(target):
                        if isinstance(node, ast.Name):
                            self._makers[node.id] = makers
            elif isinstance(statement, ast.AugAssign):
                makers = self._add(_OPERATORS.get(type(statement.op).__name__, ""), [statement.target, statement.value])
                if isinstance(statement.target, ast.Name):
                    self._makers[statement.target.id] = makers
            elif isinstance(statement, ast.Return | ast.Expr) and statement.value is not None:
                self._read(statement.value)
            else:
                for name in ("body", "orelse"):
                    self.body(getattr(statement, name, ()))

    def _read(self, node: ast.AST) -> frozenset[str]:
        """Count the operators of an expression; return those that its value may come from."""
        if isinstance(node, ast.Name):
            return self._makers.get(node.id, frozenset())
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
            constant = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
            return frozenset() if constant else self._add(_OPERATORS.get(type(node.op).__name__, ""), parts)
        if isinstance(node, ast.Compare):
            return self._add(_OPERATORS.get(type(node.ops[0]).__name__, ""), [node.left, *node.comparators])
        if not isinstance(node, ast.Call):
            return frozenset().union(*map(self._read, ast.iter_child_nodes(node)))
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = function.value
            if isinstance(owner, ast.Name) and owner.id == "self":
                makers = frozenset().union(*map(self._read, arguments))
                for word in self._layers.get(function.attr, [_word(function.attr)]):
                    makers = self._count(word, makers)
                return makers
            of_module = ast.unparse(owner).split(".")[-1] in _MODULES
            return self._add(_word(function.attr), arguments if of_module else [owner, *arguments])
        return self._add(_word(getattr(function, "id", "call")), arguments)

    def _add(self, word: str, parts: Iterable[ast.AST]) -> frozenset[str]:
        makers = frozenset().union(*map(self._read, parts))
        return makers if not word or word in _PASSED_THROUGH else self._count(word, makers)

    def _count(self, word: str, makers: frozenset[str]) -> frozenset[str]:
        self.operators[word] += 1
        self.operators.update(f"{maker}>{word}" for maker in makers)
        return frozenset({word})


def _normalised(methods: Mapping[str, ast.FunctionDef]) -> str:
    """Return a hash of the methods without names, docstrings, annotations and integers."""
    names: dict[str, str] = {}
    found: list[str] = []
    for name in ("__init__", "forward"):
        if name not in methods:
            continue
        for statement in methods[name].body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            for node in ast.walk(statement):
                found.append(type(node).__name__)
                if isinstance(node, ast.Name) and node.id not in _MODULES:
                    found.append(names.setdefault(node.id, str(len(names))))
                elif isinstance(node, ast.Attribute):
                    of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
                    found.append(names.setdefault(node.attr, str(len(names))) if of_self else node.attr)
                elif isinstance(node, ast.Constant) and not isinstance(node.value, int):
                    found.append(repr(node.value))
    return hashlib.sha256(" ".join(found).encode()).hexdigest()
