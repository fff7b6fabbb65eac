"""Answers as plain text of a bounded length."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from rich.console import Console, RenderableType

from triton_agent.runs.cli.foreign_text import legible

WIDTH = 120
PARAMETERS = {
    "input": "inputs",
    "init": "init",
    "set": "sets",
    "turns": "turns",
    "parallel": "parallel",
    "budget": "budget_s",
    "own-kernels": "own_kernels",
    "seed": "seed",
}
"""Options of the commands, with the tool parameters that take the same."""
FILES = re.compile(r",? or --inputs \S+")
"""The offer of a file with saved inputs, which clients cannot name."""
OPTIONS = re.compile(rf"--({'|'.join(PARAMETERS)})\b(?!-)")


class Paper(Console):
    """A console whose output can be read afterwards."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        super().__init__(file=self._written, width=WIDTH, highlight=False, emoji=False, color_system=None)

    @property
    def text(self) -> str:
        """Return what was printed, without the blanks that fill table cells."""
        lines = legible(self._written.getvalue()).splitlines()
        return "\n".join(line.rstrip() for line in lines).strip("\n")


def drawn(parts: Iterable[RenderableType]) -> str:
    """Return the parts as text, one below the other."""
    paper = Paper()
    for part in parts:
        paper.print(part, markup=False, soft_wrap=isinstance(part, str))
    return paper.text


def in_parameters(text: str) -> str:
    """Return a message with the names of tool parameters in place of those of the command's options."""
    return OPTIONS.sub(lambda found: PARAMETERS[found[1]], FILES.sub("", text))


def cut(text: str, max_chars: int, *, end: bool = False) -> str:
    """Return at most `max_chars` characters, from the beginning or from the end, and say so if some are missing."""
    if len(text) <= max_chars:
        return text
    note = f"[cut: {len(text)} characters; max_chars was {max_chars}]"
    room = max(0, max_chars - len(note) - 1)
    if end:
        return f"{note}\n{text[len(text) - room :]}"
    return f"{text[:room]}\n{note}"
