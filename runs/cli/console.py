"""Consoles: rich output at a terminal, plain lines in a pipe. Results go to stdout, everything else to stderr."""

from __future__ import annotations

from rich.console import Console


def results() -> Console:
    """Console for results; in a pipe it is wide enough that nothing is cut."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=140)


def progress() -> Console:
    """Console for progress and warnings."""
    return Console(stderr=True, highlight=False, emoji=False)
