"""Terminals: rich where one looks, plain lines in a pipe. stdout carries results, stderr everything else."""

from __future__ import annotations

from rich.console import Console


def results() -> Console:
    """For what was asked for. In a pipe wide enough that nothing is cut."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=140)


def progress() -> Console:
    """For what is going on meanwhile."""
    return Console(stderr=True, highlight=False, emoji=False)
