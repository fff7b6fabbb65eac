"""Breaks long lines of Python at the outermost commas of their brackets, or else at operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LIMIT = 110
_STEP = "    "
_OPEN, _CLOSE = "([{", ")]}"
_OPERATORS = (" & ", " + ", " - ", " * ")
"""Operators at which a long expression in brackets may be broken, loosest first."""


def wrapped(line: str) -> list[str]:
    """Return the line, broken if it is too long."""
    if len(line) <= LIMIT:
        return [line]
    several = line.lstrip().startswith("return ") and len(split_at_commas(line)) > 1
    if several:
        line = line.replace("return ", "return (", 1) + ")"
    span = _longest_brackets(line)
    if span is None:
        return [line]
    start, end = span
    indent = line[: len(line) - len(line.lstrip())]
    head, inside, tail = line[: start + 1], line[start + 1 : end], line[end:]
    items = split_at_commas(inside)
    together = f"{indent}{_STEP}{', '.join(items)}"
    if len(together) <= LIMIT and len(items) > 1:
        return [head, together, indent + tail]
    comma = "," if len(items) > 1 or inside.rstrip().endswith(",") else ""  # a tuple of one keeps its comma
    lines = [head]
    for position, item in enumerate(items):
        last = position == len(items) - 1
        lines += _item(f"{indent}{_STEP}{item}{comma if last else ','}")
    return [*lines, indent + tail]


def _item(line: str) -> list[str]:
    """Return one item in brackets; a long expression has its operands below each other."""
    if len(line) <= LIMIT:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    name, text = _keyword(line.strip())
    for operator in _OPERATORS:
        parts = _split_at(text.rstrip(","), operator)
        if len(parts) > 1:
            comma = "," if text.endswith(",") else ""
            first = f"{indent}{name}(" if name else ""
            inner = indent + _STEP if name else indent
            lines = [first] if name else []
            lines += wrapped(inner + parts[0])
            for part in parts[1:]:
                lines += wrapped(f"{inner}{operator.strip()} {part}")
            if name:
                return [*lines, f"{indent}){comma}"]
            lines[-1] += comma
            return lines
    return wrapped(line)


def _keyword(text: str) -> tuple[str, str]:
    """Split `mask=...` into the keyword with its sign, and the value."""
    word, sign, rest = text.partition("=")
    return (word + sign, rest) if sign and word.isidentifier() and not rest.startswith("=") else ("", text)


def _longest_brackets(line: str) -> tuple[int, int] | None:
    """Return the longest of the outermost round or square brackets, except subscripts."""
    best: tuple[int, int] | None = None
    depth, start = 0, 0
    for position, character in _code(line):
        if character in _OPEN:
            if depth == 0:
                start = position
            depth += 1
        elif character in _CLOSE:
            depth -= 1
            subscript = line[start] == "[" and start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_)]")
            if depth == 0 and not subscript and (best is None or position - start > best[1] - best[0]):
                best = (start, position)
    return best


def split_at_commas(text: str) -> list[str]:
    return [part for part in _split_at(text, ",") if part]


def _split_at(text: str, separator: str) -> list[str]:
    """Split at separators outside of brackets and quotes."""
    parts, depth, begin = [], 0, 0
    for position, character in _code(text):
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif depth == 0 and position >= begin and text.startswith(separator, position):
            parts.append(text[begin:position].strip())
            begin = position + len(separator)
    return [*parts, text[begin:].strip()]


def _code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside of quotes."""
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            yield position, character


def formatted(lines: Iterable[str]) -> list[str]:
    return [piece for line in lines for piece in wrapped(line.rstrip())]
