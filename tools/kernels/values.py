"""Checks the values that kernels use, and evaluates arithmetic on constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from triton_agent.tools.kernels.kernel import (
    INTEGER_BOUND,
    MAX_ENTRIES,
    MAX_STRING,
    MAX_VALUE_DEPTH,
    Constexpr,
    DType,
    FunctionReference,
    LanguageName,
    Value,
    pointee,
)
from triton_agent.tools.kernels.language_names import dtype_paths, table

MAX_EXPONENT: Final = 64
"""Largest exponent, and largest shift, that a text may contain."""


def bare(value: object) -> object:
    return value.value if isinstance(value, Constexpr) else value


def check_constant_or_function(value: Value, called: Mapping[str, frozenset[str]]) -> None:
    """Check a global, a default or an argument; `called` holds the known functions."""
    if isinstance(value, LanguageName):
        entry = table().get(value.path)
        if entry is None or entry.role != "function":
            raise ValueError(f"{value.path} cannot be passed to a kernel")
    elif isinstance(value, Constexpr) and isinstance(value.value, (LanguageName, FunctionReference)):
        check_constant_or_function(value.value, called)
    elif isinstance(value, FunctionReference):
        if value.identity not in called:
            raise ValueError("a function that is not on the tape")
        if called[value.identity]:
            raise ValueError("a function that itself takes functions cannot be passed to a kernel")
    else:
        _check_data(value)


def _check_data(value: Value, depth: int = 0) -> None:
    match value:
        case None | bool() | float():
            return
        case int() if abs(value) < INTEGER_BOUND:
            return
        case str() if len(value) <= MAX_STRING and all(c.isprintable() or c in "\n\t" for c in value):
            return
        case DType() if pointee(value.name)[0] in dtype_paths():
            return
        case Constexpr() if depth <= MAX_VALUE_DEPTH and not isinstance(value.value, Constexpr):
            return _check_data(value.value, depth + 1)
        case tuple() if depth <= MAX_VALUE_DEPTH and len(value) <= MAX_ENTRIES:
            for item in value:
                _check_data(item, depth + 1)
            return
    raise ValueError(f"{value!r:.80} is not a constant that a kernel may use")


def calculated(operator: ast.operator, left: int | float, right: int | float) -> int | float | None:
    """Return the result of an operation on constants of at most 64 bits, or None if it has none."""
    if isinstance(operator, (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)):
        if not isinstance(left, int) or not isinstance(right, int):
            return None
        if isinstance(operator, (ast.LShift, ast.RShift)) and not 0 <= right <= MAX_EXPONENT:
            return None
    if isinstance(operator, ast.Pow) and abs(right) > MAX_EXPONENT:
        return None
    calculate: Callable[[int, int], int | float] | None = _ARITHMETIC.get(type(operator))
    try:
        return calculate(left, right) if calculate else None  # type: ignore[arg-type]
    except (ArithmeticError, ValueError):
        return None


_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int | float]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
}
