"""Checking a `constexpr_function`: Python on constants at compile time, with loops that end."""

from __future__ import annotations

import ast
from typing import Final

from triton_agent.tools.tape.function_check import Builtin, FunctionCheck, FunctionParameter
from triton_agent.tools.tape.kernel_values import MAX_EXPONENT
from triton_agent.tools.tape.kernels import FunctionReference, LanguageName
from triton_agent.tools.tape.language_names import CONSTANT_FUNCTIONS, DTYPE_METHODS

MAX_CONSTANT_ITERATIONS: Final = 4096
"""Of all nested loops of a function together."""


class ConstantFunctionCheck(FunctionCheck):
    """Checks a `constexpr_function`: Python on constants, with loops that end."""

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
        """Refuse what doubles a number's length at each iteration; a constant factor only adds to it."""
        if self._iterations == 1 or not isinstance(operator, (ast.Mult, ast.Pow, ast.LShift)):
            return
        factors = [self._folded(left, node), self._folded(right, node)]
        sides = factors if isinstance(operator, ast.Mult) else factors[1:]
        if not any(factor is not None and abs(factor) <= MAX_EXPONENT for factor in sides) or isinstance(
            operator, ast.Pow
        ):
            self._refuse(node, f"a loop of a constexpr_function multiplies by constants up to {MAX_EXPONENT} only")

    def _methods(self) -> frozenset[str]:
        return DTYPE_METHODS

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
