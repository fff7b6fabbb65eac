"""Compares the texts of candidates: equal programs, and programs of equal structure.

Works on tokens of text instead of syntax trees, which would take most of the time of preparing a training. Comments,
docstrings and layout are ignored. Not covered: different programs that compute the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import keyword
import re
from collections.abc import Iterable

_TRIPLE_QUOTED = re.compile(
    r"""\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}""", re.DOTALL
)
_BEFORE_DOCSTRING = re.compile(r"(?:^|:)([ \t]*[rbuRBU]{0,2})\Z")
"""The beginning of a line up to a string that is a docstring or serves as a comment."""
_COMMENT = re.compile(r"#[^\n]*")
_WORDS = "|".join(keyword.kwlist)
_NAME = re.compile(rf"(?<![\w.])(?!(?:{_WORDS})\b)[A-Za-z_]\w*")
"""Names except attributes: `tl.dot` and `x.sum` keep their last words, which identify the operation."""
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")
_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_SPACE = re.compile(r"(?<=\S)[ \t]+")


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """A line without redundant blanks."""

    depth: int
    text: str
    """Text with `_` in place of each name."""
    names: tuple[str, ...]
    shape: str
    """Text with names, numbers and strings replaced."""


def structure(source: str) -> str:
    """Return a short hash that ignores names, numbers and strings, so that the same idea with other tile sizes is
    equal.
    """
    return _hash(line.shape for line in _code_lines(source))


@functools.lru_cache(maxsize=1 << 14)  # kernels in prompts are earlier answers, and each is shown several times
def program(source: str) -> str:
    """Return a short hash that ignores only the choice of names, so that copies are equal even if renamed."""
    lines = _code_lines(source)
    step = min((line.depth for line in lines if line.depth), default=1)
    names = list(itertools.chain.from_iterable(line.names for line in lines))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbered = list(map(numbers.__getitem__, names))
    return _hash([*(f"{line.depth // step} {line.text}" for line in lines), repr(numbered)])


@functools.lru_cache(maxsize=16)  # rewards and hashes use the text of an answer one after the other
def bare_text(source: str) -> str:
    """Return the text without docstrings and comments."""
    kept, end = [], 0
    for found in _TRIPLE_QUOTED.finditer(source):
        line = source.rfind("\n", 0, found.start()) + 1
        before = _BEFORE_DOCSTRING.search(source[line : found.start()])
        if before is not None:
            kept.append(source[end : line + before.start(1)])
            end = found.end()
    return _COMMENT.sub("", "".join(kept) + source[end:])


@functools.lru_cache(maxsize=16)  # both hashes of a text are computed one after the other
def _code_lines(source: str) -> tuple[_Line, ...]:
    return tuple(line for line in map(_line, bare_text(source).splitlines()) if line.text)


@functools.lru_cache(maxsize=1 << 16)  # answers to one problem have most of their lines in common
def _line(line: str) -> _Line:
    bare = line.expandtabs()
    text = _SPACE.sub(" ", bare.strip())
    return _Line(
        depth=len(bare) - len(bare.lstrip()),
        text=_NAME.sub("_", text),
        names=tuple(_NAME.findall(text)),
        shape=_NUMBER.sub("0", _NAME.sub("_", _TEXT.sub("'", text))),
    )


def _hash(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]
