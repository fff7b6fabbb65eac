"""Writes the report of a run that has just ended, beside the shipped file."""

from __future__ import annotations

from pathlib import Path

from triton_agent.memory.store import Store
from triton_agent.runs.cli.store_option import load_history
from triton_agent.runs.optimize.run import Outcome
from triton_agent.runs.report.command import write
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView


def write_report(store: Store, outcome: Outcome, folder: Path) -> Path:
    """Write `report.html` into the folder and return its path."""
    history = load_history(store, outcome.run.id)
    shipped = outcome.shipped
    view = RunView(
        history=history,
        shipped=shipped.evaluation if shipped else None,
        ranges=shipped.ranges if shipped else (),
    )
    page = render_report(view)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    write(path, page)
    return path
