"""Why a kernel does not compile, in the candidate's own line numbers and one sentence.

Triton reports the same kind of mistake in five ways: a `CompilationError` with a syntax tree (one per function called),
a complaint about options, exhausted resources, a log of `ptxas`, or a bare RuntimeError with the reason on stderr.
`explain` makes one `CompileFailure` of each. An exception of the candidate's host code is none of these; for it the
answer is None. A launch with a missing or unknown argument counts as host code: the kernel may well compile.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_agent.tools.emulate.diagnostics import condense_mlir, locate

EXCERPT_BEFORE = 3
EXCERPT_AFTER = 1
CAUSE_LIMIT = 400

_NOTE = "_triton_agent_compile_note"
_PTXAS_ERROR = re.compile(r"^ptxas\S*(?: \S+, line \d+;)? *(?:error|fatal) *: *(.+)$", re.MULTILINE)
_REPR = re.compile(r"(\w+)\((.*?),?\)", re.DOTALL)


class CompileFailure(Exception):
    """One kernel, one cause. `line` is of the candidate's file; None where nothing points into it."""

    def __init__(self, *, kernel: str, line: int | None, cause: str, excerpt: str) -> None:
        super().__init__(kernel, line, cause, excerpt)
        self.kernel = kernel
        self.line = line
        self.cause = cause
        self.excerpt = excerpt

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.kernel, self.line, self.cause, self.excerpt)

    def __str__(self) -> str:
        where = f"kernel {self.kernel}" if self.kernel else "a kernel"
        where += "" if self.line is None else f", line {self.line}"
        return f"{where}: {self.cause}" + (f"\n{self.excerpt}" if self.excerpt else "")


def _rebuild(kernel: str, line: int | None, cause: str, excerpt: str) -> CompileFailure:
    return CompileFailure(kernel=kernel, line=line, cause=cause, excerpt=excerpt)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    kernel: str
    diagnostics: str


def mark(error: Exception, *, kernel: str, diagnostics: str = "") -> None:
    """Remember on the exception itself that it came out of compiling `kernel`, whoever catches it."""
    if _note_of(error) is None:
        setattr(error, _NOTE, _Note(kernel=kernel, diagnostics=diagnostics))


def _note_of(error: BaseException) -> _Note | None:
    note = getattr(error, _NOTE, None)
    return note if isinstance(note, _Note) else None


def explain(error: BaseException, source_path: str | Path) -> CompileFailure | None:
    """The failed compilation behind `error`, looking through what it was raised from; None if there is none."""
    found = next((link for link in _chain(error) if _is_compile_error(link)), None)
    if found is None:
        return None
    note = _note_of(found) or _Note(kernel="", diagnostics="")
    source = _Source(Path(source_path))
    line, cause = _line_and_cause(found, note, source)
    return CompileFailure(
        kernel=note.kernel,
        line=line if line is not None else source.line_of_function(note.kernel),
        cause=cause[:CAUSE_LIMIT],
        excerpt="" if line is None else source.excerpt(line),
    )


def cause_of(error: BaseException) -> str:
    """One sentence on a failed compilation, where its place in a file does not matter."""
    note = _note_of(error) or _Note(kernel="", diagnostics="")
    return _line_and_cause(error, note, _Source(Path()))[1][:CAUSE_LIMIT]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _is_compile_error(error: BaseException) -> bool:
    """Triton raises copies of some of its errors at a second launch; those carry no note but a telling type."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    return _note_of(error) is not None or isinstance(error, CompilationError | OutOfResources | PTXASError)


def _line_and_cause(error: BaseException, note: _Note, source: _Source) -> tuple[int | None, str]:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import PTXASError

    if isinstance(error, CompilationError):
        return _from_frontend(error, source)
    if isinstance(error, PTXASError):
        found = _PTXAS_ERROR.findall(str(error))
        return None, f"ptxas: {found[0]}" if found else _one_line(str(error))
    told = condense_mlir(note.diagnostics)
    if told:
        return locate(note.diagnostics, source.name), told
    kind = "" if type(error).__name__ == "OutOfResources" else f"{type(error).__name__}: "
    return None, kind + _one_line(str(error))


def _from_frontend(error: Any, source: _Source) -> tuple[int | None, str]:
    """The deepest function that stands in the candidate's file is to blame; the deepest message says for what."""
    from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure

    levels = [link for link in _chain(error) if isinstance(link, CompilationError)]
    lines = [line for line in (source.line_of_error(level) for level in levels) if line is not None]
    deepest = levels[-1]
    cause = _readable(deepest.error_message) or _one_line(repr(deepest.__cause__ or deepest))
    if isinstance(deepest, CompileTimeAssertionFailure):
        cause = f"static_assert failed: {_readable(deepest.error_message)}"
    callers = "" if len(lines) < 2 else " (reached from line " + ", ".join(map(str, lines[:-1])) + ")"
    return (lines[-1] if lines else None), cause + callers


def _readable(message: object) -> str:
    """Triton often keeps `NameError('x is not defined')`, the repr of the cause, as its message."""
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
    """The candidate's file, to find its lines again: Triton counts them from each kernel's `def`."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self.lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            self.lines = []

    def line_of_function(self, name: str) -> int | None:
        return next(iter(self._definitions(name)), None)

    def line_of_error(self, error: Any) -> int | None:
        """Where in this file the node of a `CompilationError` stands; None if its function is of another file."""
        offset: int | None = getattr(error.node, "lineno", None)
        told = (error.src or "").split("\n")
        name = re.match(r"def\s+(\w+)", told[0])
        if offset is None or name is None or offset > len(told):
            return None
        for head in self._definitions(name[1]):
            at = head + offset - 1
            if at <= len(self.lines) and self.lines[at - 1].strip() == told[offset - 1].strip():
                return at
        return None

    def excerpt(self, line: int) -> str:
        first = max(1, line - EXCERPT_BEFORE)
        shown = range(first, min(len(self.lines), line + EXCERPT_AFTER) + 1)
        return "\n".join(f"{'>' if at == line else ' '} {at:4} | {self.lines[at - 1]}" for at in shown)

    def _definitions(self, name: str) -> Iterator[int]:
        if not name:
            return
        head = re.compile(rf"\s*def\s+{re.escape(name)}\s*\(")
        yield from (at for at, line in enumerate(self.lines, start=1) if head.match(line))
