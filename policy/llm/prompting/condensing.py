"""Shortens a kernel file to its kernels or to their signatures. The result is for reading, not for running.

It looks only at lines that begin at the margin. It needs no parser, and also accepts text that is not Python.
"""

from __future__ import annotations

import functools
import re

KERNEL = re.compile(r"^@(?:\w+\.)*(?:jit|autotune|heuristics)\b")
STARTS_FUNCTION = re.compile(r"^(?:async[ \t]+)?def\b")
CONTINUES = re.compile(r"^[ \t)\]}#]|^$")
"""Lines that continue the definition above: indented, blank, comments, and the end of an argument list."""
LEFT_OUT = "# [... {lines} lines left out ...]"


@functools.lru_cache(maxsize=256)
def kernels_only(source: str) -> str:
    """Return the functions that Triton compiles, with their decorators; empty if there are none."""
    lines = source.split("\n")
    return _assembled(_kernels(lines), lines)


@functools.lru_cache(maxsize=256)
def signatures_only(source: str) -> str:
    """Return the signatures of the functions that Triton compiles, without bodies."""
    lines = source.split("\n")
    heads = []
    for begin, end in _kernels(lines):
        name = next(at for at in range(begin, end) if STARTS_FUNCTION.match(lines[at]))
        close = next((at for at in range(name, end) if _ends_head(lines[at])), name)
        heads.append((name, close + 1))
    return "\n".join("\n".join(["@triton.jit", *lines[begin:end], "    ..."]) for begin, end in heads)


def _ends_head(line: str) -> bool:
    return line.partition("#")[0].rstrip().endswith(":")


def _kernels(lines: list[str]) -> list[tuple[int, int]]:
    """Return the range of lines of each kernel."""
    found, at = [], 0
    while at < len(lines):
        if lines[at].startswith("@"):
            begin, at = at, _after_decorators(lines, at)
            compiled = any(KERNEL.match(line) for line in lines[begin:at])
            if at < len(lines) and STARTS_FUNCTION.match(lines[at]):
                at = _after_body(lines, at)
                if compiled:
                    found.append((begin, at))
        else:
            at += 1
    return found


def _after_decorators(lines: list[str], at: int) -> int:
    """Return the first line after the decorators."""
    while at < len(lines) and (lines[at].startswith("@") or CONTINUES.match(lines[at])):
        at += 1
    return at


def _after_body(lines: list[str], at: int) -> int:
    """Return the line after a body; blank lines and comments at its end belong to what follows."""
    end = at + 1
    while end < len(lines) and CONTINUES.match(lines[end]):
        end += 1
    while end > at + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _assembled(parts: list[tuple[int, int]], lines: list[str]) -> str:
    """Join the parts in order, with a note between them on the number of lines left out."""
    shown: list[str] = []
    at = 0
    for begin, end in [*parts, (len(lines), len(lines))] if parts else []:
        skipped = sum(1 for line in lines[at:begin] if line.strip())
        shown += [LEFT_OUT.format(lines=skipped)] if skipped else []
        shown += lines[begin:end]
        at = end
    return "\n".join(shown).strip("\n")
