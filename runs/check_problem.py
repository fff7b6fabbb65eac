"""`triton-agent check-problem`: is a problem worth anything as a judge? Wrong answers in, blind spots out."""

from __future__ import annotations

import json as json_text
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from triton_agent.runs import console, exit_codes
from triton_agent.tools.assay import assay
from triton_agent.tools.problem import ProblemSpec, parse_problem
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported
from triton_agent.tools.worth import MUTANT_BAR, Attempt, WorthReport, kill_rate, worth_of

MOST_SHOWN = 20
"""Blind spots on the screen; the JSON has all."""


def run(
    problem: str,
    *,
    init: str | None,
    inputs: tuple[str, ...],
    inputs_file: str | None,
    json: bool,
    trust: bool = True,
) -> int:
    """Try the problem; sound ones end well, flagged ones do not."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    spec = parse_problem(problem, init=init, inputs=inputs, inputs_file=inputs_file)
    began = time.perf_counter()
    report = _watched(spec, trust)
    if json:
        print(json_text.dumps(as_json(report), allow_nan=False), flush=True)
    else:
        show(report, time.perf_counter() - began, console.results())
    return exit_codes.GOOD if report.sound else exit_codes.NOT_PASSED


def _watched(spec: ProblemSpec, trust: bool) -> WorthReport:
    """With a bar on stderr where someone looks."""
    screen = console.progress()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True, disable=not screen.is_terminal)
    with bar:
        task = bar.add_task(f"{spec.name}: running the original", total=None)

        def on_progress(tried: int, total: int) -> None:
            bar.update(task, description=f"{spec.name}: wrong answers", completed=tried, total=total)

        return assay(spec, on_progress=on_progress, trust=trust)


def as_json(report: WorthReport) -> dict[str, Any]:
    """The same keys whatever the verdict."""
    worth = worth_of(report)
    return {
        "problem": {"name": report.name, "digest": report.digest, "scaled": report.scaled},
        "sound": worth.sound,
        "reasons": list(worth.reasons),
        "kill_rate": {
            "mutants": _rates(report.mutants),
            "impostors": _rates(report.impostors),
            "bar": MUTANT_BAR,
        },
        "families": {family.value: _rates(attempts) for family, attempts in report.by_family().items()},
        "blind_spots": [{**to_json(spot), "sentence": spot.sentence} for spot in report.blind_spots],
        "cases": {"as_given": report.cases_as_given, "with_remedies": report.cases},
        "discarded": report.discarded,
        "left_out": report.left_out,
        "refuses_original": report.refuses_original,
        "notes": list(report.notes),
    }


def _rates(attempts: tuple[Attempt, ...]) -> dict[str, Any]:
    return {
        "tried": len(attempts),
        "as_given": kill_rate(attempts, as_given=True),
        "with_remedies": kill_rate(attempts),
    }


def show(report: WorthReport, wall_s: float, out: Console) -> None:
    """For people."""
    worth = worth_of(report)
    verdict = "[green]sound[/]" if worth.sound else "[red]flagged[/]"
    out.print(f"[bold]{report.name}[/]  {verdict}")
    for reason in worth.reasons:
        out.print(f"  {reason}", markup=False)
    for line in (report.scaled, *(f"note: {note}" for note in report.notes)):
        if line:
            out.print(f"  {line}", markup=False)
    out.print(_table(report))
    _show_blind_spots(report, out)
    left_out = f"; {report.left_out} left out for want of time" if report.left_out else ""
    cases = f"{report.cases_as_given} cases as given, {report.cases} with remedies"
    out.print(f"{len(report.attempts)} wrong answers in {wall_s:.1f} s ({cases}){left_out}")


def _table(report: WorthReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("wrong answers")
    for heading in ("tried", "refused as given", "refused with remedies"):
        table.add_column(heading, justify="right")
    for family, attempts in report.by_family().items():
        table.add_row(family.value, *_counts(attempts))
    if report.mutants:
        table.add_row("all mutants", *_counts(report.mutants), style="bold")
    return table


def _counts(attempts: tuple[Attempt, ...]) -> list[str]:
    def share(as_given: bool) -> str:
        rate = kill_rate(attempts, as_given=as_given)
        return "" if rate is None else f"{rate:.0%}"

    return [str(len(attempts)), share(True), share(False)]


def _show_blind_spots(report: WorthReport, out: Console) -> None:
    spots = report.blind_spots
    if not spots:
        out.print("no blind spots found")
        return
    out.print("blind spots:")
    for spot in spots[:MOST_SHOWN]:
        colour = "red" if spot.survives else "dim"
        out.print(f"  [{colour}]{'open' if spot.survives else 'closed by remedies'}[/]: ", end="")
        out.print(spot.sentence, markup=False)
    if len(spots) > MOST_SHOWN:
        out.print(f"  and {len(spots) - MOST_SHOWN} more (--json has all)")
