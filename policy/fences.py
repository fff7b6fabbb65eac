"""Finds the code blocks of an answer, including unclosed, nested and indented ones that Markdown would not find.

A fence within a docstring does not close the block around it, unless no other fence does. A fence that opens another
block ends the block before it, which then counts as unclosed. One pass over the text.
"""

from __future__ import annotations

import dataclasses
import heapq
import re
import textwrap
from collections.abc import Iterable, Iterator

FENCES = (re.compile(r"(````*)([^\n]*)"), re.compile(r"(~~~~*)([^\n]*)"))
"""Two patterns that each begin with a literal; one pattern with an alternative would be many times slower."""
BEFORE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?\Z")
"""Text that may precede a fence on its line: an indent, a list marker."""
INDENT_CHARACTERS = 80
TRIPLE_QUOTES = (re.compile('"""'), re.compile("'''"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    label: str
    """First word after the opening fence, in lower case."""
    text: str
    begin: int
    """Position at which the line of the opening fence begins."""
    end: int
    """Position at which the line of the closing fence, or the text, ends."""
    closed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class _FenceLine:
    start: int
    end: int
    indent: int
    fence: str
    rest: str


@dataclasses.dataclass(slots=True)
class _Open:
    begin: int
    body: int
    indent: int
    fence: str
    label: str
    looked_at: int
    quotes: str = ""
    """The triple quotes that are open at `looked_at`; empty if none are."""
    passed_over: _FenceLine | None = None
    """The first fence that would have closed the block if it were not inside a string."""
    inner: bool = False
    """True if a fence within that string has opened a block that is not closed yet."""


def blocks(text: str) -> list[CodeBlock]:
    """Return the code blocks in order, without overlaps."""
    return list(_scan(text))


def _scan(text: str) -> Iterator[CodeBlock]:
    mind_strings, begin, block = True, 0, None
    while begin <= len(text):
        for line in _fence_lines(text, begin):
            if block is None:
                block = _opened(line)
            elif mind_strings and _in_string(block, text, line):
                if (after := _second_opening(line, block)) is not None and block.passed_over is not None:
                    yield _block(text, block, block.passed_over.start, block.passed_over.end, closed=True)
                    mind_strings, block = False, after
            elif _closes(line, block):
                yield _block(text, block, line.start, line.end, closed=True)
                block = None
            elif (after := _opened(line)) is not None and after.label and len(after.fence) >= len(block.fence):
                yield _block(text, block, line.start, line.start, closed=False)
                block = after
        if block is None:
            return
        end = block.passed_over
        if end is None:
            yield _block(text, block, len(text), len(text), closed=False)
            return
        # The triple quotes were never closed, so they did not open a string. Ignore quotes from here on.
        yield _block(text, block, end.start, end.end, closed=True)
        mind_strings, begin, block = False, end.end + 1, None


def _second_opening(line: _FenceLine, block: _Open) -> _Open | None:
    """Return the new block if the line opens a block within a supposed string in which another block is open already.
    Two opening fences without a closing one between them mean that the triple quotes did not open a string.
    """
    if _closes(line, block):
        block.passed_over = block.passed_over or line
        block.inner = not block.inner
        return None
    after = _opened(line)
    opens = after is not None and bool(after.label)
    second, block.inner = opens and block.inner, block.inner or opens
    return after if second else None


def _fence_lines(text: str, begin: int) -> Iterator[_FenceLine]:
    """Yield the lines that begin with a fence."""
    for found in _in_order(FENCES, text, begin, len(text)):
        at = found.start()
        line_feed = text.rfind("\n", max(0, at - INDENT_CHARACTERS - 1), at)
        start = line_feed + 1
        if (line_feed >= 0 or at <= INDENT_CHARACTERS) and BEFORE.match(text, start, at):
            yield _FenceLine(start=start, end=found.end(), indent=at - start, fence=found[1], rest=found[2])


def _in_order(patterns: Iterable[re.Pattern[str]], text: str, begin: int, end: int) -> Iterator[re.Match[str]]:
    found = (pattern.finditer(text, begin, end) for pattern in patterns)
    return heapq.merge(*found, key=lambda match: match.start())


def _opened(line: _FenceLine) -> _Open | None:
    """Return the block that a fence line opens; None if the line is inline code that looks like a fence."""
    if line.fence[0] in line.rest:
        return None
    words = re.split(r"[\s:{},]+", line.rest.strip(" \t{}").lower(), maxsplit=1)
    body = line.end + 1
    return _Open(
        begin=line.start, body=body, indent=line.indent, fence=line.fence, label=words[0].strip("."), looked_at=body
    )


def _closes(line: _FenceLine, block: _Open) -> bool:
    """Return True if the line closes the block; a chat marker or a tag may follow the fence."""
    rest = line.rest.strip()
    return line.fence.startswith(block.fence) and (not rest or rest.startswith("<"))


def _in_string(block: _Open, text: str, line: _FenceLine) -> bool:
    for found in _in_order(TRIPLE_QUOTES, text, block.looked_at, line.start):
        if not block.quotes:
            block.quotes = found[0]
        elif block.quotes == found[0]:
            block.quotes = ""
    block.looked_at = max(block.looked_at, line.start)
    return bool(block.quotes)


def _block(text: str, block: _Open, body_end: int, end: int, *, closed: bool) -> CodeBlock:
    body = text[block.body : body_end]
    if block.indent and body.lstrip("\n")[: block.indent].isspace():
        body = re.sub(rf"^[ \t]{{1,{block.indent}}}", "", body, flags=re.MULTILINE)
    return CodeBlock(label=block.label, text=flush_left(body), begin=block.begin, end=end, closed=closed)


def flush_left(body: str) -> str:
    """Remove the indentation that all lines share."""
    first = body.lstrip("\n")[:1]
    return textwrap.dedent(body) if first in (" ", "\t") else body
