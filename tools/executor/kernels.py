"""The kernels of tapes as functions of Triton, and the way back from their lines to the candidate's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton.language as tl

from triton_agent.tools.isolate.child import report_of
from triton_agent.tools.tape import kernel_modules
from triton_agent.tools.tape.kernel_language import check_value
from triton_agent.tools.tape.kernels import (
    Constexpr,
    DType,
    FunctionReference,
    KernelSet,
    LanguageName,
    pointee,
    value_from_json,
)
from triton_agent.tools.tape.language_names import dtype_paths, table


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Functions by identity, as this process's Triton has them."""

    functions: Mapping[str, Any]
    kernels: KernelSet
    path: str
    """Of the module's file."""
    lines: tuple[tuple[int, int], ...]
    """Where each function begins: in the module, and in the candidate's file; in order."""

    @classmethod
    def load(cls, data: Any, folder: str) -> Kernels:
        """Check the kernels once more and make a module of them; `folder` is nobody else's."""
        kernels = KernelSet.from_json(data)
        functions = kernel_modules.load(kernels, Path(folder))
        module = kernel_modules.build(kernels)
        path = next(iter(Path(folder).glob("*.py")))
        return cls(
            functions=functions, kernels=kernels, path=str(path), lines=tuple(sorted(module.first_lines.values()))
        )

    def argument(self, data: Any) -> Any:
        """A compile-time argument of a launch."""
        value = value_from_json(data)
        check_value(value, self.kernels)
        return self._python(value)

    def _python(self, value: Any) -> Any:
        if isinstance(value, Constexpr):
            return tl.constexpr(self._python(value.value))
        if isinstance(value, FunctionReference):
            return self.functions[value.identity]
        if isinstance(value, LanguageName):
            return table()[value.path].object
        if isinstance(value, DType):
            element, pointers = pointee(value.name)
            kind = table()[f"triton.language.{dtype_paths()[element]}"].object
            for is_constant in reversed(pointers):
                kind = tl.pointer_type(kind, const=is_constant)
            return kind
        if isinstance(value, tuple):
            return tuple(map(self._python, value))
        return value

    def line_of(self, line: int) -> int:
        """The line of the candidate's file that a line of the module comes from; 0 where none does."""
        here, there = max(((h, t) for h, t in self.lines if h <= line), default=(0, 0))
        return line - here + there if here else 0

    def report(self, error: BaseException) -> dict[str, Any]:
        """An error as plain data, with the lines of the candidate's file."""
        if isinstance(getattr(error, "line", None), int):
            error.line = self.line_of(error.line)  # type: ignore[attr-defined]
        report = report_of(error, self.path)
        lines = [{**entry, "line": self.line_of(int(entry["line"] or 0))} for entry in report["lines"] if entry["code"]]
        return {**report, "lines": lines}
