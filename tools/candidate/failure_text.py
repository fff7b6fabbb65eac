"""Condense a candidate's exception for its author: the line, the message, the likely cause. It fits a prompt."""

from __future__ import annotations

import dataclasses
import re

from triton_agent.tools.processes.protocol import Raised
from triton_agent.tools.results import Finding

MESSAGE_LIMIT = 600
"""Maximum number of characters of a condensed message."""
MESSAGE_LINES = 6

CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"arange's range must be a power of 2|power of 2|power of two",
        "block sizes given to tl.arange must be powers of two; mask the rest",
    ),
    (
        r"out of bounds|past the end|memory beyond a buffer",
        "a mask is missing or wrong where the size is not a multiple of the block",
    ),
    (
        r"NameError|is not defined",
        "nothing has this name there; a kernel sees its arguments, its locals and globals that are tl.constexpr",
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
    (
        r"PassManager::run failed",
        "Triton's compiler failed on a kernel, mostly on a while loop or an unusual block shape; write it another way",
    ),
    (r"recursion", "a function calls itself without end"),
)
"""Patterns of messages and their usual cause. The first match wins."""

OUT_OF_RESOURCES = "OutOfResources"
"""The exception of a kernel that needs more shared memory or threads than the GPU has."""

BY_KIND: dict[Finding, set[str]] = {
    Finding.SYNTAX: {"SyntaxError"},
    Finding.OUT_OF_BOUNDS: {"OutOfBounds"},
    Finding.MEMORY: {"MemoryError", "OutOfMemoryError"},
    Finding.COMPILE: {
        *("CompilationError", "CompileFailure", OUT_OF_RESOURCES, "PTXASError", "CompileTimeAssertionFailure")
    },
    Finding.FORBIDDEN_ACCESS: {"ForbiddenAccess"},
}
"""Exception class names of each finding. The first match wins; a message about memory overrides the last two."""
MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory|Unable to allocate|std::bad_alloc", re.I)

PHASES = {"import": Finding.IMPORT, "construct": Finding.CONSTRUCT, "forward": Finding.RAISED}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condensed:
    """A finding and the message for the author."""

    finding: Finding
    message: str


def condense(raised: Raised) -> Condensed:
    """Condense an exception reported by a worker."""
    lines = [line.rstrip()[:240] for line in raised.text.strip().splitlines() if line.strip()]
    text = "\n".join(lines[:MESSAGE_LINES])
    message = f"{raised.kind}: {text}" if text else raised.kind
    if raised.lines:
        last = raised.lines[-1]
        message = f"line {last.line}: `{last.code[:120]}`\n{message}"
    cause = next((hint for pattern, hint in CAUSES if re.search(pattern, f"{raised.kind}: {text}", re.I)), "")
    message = f"{message}\nlikely cause: {cause}" if cause else message
    if len(message) > MESSAGE_LIMIT:
        message = message[: MESSAGE_LIMIT - 1] + "…"
    return Condensed(finding=_finding(raised.phase, raised.kinds, text), message=message)


def _finding(phase: str, kinds: tuple[str, ...], text: str) -> Finding:
    known = next((finding for finding, names in BY_KIND.items() if names & set(kinds)), None)
    if known in (Finding.SYNTAX, Finding.OUT_OF_BOUNDS):
        return known
    if known is Finding.MEMORY or MEMORY.search(text):
        return Finding.MEMORY
    return known or PHASES.get(phase, Finding.RAISED)
