"""Checks one kernel function: its signature, its globals and its statements, each against a list."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from triton_agent.tools.kernels.expression_check import UNKNOWN, Builtin, ExpressionCheck, FunctionParameter, words_for
from triton_agent.tools.kernels.kernel import DType, FunctionReference, LanguageName, dotted_name
from triton_agent.tools.kernels.language_names import (
    BUILTINS,
    CONSTANT_FUNCTIONS,
    DTYPE_METHODS,
    parameter_types,
    table,
)
from triton_agent.tools.kernels.values import MAX_EXPONENT, bare, check_constant_or_function
from triton_agent.tools.processes.tensors import Malformed

MAX_CONSTANT_ITERATIONS: Final = 4096
"""Maximum number of iterations of nested loops of a `constexpr_function`, as the product of their lengths."""


class FunctionCheck(ExpressionCheck):
    """Checks a `@triton.jit` function."""

    def check(self) -> frozenset[str]:
        """Check everything; return the parameters that are called as functions."""
        self._check_signature()
        self._check_name(self._function.name, self._definition)
        if len(self._globals) != len(self._function.globals):
            self._refuse(self._definition, "a global is given twice")
        for name, value in self._globals.items():
            try:
                root = dotted_name(name).split(".")[0]
                if isinstance(value, LanguageName):
                    if value.path not in table():
                        raise ValueError(f"{value.path} is not a part of Triton's language that a kernel may use")
                elif isinstance(bare(value), FunctionReference):
                    if bare(value).identity not in self._called:  # type: ignore[attr-defined]
                        raise ValueError("a function that is not on the tape")
                else:
                    check_constant_or_function(value, self._called)
            except (ValueError, Malformed) as error:
                self._refuse(self._definition, f"global {name}: {error}")
            if root in self._local:
                self._refuse(self._definition, f"{root} is a global and a variable at once; use two names")
            if root != name and root in self._globals:
                self._refuse(self._definition, f"{root} and {name} are both globals")
            if root in ("range", *BUILTINS) and root != name:
                self._refuse(self._definition, f"{root} is a builtin and a module at once")
        self._function_parameters = self._find_function_parameters()
        for parameter in self._function_parameters - self._constexprs:
            if self._function.kind == "jit":
                self._refuse(self._definition, f"parameter {parameter} is called, so it has to be a tl.constexpr")
        body = self._definition.body
        if ast.get_docstring(self._definition, clean=False) is not None:
            body = body[1:]
        self._statements(body)
        return self._function_parameters

    def _check_signature(self) -> None:
        arguments = self._definition.args
        if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
            self._refuse(self._definition, "a kernel takes plain parameters only: no *args, **kwargs, / or bare *")
        parameters = self._function.parameters
        if [argument.arg for argument in arguments.args] != [parameter.name for parameter in parameters]:
            self._refuse(self._definition, "its parameters are not those of its source")
        if [p.has_default for p in parameters] != sorted(p.has_default for p in parameters):
            self._refuse(self._definition, "a parameter without a default follows one with a default")
        if sum(p.has_default for p in parameters) != len(arguments.defaults):
            self._refuse(self._definition, "its defaults are not those of its source")
        for parameter in parameters:
            self._check_name(parameter.name, self._definition)
            annotation = parameter.annotation
            plain = annotation.removeprefix("*k").removeprefix("*")
            if annotation not in ("", "const", "constexpr") and plain not in parameter_types():
                self._refuse(self._definition, f"parameter {parameter.name} has the annotation {annotation!r:.60}")
            if parameter.has_default:
                try:
                    check_constant_or_function(parameter.default, self._called)
                except ValueError as error:
                    self._refuse(self._definition, f"the default of {parameter.name}: {error}")

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target]):
                self._target(target)
                self._value(node.value)
            case ast.AugAssign(target=ast.Name() as name):
                self._target(name)
                self._operation(node, name, node.op, node.value)
                self._value(node.value)
                if name.id in self._constexprs or name.id in self._constant_lines:
                    self._refuse(node, f"the constant {name.id} cannot be changed; assign to another name")
            case ast.AnnAssign(target=ast.Name() as name, value=ast.expr() as value):
                self._target(name)
                self._annotation(node.annotation)
                self._value(value)
                if name.id in self._parameters:
                    self._refuse(node, f"{name.id} is a parameter; assign to another name")
                for inner in ast.walk(value):  # a constant that depends on itself would grow without bound in a loop
                    if isinstance(inner, ast.Name) and self._constant_lines.get(inner.id, 0) >= node.lineno:
                        self._refuse(node, f"the constant {name.id} uses {inner.id}, which is set here or further down")
            case ast.If():
                self._condition(node.test)
                self._statements(node.body)
                self._statements(node.orelse)
            case ast.For(orelse=[]):
                self._loop(node)
            case ast.While(orelse=[]):
                self._condition(node.test)
                self._statements(node.body)
            case ast.Return():
                if node.value is not None:
                    self._value(node.value)
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr():
                self._value(node.value)
            case ast.Assert():
                self._condition(node.test)
                if node.msg is not None:
                    self._message(node.msg)
            case ast.Pass():
                pass
            case _:
                self._refuse(node, f"{words_for(node)} cannot be used in a kernel")

    def _loop(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self._refuse(node, "a loop in a kernel has one variable")
        self._target(node.target)
        call = node.iter
        meaning = self._meaning(call.func) if isinstance(call, ast.Call) else UNKNOWN
        is_range = isinstance(meaning, Builtin) and meaning.name == "range"
        is_language = isinstance(meaning, LanguageName) and table()[meaning.path].role == "loop"
        if not isinstance(call, ast.Call) or not (is_range or is_language):
            self._refuse(node, "a loop in a kernel goes over range, tl.range or tl.static_range")
        if is_range and call.keywords:
            self._refuse(node, "range takes no keywords; tl.range does")
        self._arguments(call)
        self._statements(node.body)

    def _target(self, node: ast.expr) -> None:
        match node:
            case ast.Name():
                self._check_name(node.id, node)
            case ast.Tuple():
                for item in node.elts:
                    self._target(item)
            case _:
                self._refuse(
                    node, f"{words_for(node)} cannot be assigned to in a kernel; assign to names, and use tl.store"
                )

    def _annotation(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return
        meaning = self._meaning(node)
        if isinstance(meaning, LanguageName) and table()[meaning.path].role in ("class", "dtype"):
            return
        if not isinstance(meaning, (DType, Builtin)):
            self._refuse(node, "a variable's annotation is tl.constexpr or a type")


class ConstantFunctionCheck(FunctionCheck):
    """Checks a `constexpr_function`: Python on constants, with loops that end."""

    _callable_methods = DTYPE_METHODS
    _iterations = 1

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.While):
            self._refuse(node, "while cannot be used in a constexpr_function; use for with a constant range")
        if isinstance(node, ast.AugAssign):
            self._growth(node, node.op, node.value, node.value)
        super()._statement(node)

    def _loop(self, node: ast.For) -> None:
        call, outer = node.iter, self._iterations
        is_range = isinstance(call, ast.Call) and isinstance(self._meaning(call.func), Builtin)
        bounds = [self._folded(argument, node) for argument in call.args] if isinstance(call, ast.Call) else []
        if not is_range or not bounds or not all(isinstance(bound, int) for bound in bounds):
            self._refuse(node, "a loop in a constexpr_function goes over a range of constants")
        try:
            self._iterations *= max(1, len(range(*bounds)))  # type: ignore[arg-type]
        except (ValueError, TypeError, OverflowError):
            self._refuse(node, "this range cannot be used")
        if self._iterations > MAX_CONSTANT_ITERATIONS:
            self._refuse(node, f"more than {MAX_CONSTANT_ITERATIONS} iterations in a constexpr_function")
        super()._loop(node)
        self._iterations = outer

    def _operation(self, node: ast.AST, left: ast.expr, operator: ast.operator, right: ast.expr) -> None:
        super()._operation(node, left, operator, right)
        self._growth(node, operator, left, right)

    def _growth(self, node: ast.AST, operator: ast.operator, left: ast.expr, right: ast.expr) -> None:
        """Refuse operations that double a number's length in each iteration; a constant factor only adds to it."""
        if self._iterations == 1 or not isinstance(operator, (ast.Mult, ast.Pow, ast.LShift)):
            return
        factors = [self._folded(left, node), self._folded(right, node)]
        sides = factors if isinstance(operator, ast.Mult) else factors[1:]
        if not any(factor is not None and abs(factor) <= MAX_EXPONENT for factor in sides) or isinstance(
            operator, ast.Pow
        ):
            self._refuse(node, f"a loop of a constexpr_function multiplies by constants up to {MAX_EXPONENT} only")

    def _call(self, node: ast.Call) -> None:
        meaning = self._meaning(node.func)
        name = ast.unparse(node.func)
        if isinstance(meaning, LanguageName) and meaning.path not in CONSTANT_FUNCTIONS:
            self._refuse(node, f"{name} cannot be called in a constexpr_function")
        if isinstance(meaning, FunctionReference):
            is_constant = self._kernels.functions[meaning.identity].kind == "constexpr"
            if not is_constant or self._iterations > 1:
                self._refuse(node, f"{name} cannot be called here; call constexpr_functions, and outside of loops")
        if isinstance(meaning, FunctionParameter) or (isinstance(meaning, Builtin) and meaning.name == "print"):
            self._refuse(node, f"{name} cannot be called in a constexpr_function")
        super()._call(node)
