"""`triton-agent report RUN -o report.html`: reads a run from the store and writes its page."""

from __future__ import annotations

import contextlib
import errno
import sys
from pathlib import Path

from triton_agent.runs.cli import exit_codes
from triton_agent.runs.cli.store_option import load_history, open_store
from triton_agent.runs.report.page import render_report
from triton_agent.runs.report.view import RunView
from triton_agent.tools.errors import UsageError


def run(name: str, *, output: str | None = None, store: str | None = None) -> int:
    """Write the report of a run; `-` writes to stdout."""
    with open_store(store) as opened:
        history = load_history(opened, name)
    page = render_report(RunView(history=history))
    if output == "-":
        sys.stdout.write(page)
        return exit_codes.GOOD
    path = Path(output or f"{history.run.id}.html")
    write(path, page)
    print(path)
    return exit_codes.GOOD


def write(path: Path, page: str) -> None:
    """Write the page atomically."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space, or name another place: -o report.html"
        remedy = remedy if full else "name a file in a folder that exists: -o report.html"
        raise UsageError(f"the report cannot be written: {error.strerror}", where=str(path), remedy=remedy) from None
