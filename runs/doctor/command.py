"""`triton-agent doctor`: prints what this machine can do and what to install for more, and sets the exit code.

The checks are in `examination.py`. Nothing on the machine is changed.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.doctor.checkup import Check, CheckState, Section
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported

MARKS = {
    CheckState.OK: "[green]ok[/]",
    CheckState.ABSENT: "[yellow]missing[/]",
    CheckState.WEAK: "[yellow]weak[/]",
    CheckState.BROKEN: "[red]broken[/]",
    CheckState.FACT: "",
}


def run(*, json: bool) -> int:
    """Examine and print; exit code 0 if kernels can be judged on this machine's processors, otherwise 2."""
    if sys.platform != "linux":
        require_supported()  # says what to use instead; the examination needs modules that only Linux has
    from triton_agent.runs.doctor.examination import examine

    sections = examine()
    broken = [check for section in sections for check in section.checks if check.state is CheckState.BROKEN]
    if json:
        report = {
            "can_evaluate": not broken,
            "sections": {section.name: to_json(section.checks) for section in sections},
        }
        print(json_text.dumps(report, allow_nan=False))
    else:
        _show(console.results(), sections, broken)
    return exit_codes.USAGE if broken else exit_codes.GOOD


def _show(out: Console, sections: Sequence[Section], broken: Sequence[Check]) -> None:
    for section in sections:
        out.print(f"[bold]{section.name}[/]")
        out.print(_table(section.checks))
    if broken:
        out.print(f"[red]Kernels cannot be judged here[/]: {escape(', '.join(check.name for check in broken))}.")
    else:
        out.print(
            "[green]Kernels can be judged here[/]: triton-agent examples; triton-agent optimize examples/softmax.py"
        )


def _table(checks: Sequence[Check]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(min_width=7)
    table.add_column(min_width=22, no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row(MARKS[check.state], escape(check.name), escape(check.seen))
        if check.advice:
            table.add_row("", "", f"[dim]{escape(check.advice)}[/]")
    return table
