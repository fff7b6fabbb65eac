"""Finds the code blocks of an answer, also those that Markdown would not: unclosed, nested, indented, in a list.

A fence within a docstring does not close the block around it, unless nothing else does. A fence that opens another
block ends the one before it, which then counts as unclosed. One pass over the text, whatever it holds.
"""

from __future__ import annotations

import dataclasses
import heapq
import re
import textwrap
from collections.abc import Iterable, Iterator

FENCES = (re.compile(r"(````*)([^\n]*)"), re.compile(r"(~~~~*)([^\n]*)"))
"""Each begins with a plain text, which is found many times faster than either of two."""
BEFORE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?\Z")
"""What may stand before a fence on its line: an indent, a mark of a list."""
INDENT_CHARACTERS = 80
TRIPLE_QUOTES = (re.compile('"""'), re.compile("'''"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What stands between two fences."""

    label: str
    """The first word after the opening fence, in small letters."""
    text: str
    begin: int
    """Where the line of the opening fence begins."""
    end: int
    """Where the line of the closing fence ends, or the text."""
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
    """The triple quotes that are open at `looked_at`."""
    passed_over: _FenceLine | None = None
    """The first fence that would have closed the block, but stands in a string."""
    inner: bool = False
    """True if a block within that string is open."""


def blocks(text: str) -> list[Block]:
    """In order; they do not overlap."""
    return list(_scan(text))


def _scan(text: str) -> Iterator[Block]:
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
        # the quotes of that string are never closed: they were none, so from here on quotes do not count
        yield _block(text, block, end.start, end.end, closed=True)
        mind_strings, begin, block = False, end.end + 1, None


def _second_opening(line: _FenceLine, block: _Open) -> _Open | None:
    """Of a fence within a string: one that opens what is open already, so that it is within no string at all."""
    if _closes(line, block):
        block.passed_over = block.passed_over or line
        block.inner = not block.inner
        return None
    after = _opened(line)
    opens = after is not None and bool(after.label)
    second, block.inner = opens and block.inner, block.inner or opens
    return after if second else None


def _fence_lines(text: str, begin: int) -> Iterator[_FenceLine]:
    """Lines that begin with a fence, whatever follows on them."""
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
    """None for what only looks like a fence: code within a sentence."""
    if line.fence[0] in line.rest:
        return None
    words = re.split(r"[\s:{},]+", line.rest.strip(" \t{}").lower(), maxsplit=1)
    body = line.end + 1
    return _Open(
        begin=line.start, body=body, indent=line.indent, fence=line.fence, label=words[0].strip("."), looked_at=body
    )


def _closes(line: _FenceLine, block: _Open) -> bool:
    """A mark of a chat or a tag may follow it."""
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


def _block(text: str, block: _Open, body_end: int, end: int, *, closed: bool) -> Block:
    body = text[block.body : body_end]
    if block.indent and body.lstrip("\n")[: block.indent].isspace():
        body = re.sub(rf"^[ \t]{{1,{block.indent}}}", "", body, flags=re.MULTILINE)
    return Block(label=block.label, text=flush_left(body), begin=block.begin, end=end, closed=closed)


def flush_left(body: str) -> str:
    """Without the indentation that all lines share."""
    first = body.lstrip("\n")[:1]
    return textwrap.dedent(body) if first in (" ", "\t") else body
