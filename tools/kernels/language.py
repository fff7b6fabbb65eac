"""Checks that a kernel's text is Triton's language and nothing else.

A text that passes may be executed as Python, since Triton's interpreter does that. Everything that is not listed is
therefore refused: kinds of statements and expressions, names (`language_names.py`), attributes, and calls. The rules
are in `function_check.py` and `expression_check.py`.

Not covered: the time and memory that a kernel takes. Constants written in the text are bounded, but arithmetic on
constexpr arguments is not, and loops may be endless: processes that compile or run kernels need limits.
"""

from __future__ import annotations

from triton_agent.tools.kernels.function_check import ConstantFunctionCheck, FunctionCheck
from triton_agent.tools.kernels.kernel import FunctionReference, KernelSet, NotKernelLanguage, Value
from triton_agent.tools.kernels.values import bare, check_constant_or_function

__all__ = ["NotKernelLanguage", "check", "check_value"]


def check(kernels: KernelSet) -> None:
    """Raise `NotKernelLanguage` unless every function of the set may be compiled and run."""
    _checked(kernels)


def check_value(value: Value, kernels: KernelSet) -> None:
    """Raise `ValueError` unless the value may be a constexpr argument of a launch of one of the kernels.

    Raise `NotKernelLanguage` if the value is a function and the kernels do not pass `check`.
    """
    check_constant_or_function(value, _checked(kernels) if isinstance(bare(value), FunctionReference) else {})


def _checked(kernels: KernelSet) -> dict[str, frozenset[str]]:
    """Check all functions; return, for each, the parameters that it calls."""
    called: dict[str, frozenset[str]] = {}
    for identity, function in kernels.ordered():
        checker = FunctionCheck if function.kind == "jit" else ConstantFunctionCheck
        called[identity] = checker(function, kernels, called).check()
    return called
