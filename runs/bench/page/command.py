"""`triton-agent bench report FOLDER [OTHER] -o page.html`: writes a record, or the comparison of two, as one page."""

from __future__ import annotations

import sys
from pathlib import Path

from triton_agent.runs.bench.compare.command import compared
from triton_agent.runs.bench.page.comparison import render_comparison
from triton_agent.runs.bench.page.page import render_page
from triton_agent.runs.bench.rows import read_record
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.report.command import write

PAGE, COMPARISON = "report.html", "comparison.html"


def run(folder: str, other: str | None = None, *, output: str | None = None, anyway: bool = False) -> int:
    """Write the page and print its path; `-` writes to stdout."""
    if other is None:
        page, usual = render_page(read_record(Path(folder)), folder), _beside(Path(folder))
    else:
        found, records = compared(folder, other, anyway=anyway)
        page, usual = render_comparison(found, *records), Path(COMPARISON)
    if output == "-":
        sys.stdout.write(page)
        return exit_codes.GOOD
    path = Path(output) if output else usual
    write(path, page)
    print(path)
    return exit_codes.GOOD


def _beside(record: Path) -> Path:
    """Return the default path of the page, in the record's folder, also if the record's file was named."""
    return (record if record.is_dir() else record.parent) / PAGE
