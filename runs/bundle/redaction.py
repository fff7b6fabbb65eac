"""Removes folders and names of users and machines from an evidence bundle.

In plain data every absolute path keeps only its last part, and every server address is removed. In code, where a slash
divides, only users' folders and the problem's folder are removed, and names of users and machines only in comments and
strings, so that it still runs. A changed text has another hash; the bundle says so.

Not covered: names of companies or projects, and user names too common to identify anyone (`root`, `ubuntu`).
"""

from __future__ import annotations

import contextlib
import getpass
import io
import platform
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triton_agent.tools.results import Finding, Status

_COMMON = frozenset(
    {"root", "user", "admin", "ubuntu", "nobody", "runner", "home", "test", "guest", "localhost", "local", "shared"}
)
"""Names that identify nobody and have other meanings: removing them would spoil the text."""
_VOCABULARY = frozenset({*Status, *Finding, "max", "l2", "small", "mismatches", "gpu", "interpreter", "same"})
"""Words of verdicts, which are kept even where a user is called Max."""
_SHORTEST_NAME = 3
_HOME = re.compile(r"/(?:home|Users)/([^/\s'\":,;)\]]+)")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.\-]*://[^\s'\"<>)\]]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w./~<>\-])~?(?:/[^/\s'\":,;()\[\]{}<>|*?]+)+/?")
_MAIL = re.compile(r"[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)*")


class Redaction:
    """The names to remove. They are collected from all texts of a bundle, because a user's name that stands in a path
    of one text may stand alone in another.
    """

    def __init__(self, texts: Iterable[str], folders: Iterable[Path] = ()) -> None:
        found = {name for text in texts for name in _HOME.findall(text)}
        self._users = _identifying({*found, *_own_user()})
        self._hosts = _identifying({platform.node(), platform.node().partition(".")[0]})
        homes = [f"/home/{name}" for name in found] + [f"/Users/{name}" for name in found]
        places = {str(folder) for folder in folders if len(folder.parts) > 1} | set(homes) | _own_home()
        self._folders = sorted(places, key=lambda place: (-len(place), place))
        """Longest first, so that a folder within a folder is removed as a whole."""

    def data(self, value: Any) -> Any:
        """Redact every text in plain data, except keys and the words of verdicts."""
        if isinstance(value, str):
            return value if value in _VOCABULARY else self.text(value)
        if isinstance(value, list):
            return [self.data(item) for item in value]
        if isinstance(value, dict):
            return {key: self.data(item) for key, item in value.items()}
        return value

    def text(self, text: str) -> str:
        """Redact prose, messages and settings."""
        text = _ADDRESS.sub("<address>", text)
        text = _MAIL.sub("<address>", text)
        text = self._without_folders(text)
        text = _PATH.sub(lambda found: f"<path>/{found[0].rstrip('/').rpartition('/')[2]}", text)
        return self._without_names(text)

    def code(self, source: str) -> str:
        """Redact only the comments and strings of Python code, so that it still runs."""
        spans = _comments_and_texts(source)
        for begin, end in reversed(spans):
            inside = self._without_names(self._without_folders(source[begin:end]))
            source = source[:begin] + inside + source[end:]
        return source

    def _without_folders(self, text: str) -> str:
        for folder in self._folders:
            text = re.sub(re.escape(folder) + r"(?![\w.\-])", "<path>", text)
        return text

    def _without_names(self, text: str) -> str:
        for names, word in ((self._users, "<user>"), (self._hosts, "<host>")):
            for name in names:
                text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", word, text, flags=re.IGNORECASE)
        return text


def _identifying(names: Iterable[str]) -> list[str]:
    kept = {name for name in names if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON}
    return sorted(kept, key=lambda name: (-len(name), name))


def _own_user() -> set[str]:
    with contextlib.suppress(OSError, KeyError):
        return {getpass.getuser()}
    return set()


def _own_home() -> set[str]:
    with contextlib.suppress(RuntimeError):
        home = Path.home()
        return {str(home)} if len(home.parts) > 1 else set()
    return set()


def _comments_and_texts(source: str) -> list[tuple[int, int]]:
    """Return the ranges of comments and strings; the whole text if it is not Python, since then it never runs."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source, newline="\n").readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return [(0, len(source))]
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for token in tokens:
        begin, end = (starts[line - 1] + column for line, column in (token.start, token.end))
        if token.type == _FSTRING_START:
            opened.append(begin)
        elif token.type == _FSTRING_END:
            begin = opened.pop()
            if not opened:
                spans += _outside_braces(source, begin, end)
        elif token.type == tokenize.STRING and not opened:
            formatted = "f" in token.string[: token.string.index(token.string[-1])].lower()
            spans += _outside_braces(source, begin, end) if formatted else [(begin, end)]
        elif token.type == tokenize.COMMENT and not opened:
            spans.append((begin, end))
    return spans


_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
"""Since Python 3.12 an f-string is several tokens; before it was one."""


def _outside_braces(source: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the literal parts of an f-string; braces hold code."""
    spans, depth, since = [], 0, begin
    for at in range(begin, end):
        if source[at] == "{":
            if depth == 0:
                spans.append((since, at))
            depth += 1
        elif source[at] == "}" and depth:
            depth, since = depth - 1, at + 1
    return [*spans, (since, end)] if depth == 0 else spans
