"""`triton-agent check-problem`: tries wrong answers on a problem and lists those that pass."""

from __future__ import annotations

import json as json_text
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.pace import counted
from triton_agent.tools.audit.report import MUTANT_BAR, AuditReport, WrongAnswer, kill_rate
from triton_agent.tools.evaluate.checker_process import audit_problem
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported

MOST_SHOWN = 20
"""Blind spots shown on the screen; the JSON has all."""


def run(
    problem: str,
    *,
    init: str | None,
    inputs: tuple[str, ...],
    inputs_file: str | None,
    json: bool,
    trust: bool = True,
) -> int:
    """Audit the problem; exit code 0 if it is sound, 1 if it is flagged."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    spec = parse_problem(problem, init=init, inputs=inputs, inputs_file=inputs_file)
    began = time.perf_counter()
    with counted(f"{spec.name}: wrong answers", f"{spec.name}: running the reference") as tell:
        report = audit_problem(spec, on_progress=tell, trust=trust)
    if json:
        print(json_text.dumps(as_json(report), allow_nan=False), flush=True)
    else:
        show(report, time.perf_counter() - began, console.results())
    return exit_codes.GOOD if report.sound else exit_codes.NOT_PASSED


def as_json(report: AuditReport) -> dict[str, Any]:
    """Return the report as JSON; the keys do not depend on the result."""
    return {
        "problem": {"name": report.name, "digest": report.digest, "scaled": report.scaled},
        "sound": report.sound,
        "reasons": list(report.flaws),
        "kill_rate": {
            "mutants": _rates(report.mutants),
            "fakes": _rates(report.fakes),
            "bar": MUTANT_BAR,
        },
        "families": {family.value: _rates(answers) for family, answers in report.by_family().items()},
        "blind_spots": [{**to_json(spot), "sentence": spot.sentence} for spot in report.blind_spots],
        "cases": {"as_given": report.cases_as_given, "with_remedies": report.cases},
        "discarded": report.discarded,
        "left_out": report.left_out,
        "refuses_reference": report.refuses_reference,
        "notes": list(report.notes),
    }


def _rates(answers: tuple[WrongAnswer, ...]) -> dict[str, Any]:
    return {
        "tried": len(answers),
        "as_given": kill_rate(answers, as_given=True),
        "with_remedies": kill_rate(answers),
    }


def show(report: AuditReport, wall_s: float, out: Console) -> None:
    """Print the report."""
    verdict = "[green]sound[/]" if report.sound else "[red]flagged[/]"
    out.print(f"[bold]{report.name}[/]  {verdict}")
    for reason in report.flaws:
        out.print(f"  {reason}", markup=False)
    for line in (report.scaled, *(f"note: {note}" for note in report.notes)):
        if line:
            out.print(f"  {line}", markup=False)
    out.print(_table(report))
    _show_blind_spots(report, out)
    left_out = f"; {report.left_out} left out for lack of time" if report.left_out else ""
    cases = f"{report.cases_as_given} cases as given, {report.cases} with remedies"
    out.print(f"{len(report.answers)} wrong answers in {wall_s:.1f} s ({cases}){left_out}")


def _table(report: AuditReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("wrong answers")
    for heading in ("tried", "refused as given", "refused with remedies"):
        table.add_column(heading, justify="right")
    for family, answers in report.by_family().items():
        table.add_row(family.value, *_counts(answers))
    if report.mutants:
        table.add_row("all mutants", *_counts(report.mutants), style="bold")
    return table


def _counts(answers: tuple[WrongAnswer, ...]) -> list[str]:
    def share(as_given: bool) -> str:
        rate = kill_rate(answers, as_given=as_given)
        return "" if rate is None else f"{rate:.0%}"

    return [str(len(answers)), share(True), share(False)]


def _show_blind_spots(report: AuditReport, out: Console) -> None:
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
