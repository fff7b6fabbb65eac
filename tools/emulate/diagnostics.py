"""What the native half of the compiler writes to file descriptor 2: recorded, and condensed to the line that matters.

MLIR and LLVM report errors there and nowhere else; the Python exception then only says that a pass failed. Does not
keep the IR that comes with such a report, and cannot save a process that LLVM ends: the text is then still in the file
that was the process's stderr, if it was a file, and `condense_mlir` makes it readable for whoever finds the body.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator

STDERR = 2
TEXT_LIMIT_BYTES = 1 << 20
LINE_LIMIT = 300

_ERROR = re.compile(r"^(?:(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+: )?error: (?P<message>.+)$", re.MULTILINE)
_ANY_PASS = "Failures have been detected while processing an MLIR pass pipeline"
_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")
_FATAL = re.compile(r"^LLVM ERROR: (.+)$", re.MULTILINE)
_ASSERTION = re.compile(r"/(\w+\.\w+):(\d+): .*Assertion [`'](.+)' failed", re.MULTILINE)
_UNREACHABLE = re.compile(r"((?:^.+\n){0,3})^UNREACHABLE executed", re.MULTILINE)


@contextlib.contextmanager
def record_stderr() -> Iterator[io.StringIO]:
    """Holds, after the block, what was written to file descriptor 2 in it. The text also goes where it was going."""
    sink = io.StringIO()
    sys.stderr.flush()
    own = _reopened()
    with _read_back(own, sink) if own is not None else _redirected(sink):
        yield sink


def _reopened() -> int | None:
    """Our stderr, opened for reading, if it is a file: then nothing is lost even if LLVM ends this process."""
    if not stat.S_ISREG(os.fstat(STDERR).st_mode):
        return None
    try:
        return os.open(f"/proc/self/fd/{STDERR}", os.O_RDONLY)
    except OSError:
        return None


@contextlib.contextmanager
def _read_back(fd: int, sink: io.StringIO) -> Iterator[None]:
    start = os.fstat(fd).st_size
    try:
        yield
    finally:
        sys.stderr.flush()
        sink.write(os.pread(fd, TEXT_LIMIT_BYTES, start).decode(errors="replace"))
        os.close(fd)


@contextlib.contextmanager
def _redirected(sink: io.StringIO) -> Iterator[None]:
    """A file and not a pipe: MLIR can print more than a pipe holds before anybody reads."""
    original = os.dup(STDERR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, STDERR)
            os.close(original)
            text = os.pread(file.fileno(), TEXT_LIMIT_BYTES, 0)
            sink.write(text.decode(errors="replace"))
            if text:
                os.write(STDERR, text)


def condense_mlir(stderr_text: str) -> str:
    """The message in a compiler's stderr without the IR, reproducers and stack around it; empty if there is none."""
    errors = [match["message"] for match in _ERROR.finditer(stderr_text) if _ANY_PASS not in match["message"]]
    fatal = _FATAL.findall(stderr_text)
    asserted = [f"{what} ({file}:{line})" for file, line, what in _ASSERTION.findall(stderr_text)]
    unreachable = [" ".join(text.split("\n")).strip() for text in _UNREACHABLE.findall(stderr_text)]
    failed_pass = [f"the compiler's pass {name} failed" for name in _PASS.findall(stderr_text)]
    for found in (errors, fatal, unreachable, asserted, failed_pass):
        if found:
            return found[0][:LINE_LIMIT]
    return ""


def locate(stderr_text: str, source_name: str) -> int | None:
    """The line of the file called `source_name` that a compiler's stderr blames: the first, unless it says nothing."""
    found = [
        (_ANY_PASS in match["message"], int(match["line"]))  # what every failed pass says points at the kernel's head
        for match in _ERROR.finditer(stderr_text)
        if match["path"] and os.path.basename(match["path"]) == source_name
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None
