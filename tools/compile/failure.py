"""The cause of a failed compilation: one sentence, and the line of the kernel's file.

Triton reports an error in one of five ways: a `CompilationError` with a syntax tree (one per called function), a
message about options, exhausted resources, a log of `ptxas`, or a bare RuntimeError with the reason on stderr, where
the native part of the compiler writes it. `explain` makes a `CompileFailure` from each.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CAUSE_LIMIT = 400
CAUSES_AT_MOST = 100

_PTXAS_ERROR = re.compile(r"^ptxas\S*(?: \S+, line \d+;)? *(?:error|fatal) *: *(.+)$", re.MULTILINE)
_REPR = re.compile(r"(\w+)\((.*?),?\)", re.DOTALL)
_ERROR = re.compile(r"^(?:(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+: )?error: (?P<message>.+)$", re.MULTILINE)
_ANY_PASS = "Failures have been detected while processing an MLIR pass pipeline"
_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailure:
    """One kernel, one cause."""

    kernel: str
    line: int | None
    """Line of the kernel's file; None if unknown."""
    cause: str


def explain(error: BaseException, kernel: str, source_path: str | Path, stderr_text: str = "") -> CompileFailure:
    """Return the cause of an error raised while `kernel` was compiled or loaded.

    `stderr_text` is the text written to file descriptor 2 meanwhile.
    """
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    source = _Source(Path(source_path))
    line, cause = None, ""
    if isinstance(error, CompilationError):
        line, cause = _from_frontend(error, source)
    elif isinstance(error, PTXASError):
        found = _PTXAS_ERROR.findall(str(error))
        cause = f"ptxas: {found[0]}" if found else _one_line(str(error))
    elif told := condense_mlir(stderr_text):
        line, cause = _blamed_line(stderr_text, source.name), told
    else:
        cause = ("" if isinstance(error, OutOfResources) else f"{type(error).__name__}: ") + _one_line(str(error))
    line = line if line is not None else next(source.definitions(kernel), None)
    return CompileFailure(kernel=kernel, line=line, cause=cause[:CAUSE_LIMIT])


def condense_mlir(stderr_text: str) -> str:
    """Return the message in a compiler's stderr without the surrounding IR and stack; "" if there is none."""
    errors = [match["message"] for match in _ERROR.finditer(stderr_text) if _ANY_PASS not in match["message"]]
    failed_pass = [f"the compiler's pass {name} failed" for name in _PASS.findall(stderr_text)]
    return next(iter(errors + failed_pass), "")


def _blamed_line(stderr_text: str, source_name: str) -> int | None:
    found = [
        (_ANY_PASS in match["message"], int(match["line"]))  # the message of a failed pass points at the kernel's head
        for match in _ERROR.finditer(stderr_text)
        if match["path"] and os.path.basename(match["path"]) == source_name
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _from_frontend(error: Any, source: _Source) -> tuple[int | None, str]:
    """Return the line of the innermost function that is in the file, and the innermost message."""
    from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure

    levels: list[Any] = []
    link = error
    for _ in range(CAUSES_AT_MOST):
        if isinstance(link, CompilationError):
            levels.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if link is None:
            break
    lines = [line for line in map(source.line_of_error, levels) if line is not None]
    innermost = levels[-1]
    first = innermost.__cause__ or innermost
    cause = _readable(innermost.error_message) or _asserted(first) or _one_line(repr(first))
    if isinstance(innermost, CompileTimeAssertionFailure):
        cause = f"static_assert failed: {_readable(innermost.error_message)}"
    callers = "" if len(lines) < 2 else " (reached from line " + ", ".join(map(str, lines[:-1])) + ")"
    return (lines[-1] if lines else None), cause + callers


def _asserted(error: BaseException) -> str:
    """Return the statement that the compiler asserted without a message; "" for other errors."""
    if not isinstance(error, AssertionError) or str(error):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    return f"the compiler's own `{frames[-1].line}` failed" if frames and frames[-1].line else ""


def _readable(message: object) -> str:
    """Unwrap a message such as `NameError('x is not defined')`: Triton often stores the repr of the cause."""
    text = "" if message is None else str(message)
    match = _REPR.fullmatch(text)
    if match:
        try:
            return _one_line(f"{match[1]}: {ast.literal_eval(match[2])}")
        except (ValueError, SyntaxError):
            pass
    return _one_line(text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Source:
    """The kernel's file. Triton counts lines from each kernel's `def`; this maps them back to lines of the file."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self.lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            self.lines = []

    def line_of_error(self, error: Any) -> int | None:
        """Return the line of a `CompilationError` in this file; None if its function is in another file."""
        offset: int | None = getattr(error.node, "lineno", None)
        told = (error.src or "").split("\n")
        name = re.match(r"def\s+(\w+)", told[0])
        if offset is None or name is None or offset > len(told):
            return None
        for head in self.definitions(name[1]):
            at = head + offset - 1
            if at <= len(self.lines) and self.lines[at - 1].strip() == told[offset - 1].strip():
                return at
        return None

    def definitions(self, name: str) -> Iterator[int]:
        head = re.compile(rf"\s*def\s+{re.escape(name)}\s*\(")
        yield from (at for at, line in enumerate(self.lines, start=1) if head.match(line))
