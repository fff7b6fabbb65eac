"""Code and changes as markup: coloured by pygments' classes; changes are also marked by signs."""

from __future__ import annotations

import difflib

from pygments import lex  # type: ignore[import-untyped]
from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token  # type: ignore[import-untyped]

from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.report.markup import Html, join, tag

CLASSES = {
    Comment: "c",
    Keyword: "k",
    Operator.Word: "k",
    String: "s",
    Number: "m",
    Name.Function: "f",
    Name.Class: "f",
    Name.Decorator: "d",
    Name.Builtin: "b",
}
LINES_AT_MOST = 1500
"""Most lines of one file on the page; a kernel has a tenth of it."""


def highlighted(source: str) -> Html:
    """Mark up Python for the style sheet."""
    lines = legible(source).splitlines()
    shown, rest = "\n".join(lines[:LINES_AT_MOST]), len(lines) - LINES_AT_MOST
    pieces = [_piece(kind, value) for kind, value in lex(shown, PythonLexer(stripnl=False, ensurenl=False))]
    if rest > 0:
        pieces.append(Html(f"\n({rest} more lines)"))
    return tag("pre", tag("code", *pieces), tabindex="0")


def _piece(kind: object, value: str) -> object:
    while kind is not None and kind is not Token:
        if kind in CLASSES:
            return tag("span", value, class_=CLASSES[kind])
        kind = getattr(kind, "parent", None)
    return value


def changes(before: str, after: str, context: int = 3) -> Html | None:
    """Return a unified diff; None if nothing differs."""
    old, new = legible(before).splitlines(), legible(after).splitlines()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=context))[2:]
    if not lines:
        return None
    shown = [_changed(line) for line in lines[:LINES_AT_MOST]]
    if len(lines) > LINES_AT_MOST:
        shown.append(Html(f"({len(lines) - LINES_AT_MOST} more lines)"))
    return tag("pre", tag("code", join(shown)), class_="diff", tabindex="0")


def _changed(line: str) -> Html:
    name = {"+": "ins", "-": "del"}.get(line[:1])
    if name is not None:
        return tag(name, line, "\n")
    return tag("span", line, "\n", class_="hunk" if line.startswith("@@") else None)


def count_changes(before: str, after: str) -> str:
    """Count changed lines: `+12 -3`."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added} -{removed}"
