"""Writes the report of a run that has just ended, beside the shipped file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from triton_agent.memory.store import Store
from triton_agent.runs.cli.store_option import load_history, naming
from triton_agent.runs.optimize.run import Outcome
from triton_agent.runs.report.command import write
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView
from triton_agent.tools.errors import UsageError


def write_report(store: Store, outcome: Outcome, folder: Path, tell: Callable[[str], object]) -> Path | None:
    """Write `report.html` into the folder and return its path.

    If that fails, tell why and return None: the search has ended, and what it found must not be lost for a page.
    """
    history = load_history(store, outcome.run.id)
    shipped = outcome.shipped
    view = RunView(
        history=history,
        shipped=shipped.evaluation if shipped else None,
        elsewhere=naming(store),
        ranges=shipped.ranges if shipped else (),
    )
    page, path = render_report(view), folder / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(path, page)
    except (OSError, UsageError) as error:
        why = str(error).partition("\n")[0]
        tell(f"warning: {why}\n  to write it elsewhere: triton-agent report {outcome.run.id}{naming(store)} -o FILE")
        return None
    return path
