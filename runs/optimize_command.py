"""The command around `optimize`: options in, result on stdout, exit code out."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from triton_agent.agent.settings import StopReason
from triton_agent.memory.store import Store
from triton_agent.runs import console, exit_codes
from triton_agent.runs.evaluate import choose_device
from triton_agent.runs.optimize import Outcome, as_json, optimize, why_it_ended
from triton_agent.runs.optimize_request import OptimizeRequest, parse_seconds
from triton_agent.runs.optimize_screen import figure_of, make_screen
from triton_agent.runs.promote import promote
from triton_agent.runs.written_report import write_report
from triton_agent.tools.emulate.targets import parse_target
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.results import Timing
from triton_agent.tools.versions import require_supported


def run(given: Mapping[str, Any], *, out: str | None, resume: str | None, store: str | None, json: bool) -> int:
    """A new run, or an earlier one taken up."""
    for warning in require_supported().warnings:
        console.progress().print(f"warning: {warning}")
    screen = make_screen(as_json=json)
    with Store.open(store) as opened:
        request, run_id = _stored_request(opened, resume) if resume else (_request(given), None)
        outcome = asyncio.run(optimize(request, opened, screen, out=Path(out) if out else None, resume=run_id))
        if outcome.end.stop_reason == StopReason.INSTRUMENT:
            raise InstrumentError(
                "nothing could be measured, several turns in a row",
                remedy=f"see `triton-agent runs show {outcome.run.id}`",
            )
        report = write_report(opened, outcome, Path(out) if out else Path.cwd() / outcome.run.id)
    if json:
        print(json_text.dumps(as_json(outcome) | {"report": str(report)}, allow_nan=False))
    else:
        _show(outcome, report)
    return exit_codes.GOOD if outcome.shipped else exit_codes.NOT_PASSED


def run_promote(name: str, *, out: str | None, store: str | None, json: bool) -> int:
    """`triton-agent promote`."""
    screen = make_screen(as_json=json)
    with Store.open(store) as opened:
        run_id = opened.find_run(name)
        folder = Path(out) if out else Path.cwd() / run_id
        outcome = asyncio.run(promote(opened, run_id, screen, folder))
        report = write_report(opened, outcome, folder)
    if json:
        print(json_text.dumps(as_json(outcome) | {"report": str(report)}, allow_nan=False))
    else:
        _show(outcome, report)
    return exit_codes.GOOD if outcome.shipped else exit_codes.NOT_PASSED


def _request(given: Mapping[str, Any]) -> OptimizeRequest:
    if not given["problem"]:
        raise UsageError("nothing to optimize", remedy="name a file, or an earlier run with --resume RUN")
    fields = {key: value for key, value in given.items() if key != "budget"}
    parse_target(given["target"])
    device = choose_device(given["device"])
    return OptimizeRequest(**fields | {"device": device, "seconds": parse_seconds(given["budget"])})


def _stored_request(store: Store, resume: str) -> tuple[OptimizeRequest, str]:
    known = store.run(resume)
    return OptimizeRequest.from_json(known.settings), known.id


def _show(outcome: Outcome, report: Path) -> None:
    screen, best, shipped = console.results(), outcome.best, outcome.shipped
    screen.print(f"\nended: {why_it_ended(outcome.end)}; run {outcome.run.id}")
    if best is None:
        screen.print(
            f"no kernel passed; the attempts and their verdicts: triton-agent runs show {outcome.run.id}", markup=False
        )
        return
    screen.print(f"best: {best.attempt.key}  {figure_of(best)}", markup=False)
    timings = shipped.evaluation.timings if shipped else best.evaluation.timings if best.evaluation else ()
    if timings:
        screen.print(_timing_table(timings))
    if shipped is None:
        screen.print("nothing is shipped: the original is as fast")
    elif shipped.draft:
        screen.print(f"[bold]draft[/] {escape(str(shipped.path))}")
        screen.print(
            "verified in the interpreter, speed not measured: it runs the original until its kernels are asked for\n"
            f"on a machine with a GPU: triton-agent promote {outcome.run.id}",
            markup=False,
        )
    else:
        screen.print(f"[bold green]shipped[/] {escape(str(shipped.path))}")
    screen.print(f"report {escape(str(report))}")


def _timing_table(timings: tuple[Timing, ...]) -> Table:
    table = Table(box=None)
    for heading in ("against", "time", "original ms", "shipped ms", "speed-up", "95% interval"):
        table.add_column(heading, justify="left" if heading in ("against", "time") else "right")
    for item in timings:
        speedup = item.speedup
        table.add_row(
            item.baseline,
            item.kind,
            f"{item.baseline_ms.median:.4f}",
            f"{item.candidate_ms.median:.4f}",
            f"{speedup.median:.2f}x",
            f"{speedup.low:.2f} to {speedup.high:.2f}",
        )
    return table
