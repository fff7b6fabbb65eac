"""Compares the texts of candidates: equal programs, and programs of equal structure.

Works on words, not on syntax trees, which would take most of the time of preparing a training. Comments, docstrings and
layout never count. Not covered: different programs that compute alike.
"""

from __future__ import annotations

import functools
import hashlib
import keyword
import re

_BESIDE = re.compile(
    r"""(?:^|(?<=\n)|(?<=:))[ \t]*[rbuRBU]{0,2}(\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3})""", re.DOTALL
)
"""Texts in triple quotes that begin a line: docstrings, and texts in the place of comments."""
_COMMENT = re.compile(r"#[^\n]*")
_WORDS = "|".join(keyword.kwlist)
_NAME = re.compile(rf"(?<![\w.])(?!(?:{_WORDS})\b)[A-Za-z_]\w*")
"""Names that are no attributes: `tl.dot` and `x.sum` keep their last words, which carry the idea."""
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")
_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_SPACE = re.compile(r"(?<=\S)[ \t]+")


def structure(source: str) -> str:
    """Return a short hash that ignores names, numbers and texts: one idea with other tile sizes has one hash."""
    return _hash(_NUMBER.sub("0", _NAME.sub("_", _TEXT.sub("'", _bare(source)))))


@functools.lru_cache(maxsize=1 << 14)  # kernels in prompts are earlier answers, and each is shown several times
def program(source: str) -> str:
    """Return a short hash that ignores only what names are called: equal for copies, renamed or not."""
    numbers: dict[str, str] = {}

    def number(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"_{len(numbers)}")

    return _hash(_NAME.sub(number, _bare(source)))


def _bare(source: str) -> str:
    """Remove comments, docstrings, blank lines and spare blanks; measure indentation in its smallest step."""
    plain = _SPACE.sub(" ", _COMMENT.sub("", _BESIDE.sub("", source.expandtabs())))
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in plain.splitlines()]
    step = min((depth for depth, text in lines if text and depth), default=1)
    return "\n".join(f"{depth // step} {text}" for depth, text in lines if text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
