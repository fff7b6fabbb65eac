"""Finds landmarks in an answer: the class, a diff, JSON, the beginning of a line.

Every search takes time linear in the length of any text. Not covered: code blocks; see `fences.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from triton_agent.policy.fences import CodeBlock

PYTHON = frozenset({"", "python", "py", "python3", "py3", "triton"})
"""Labels of blocks that hold Python. A block without a label counts as Python."""
MODEL = re.compile(r"ModelNew[ \t]*[(:\[=]")
BEFORE_MODEL = re.compile(r"[ \t]*(class[ \t]+)?\Z")
INDENT_CHARACTERS = 80
DIFF = re.compile(r"@@ .{0,80}@@|diff --git |<{7} SEARCH|\*{3} Begin Patch")
DIFF_SIGNS = ("@@ ", "diff --git ", "<<<<<<< SEARCH", "*** Begin Patch")
"""Every text that `DIFF` matches contains one of these substrings. Searching them first is much faster, as most texts
contain none.
"""
DIFF_LABELS = frozenset({"diff", "patch", "udiff"})
JSON = json.JSONDecoder(strict=False)
"""Decoder that accepts line feeds in strings. `raw_decode` ignores text after the JSON."""


def models(text: str) -> Iterator[int]:
    """Yield the positions of `ModelNew` on lines that define the class or bind the name."""
    for found in MODEL.finditer(text):
        start = line_start(text, found.start())
        before = BEFORE_MODEL.match(text, start, found.start()) if start is not None else None
        if before and bool(before[1]) != (found[0][-1] == "="):
            yield found.start()


def model_in(text: str) -> bool:
    return next(models(text), None) is not None


def diff_in(text: str) -> int | None:
    """Return the position at which a diff begins; None if there is none."""
    if not any(sign in text for sign in DIFF_SIGNS):
        return None
    places = (found.start() for found in DIFF.finditer(text))
    return next((place for place in places if place == 0 or text[place - 1] == "\n"), None)


def is_diff(block: CodeBlock) -> bool:
    return block.label in DIFF_LABELS or diff_in(block.text) is not None


def json_texts(said: str, found: Sequence[CodeBlock]) -> list[str]:
    """Return the texts that may be JSON and mention the class, last first."""
    texts = [said.strip(), *(block.text.strip() for block in found if block.label in ("json", ""))]
    return [text for text in reversed(texts) if text.startswith("{") and "ModelNew" in text]


def line_start(text: str, place: int) -> int | None:
    """Return where the line begins; None if that is farther away than any indent."""
    line_feed = text.rfind("\n", max(0, place - INDENT_CHARACTERS - 1), place)
    return line_feed + 1 if line_feed >= 0 or place <= INDENT_CHARACTERS else None


def line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def inside(place: int, found: Sequence[CodeBlock]) -> bool:
    return any(block.begin <= place < block.end for block in found)
