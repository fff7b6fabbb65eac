"""An exception of a candidate, condensed for its author: the line, the message, the likely cause. Fits a prompt."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from triton_agent.tools.results import Finding

MESSAGE_LIMIT = 600
"""Characters of a condensed message."""

CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"arange's range must be a power of 2|power of 2|power of two",
        "block sizes given to tl.arange must be powers of two; mask the rest",
    ),
    (r"out of bounds|past the end", "a mask is missing or wrong where the size is not a multiple of the block"),
    (
        r"NameError|is not defined",
        "a name is used in the kernel that is neither an argument, a local nor a tl.constexpr",
    ),
    (
        r"Cannot access global variable",
        "pass the value as a tl.constexpr argument, or annotate the global as tl.constexpr",
    ),
    (
        r"incompatible (shapes|dimensions)|Cannot (make|broadcast)|shape mismatch",
        "the blocks combined here have different shapes; add [:, None] or [None, :]",
    ),
    (
        r"First input shape|K\s*>=?\s*16|at least 16|minor dim",
        "tl.dot needs every side of its blocks to be at least 16",
    ),
    (
        r"out of resource.*shared memory",
        "the tile needs more shared memory than there is: smaller blocks or fewer stages",
    ),
    (
        r"Expected .*tensor.*GPU|Pointer argument .* cannot be accessed|cpu tensor",
        "a CPU tensor reached a kernel: allocate with device=x.device",
    ),
    (r"unexpected keyword argument|missing \d+ required positional", "the call and the signature disagree"),
    (r"dynamic_func\(\) missing|missing a required argument", "the launch does not pass every argument of the kernel"),
    (r"Unsupported language construct|unsupported AST node", "the kernel uses Python that Triton does not compile"),
    (r"recursion", "a function calls itself without end"),
)
"""What a message usually means. First match wins."""

MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory|Unable to allocate|std::bad_alloc", re.I)

PHASES = {"import": Finding.IMPORT, "construct": Finding.CONSTRUCT, "forward": Finding.RAISED}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condensed:
    """What to call it and what to tell the author."""

    finding: Finding
    message: str


def condense(report: dict[str, Any]) -> Condensed:
    """From the plain data a worker sends about an exception."""
    kind, kinds = str(report.get("kind", "Exception")), [str(item) for item in report.get("kinds", ())]
    text = _first_lines(str(report.get("text", "")))
    finding = _finding(str(report.get("phase", "")), kinds, text)
    where = _where(report.get("lines") or [])
    cause = next((hint for pattern, hint in CAUSES if re.search(pattern, f"{kind}: {text}", re.I)), "")
    message = f"{where}{kind}: {text}" if text else f"{where}{kind}"
    return Condensed(finding=finding, message=_clip(f"{message}\nlikely cause: {cause}" if cause else message))


def _finding(phase: str, kinds: list[str], text: str) -> Finding:
    if "SyntaxError" in kinds:
        return Finding.SYNTAX
    if "OutOfBounds" in kinds:
        return Finding.OUT_OF_BOUNDS
    if "MemoryError" in kinds or "OutOfMemoryError" in kinds or MEMORY.search(text):
        return Finding.MEMORY
    if {"CompilationError", "CompileFailure", "OutOfResources", "PTXASError", "CompileTimeAssertionFailure"} & set(
        kinds
    ):
        return Finding.COMPILE
    if "ForbiddenAccess" in kinds:
        return Finding.FORBIDDEN_ACCESS
    return PHASES.get(phase, Finding.RAISED)


def _where(lines: list[dict[str, Any]]) -> str:
    if not lines:
        return ""
    last = lines[-1]
    return f"line {last.get('line')}: `{str(last.get('code', ''))[:120]}`\n"


def _first_lines(text: str, at_most: int = 6) -> str:
    kept = [line.rstrip() for line in text.strip().splitlines() if line.strip()][:at_most]
    return "\n".join(line[:240] for line in kept)


def _clip(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
