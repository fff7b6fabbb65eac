"""Captures kernels from a running candidate: source text, parameters, and the values of the globals they use.

This runs in the tracer, beside the candidate, with Triton in its compiling mode. Safety does not depend on it: the
result is data that `language.check` checks in another process.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import itertools
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import ConstexprFunction, JITFunction

from triton_agent.tools.kernels.kernel import (
    Constexpr,
    DType,
    FunctionReference,
    JitFunction,
    KernelSet,
    LanguageName,
    NotKernelLanguage,
    Parameter,
    Value,
    function_from_json,
    function_to_json,
)
from triton_agent.tools.kernels.language_names import parameter_types, table
from triton_agent.tools.parsing import name_parts
from triton_agent.tools.processes.tensors import Malformed


class Capture:
    """Collects the functions of one trace."""

    def __init__(self) -> None:
        self._functions: dict[str, JitFunction] = {}
        self._identities: dict[int, tuple[object, str]] = {}
        """Identities by `id` of the function object, which is kept alive so that the `id` is not reused."""
        self._in_progress: list[object] = []

    def kernels(self) -> KernelSet:
        return KernelSet(functions=dict(self._functions))

    def capture(self, function: Any) -> str:
        """Capture a `@triton.jit` or `@triton.constexpr_function` and all functions it uses; return its identity.

        Raise `NotKernelLanguage` if it uses a value that cannot be put on a tape.
        """
        if id(function) in self._identities:
            return self._identities[id(function)][1]
        name, line = function.__name__, _line_of_def(function)
        if any(other is function for other in self._in_progress):
            raise NotKernelLanguage(name, line, "the function calls itself, directly or through others")
        self._in_progress.append(function)
        try:
            captured = self._read(function, name, line)
            function_from_json(function_to_json(captured))
        except Malformed as error:  # the checker would take such data for a forgery
            raise NotKernelLanguage(name, line, str(error)) from error
        finally:
            self._in_progress.pop()
        identity = captured.identity
        self._functions[identity] = captured
        self._identities[id(function)] = (function, identity)
        return identity

    def capture_value(self, value: Any) -> Value:
        """Return a global, a default or a constexpr argument as plain data; raise `TypeError` if it is not plain."""
        if value is None or type(value) in (bool, int, float, str):
            return value  # type: ignore[no-any-return]
        if isinstance(value, tl.constexpr):
            return Constexpr(value=self.capture_value(value.value))
        if isinstance(value, (JITFunction, ConstexprFunction)):
            path = _language_paths().get(id(value))
            return LanguageName(path=path) if path else FunctionReference(identity=self.capture(value))
        if isinstance(value, (tl.dtype, tl.pointer_type)):
            return DType(name=_type_name(value))
        if isinstance(value, enum.IntEnum):
            return int(value)
        if type(value) in (tuple, tl.tuple):
            return tuple(self.capture_value(item) for item in value)
        path = _language_paths().get(id(value))
        if path is not None:
            return LanguageName(path=path)
        kind = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
        raise TypeError(
            f"{kind} cannot be used in a kernel; it can use numbers, strings, types and @triton.jit functions"
        )

    def _read(self, function: Any, name: str, line: int) -> JitFunction:
        source = function.src.replace("\r\n", "\n").rstrip() + "\n"
        try:
            tree = ast.parse(source)
            definition = tree.body[0]
            assert isinstance(definition, ast.FunctionDef)
        except (SyntaxError, AssertionError, IndexError) as error:
            raise NotKernelLanguage(name, line, f"its source cannot be read: {error}") from error
        return JitFunction(
            name=name,
            source=source,
            parameters=self._parameters(function, name, line),
            globals=self._globals(function, definition, name, line),
            noinline=bool(getattr(function, "noinline", False)),
            first_line=line,
            kind="jit" if isinstance(function, JITFunction) else "constexpr",
        )

    def _parameters(self, function: Any, name: str, line: int) -> tuple[Parameter, ...]:
        parameters = []
        declared = {parameter.name: parameter for parameter in getattr(function, "params", [])}
        for parameter in function.signature.parameters.values():
            own = declared.get(parameter.name)
            has_default = parameter.default is not inspect.Parameter.empty
            try:
                default = self.capture_value(parameter.default) if has_default else None
            except TypeError as error:
                raise NotKernelLanguage(name, line, f"the default of {parameter.name}: {error}") from None
            parameters.append(
                Parameter(
                    name=parameter.name,
                    annotation=_annotation(own) if own else "",
                    has_default=has_default,
                    default=default,
                    specialized=not (own and own.do_not_specialize),
                    aligned=not (own and own.do_not_specialize_on_alignment),
                )
            )
        return tuple(parameters)

    def _globals(
        self, function: Any, definition: ast.FunctionDef, name: str, line: int
    ) -> tuple[tuple[str, Value], ...]:
        scope = dict(function.fn.__globals__)
        for variable, cell in zip(function.fn.__code__.co_freevars, function.fn.__closure__ or ()):
            try:
                scope[variable] = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
        found: dict[str, Value] = {}
        for node in _free_names(definition):
            parts = name_parts(node)
            if parts[0] not in scope:
                continue  # a builtin or an undefined name, which the check of the language finds out
            used = 1
            value = scope[parts[0]]
            while isinstance(value, ModuleType) and id(value) not in _language_paths() and used < len(parts):
                value = getattr(value, parts[used], None)
                used += 1
            key = ".".join(parts[:used])
            try:
                held = self.capture_value(value)
            except TypeError as error:
                raise NotKernelLanguage(name, line + node.lineno - 1, f"{key}: {error}") from None
            if used > 1 and not isinstance(held, (Constexpr, FunctionReference, LanguageName, DType)):
                held = Constexpr(value=held)  # Triton treats a plain attribute of a module as a constant
            found[key] = held
        return tuple(sorted(found.items()))


@functools.cache
def _language_paths() -> dict[int, str]:
    """Return the path of each object of the language by its `id`; the shortest path wins."""
    paths: dict[int, str] = {}
    for path, entry in table().items():
        is_object = entry.role not in ("dtype", "constant") and not path.startswith("math.")
        if is_object and len(path) < len(paths.get(id(entry.object), path + " ")):
            paths[id(entry.object)] = path
    return paths


def _type_name(value: Any) -> str:
    if isinstance(value, tl.pointer_type):
        return ("*k" if value.const else "*") + _type_name(value.element_ty)
    if type(value) is not tl.dtype:
        raise TypeError(f"a {type(value).__name__} cannot be used in a kernel as a constant")
    return str(value.name)


def _annotation(parameter: Any) -> str:
    if parameter.is_constexpr:
        return "constexpr"
    annotation = str(parameter.annotation)
    if annotation.removeprefix("*k").removeprefix("*") in parameter_types():
        return annotation
    return "const" if parameter.is_const else ""


def _line_of_def(function: Any) -> int:
    """Return the line of the `def` below the decorators. Triton's own function for this moved in 3.8."""
    before = itertools.takewhile(lambda line: not line.strip().startswith("def "), function.raw_src)
    return int(function.starting_line_number) + len(list(before))


def _free_names(definition: ast.FunctionDef) -> list[ast.Name | ast.Attribute]:
    """Return the names that the body reads but does not assign, each with the attributes that follow it."""
    local = {argument.arg for argument in ast.walk(definition.args) if isinstance(argument, ast.arg)}
    body = ast.Module(body=definition.body, type_ignores=[])
    local |= {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found: list[ast.Name | ast.Attribute] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            parts = name_parts(node)
            if parts:
                if parts[0] not in local:
                    found.append(node)
                return
        for inner in ast.iter_child_nodes(node):
            visit(inner)

    visit(body)
    return found
