"""Finds the parameters through which a kernel may write, from its text. In doubt a parameter counts as written.

Pointers are followed through assignments, arithmetic and calls of other functions, but not through memory. A kernel
that makes pointers from numbers may write through all of its parameters, and to any address it can obtain
(`makes_pointers`). In other kernels a loaded value is not a pointer.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from triton_agent.tools.kernels.kernel import (
    Constexpr,
    DType,
    FunctionReference,
    JitFunction,
    KernelSet,
    LanguageName,
    Value,
)
from triton_agent.tools.parsing import dotted, syntax_of

WRITING = frozenset(
    {"store", "store_tensor_descriptor", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min"}
    | {"atomic_or", "atomic_xchg", "atomic_xor", "scatter"}
)
"""Functions that write through their first argument, and methods that write through their object."""
VALUES = frozenset({"load", "load_tensor_descriptor", "program_id", "num_programs", "arange", "dot", "zeros"})
"""Functions whose result is never a pointer."""
MAKING_POINTERS = frozenset({"pointer_type", "PointerType", "pi32_t"})
"""Names that turn a number into a pointer. Inline assembly is not among them: it computes on registers only."""


class WrittenParameters:
    """Answers queries about the kernels of a set, which may grow, and reads each kernel once."""

    def __init__(self, kernels: KernelSet) -> None:
        self.kernels = kernels
        """May be replaced by a larger set: an identity always stands for the same text."""
        self._known: dict[str, frozenset[str]] = {}
        self._making_pointers: dict[str, bool] = {}

    def __call__(self, identity: str) -> frozenset[str]:
        if identity not in self._known:
            self._known[identity] = _Reading(self.kernels.functions[identity], self).written()
        return self._known[identity]

    def makes_pointers(self, identity: str) -> bool:
        """Return True if the kernel, or a function it uses, may turn a number into a pointer."""
        if identity not in self._making_pointers:
            function = self.kernels.functions[identity]
            used = any(map(self.makes_pointers, function.references()))
            self._making_pointers[identity] = used or _Reading(function, self).makes_pointers()
        return self._making_pointers[identity]

    def parameters(self, identity: str) -> list[str]:
        return [parameter.name for parameter in self.kernels.functions[identity].parameters]


class _Reading:
    """One function, with the parameters that each variable may be derived from."""

    def __init__(self, function: JitFunction, others: WrittenParameters) -> None:
        self._others = others
        self._nodes = syntax_of(function.source).nodes
        self._parameters = [parameter.name for parameter in function.parameters]
        self._globals: Mapping[str, Value] = dict(function.globals)
        self._defaults = [parameter.default for parameter in function.parameters]
        self._origins: dict[str, set[str]] = {name: {name} for name in self._parameters}
        self._written: set[str] = set()

    def written(self) -> frozenset[str]:
        self._follow()
        return frozenset(self._parameters if self.makes_pointers() else self._written)

    def makes_pointers(self) -> bool:
        names = {node.id for node in self._nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in self._nodes if isinstance(node, ast.Attribute)}
        if names & MAKING_POINTERS or any(map(_is_pointer_type, (*self._globals.values(), *self._defaults))):
            return True
        self._follow()
        pointees = {id(inner) for node in self._nodes if _is_pointee(node) for inner in ast.iter_child_nodes(node)}
        return any(
            node.attr in ("dtype", "type") and id(node) not in pointees and self._of(node.value)
            for node in self._nodes
            if isinstance(node, ast.Attribute)
        )

    def _follow(self) -> None:
        before = -1
        while before != self._size():  # repeat until nothing changes, since loops carry pointers over
            before = self._size()
            for node in self._nodes:
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        self._assign(target, self._of(node.value))
                elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                    self._assign(node.target, self._of(node.value))
                elif isinstance(node, ast.For):
                    self._assign(node.target, self._of(node.iter))
                elif isinstance(node, ast.Call):
                    self._note_call(node)

    def _size(self) -> int:
        return sum(map(len, self._origins.values())) + len(self._written)

    def _assign(self, target: ast.expr, origins: set[str]) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._origins.setdefault(node.id, set()).update(origins)

    def _of(self, node: ast.AST | None) -> set[str]:
        """Return the parameters that the value of an expression may point into."""
        if node is None:
            return set()
        if isinstance(node, ast.Name):
            return set(self._origins.get(node.id, ()))
        if isinstance(node, ast.Call) and self._called(node) in VALUES:
            return set()
        return set().union(*(self._of(child) for child in ast.iter_child_nodes(node)))

    def _called(self, node: ast.Call) -> str:
        """Return the last part of the called name if it belongs to the language, else ""."""
        meaning = self._globals.get(dotted(node.func))
        if isinstance(meaning, LanguageName):
            return meaning.path.rpartition(".")[2]
        if isinstance(meaning.value if isinstance(meaning, Constexpr) else meaning, FunctionReference):
            return ""  # a function of the candidate, whatever its name is
        return node.func.attr if isinstance(node.func, ast.Attribute) else ""

    def _note_call(self, node: ast.Call) -> None:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = self._globals.get(dotted(node.func))
        function = function.value if isinstance(function, Constexpr) else function
        if isinstance(function, FunctionReference):
            written, names = self._others(function.identity), self._others.parameters(function.identity)
            if any(isinstance(argument, ast.Starred) for argument in node.args):
                names = []  # the mapping of arguments to parameters is unknown
                self._written |= set().union(*map(self._of, node.args)) if written else set()
            for name, argument in [*zip(names, node.args), *((k.arg, k.value) for k in node.keywords)]:
                self._written |= self._of(argument) if name in written else set()
        elif isinstance(node.func, ast.Name) and node.func.id in self._parameters:
            for argument in arguments:  # an unknown function, passed as an argument
                self._written |= self._of(argument)
        elif self._called(node) in WRITING:
            first = next((keyword.value for keyword in node.keywords if keyword.arg in ("pointer", "desc")), None)
            self._written |= self._of(node.args[0] if node.args else first)
            if isinstance(node.func, ast.Attribute):
                self._written |= self._of(node.func.value)


def _is_pointee(node: ast.AST) -> bool:
    """Return True for the element type of a pointer: `p.dtype.element_ty`, `p.type.element_ty`."""
    if not isinstance(node, ast.Attribute) or node.attr != "element_ty" or not isinstance(node.value, ast.Attribute):
        return False
    return node.value.attr == "dtype" or isinstance(node.value.value, ast.Name)


def _is_pointer_type(value: object) -> bool:
    if isinstance(value, Constexpr):
        return _is_pointer_type(value.value)
    if isinstance(value, tuple):
        return any(map(_is_pointer_type, value))
    return isinstance(value, DType) and value.name.startswith("*")
