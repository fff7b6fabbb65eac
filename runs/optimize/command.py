"""The command around `optimize`: options in, result on stdout, exit code out."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json as json_text
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from triton_agent.agent.settings import StopReason
from triton_agent.memory.records import Run
from triton_agent.memory.store import Store
from triton_agent.policy.author.emit.wording import LEFT_OUT
from triton_agent.policy.builtin import why_nothing
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.cli.policies import DEFAULT
from triton_agent.runs.cli.store_option import naming, run_id
from triton_agent.runs.optimize.promote import promote
from triton_agent.runs.optimize.request import OptimizeRequest, requested
from triton_agent.runs.optimize.run import Outcome, as_json, optimize, spent_on_models, why_it_ended
from triton_agent.runs.optimize.screen import Screen, figure_of, make_screen
from triton_agent.runs.optimize.written_report import write_report
from triton_agent.runs.ship.shipped import output_folder, require_writable
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import KINDS_OF_TIME, Timing
from triton_agent.tools.versions import require_supported

LEFT_OUT_SHOWN = 8
"""Lines shown about operators that stay torch's; the plan lists all of them."""


def run(
    given: Mapping[str, Any],
    *,
    out: str | None,
    resume: str | None,
    store: str | None,
    json: bool,
    nursery: Nursery | None = None,
) -> int:
    """Start a new run, or continue the run `resume`. `nursery` is used if no card is named by number."""
    for warning in require_supported():
        console.progress().print(f"warning: {warning}")
    with contextlib.closing(make_screen(as_json=json)) as screen, Store.open(store) as opened:
        known = opened.run(run_id(opened, resume)) if resume else None
        request = _with_changes(OptimizeRequest.from_json(known.settings), given) if known else requested(given)
        folder, taken_up = Path(out) if out else None, known.id if known else None
        outcome = asyncio.run(_optimized(request, opened, screen, folder, taken_up, json, nursery))
        screen.close()
        return hand_over(opened, outcome, out=out, json=json)


async def _optimized(
    request: OptimizeRequest,
    store: Store,
    screen: Screen,
    folder: Path | None,
    resume: str | None,
    json: bool,
    nursery: Nursery | None,
) -> Outcome:
    """Optimize the model as a whole, or by its parts."""
    if not request.parts:
        return await optimize(request, store, screen, out=folder, resume=resume, nursery=nursery)
    from triton_agent.runs.optimize.whole_model import optimize_by_parts  # needs torch, which takes seconds to import

    another = functools.partial(make_screen, as_json=json)
    return await optimize_by_parts(
        request, store, screen, another_screen=another, out=folder, resume=resume, nursery=nursery
    )


def run_promote(name: str, *, cuda_graph: bool, out: str | None, store: str | None, json: bool) -> int:
    """Promote a run and return the exit code."""
    with contextlib.closing(make_screen(as_json=json)) as screen, Store.open(store) as opened:
        known = opened.run(run_id(opened, name))
        folder = output_folder(out, known)
        require_writable(folder)
        outcome = asyncio.run(promote(opened, known.id, screen, folder, cuda_graph=cuda_graph))
        screen.close()
        return hand_over(opened, outcome, out=out, json=json)


def hand_over(store: Store, outcome: Outcome, *, out: str | None, json: bool) -> int:
    """Write the report, print the result and return the exit code of a run that has ended."""
    tell = functools.partial(console.progress().print, markup=False, soft_wrap=True)
    report = reported(store, outcome, output_folder(out, outcome.run), tell)
    if json:
        print(json_text.dumps(as_json(outcome) | {"report": report and str(report)}, allow_nan=False))
    else:
        show(outcome, report, console.results(), elsewhere=naming(store))
    if outcome.shipped is None and outcome.end.stop_reason == StopReason.POLICY_FAILED:
        return exit_codes.NOT_MEASURED
    return exit_codes.GOOD if outcome.shipped else exit_codes.NOT_PASSED


def reported(store: Store, outcome: Outcome, folder: Path, tell: Callable[[str], object]) -> Path | None:
    """Write the report of a run that has ended; raise `InstrumentError` if nothing could be measured."""
    if outcome.end.stop_reason == StopReason.INSTRUMENT:
        raise InstrumentError(
            "nothing could be measured, several turns in a row",
            remedy=f"see `triton-agent runs show {outcome.run.id}{naming(store)}`",
        )
    return write_report(store, outcome, folder, tell)


def _with_changes(request: OptimizeRequest, given: Mapping[str, Any]) -> OptimizeRequest:
    """Return the stored request, with the server, the variable of its key and the cards replaced if given anew."""
    changed = {name: given[name] for name in ("base_url", "api_key_env") if given.get(name) is not None}
    if request.device == "cuda" and given["device"].startswith("cuda"):
        changed["cards"] = choose(given["device"]).cards
    return dataclasses.replace(request, **changed)


def _why_no_kernel(run: Run, elsewhere: str) -> list[str]:
    """Return lines that explain why a run has no kernel that passed."""
    request = OptimizeRequest.from_json(run.settings)
    reason = why_nothing(run.problem, request.loop().rules) if DEFAULT in run.policy.split(",") else ""
    if not reason:
        return [f"no kernel passed; the attempts and their verdicts: triton-agent runs show {run.id}{elsewhere}"]
    lines = [f"the built-in author cannot write a kernel for this problem: {reason}"]
    if any(graph.get("data_dependent") for graph in run.problem.graphs) and not request.parts:
        lines.append("--parts optimizes the submodules that do not branch on values of tensors, one by one")
    return lines


def _left_out(plan: str) -> list[str]:
    """Return a line for each operator that the built-in author has no kernel for, as its plan names them."""
    lines = [line.removeprefix(LEFT_OUT).rstrip(".") for line in plan.splitlines() if line.startswith(LEFT_OUT)]
    more = len(lines) - LEFT_OUT_SHOWN
    return lines[:LEFT_OUT_SHOWN] + ([f"and {more} more: triton-agent runs show"] if more > 0 else [])


def show(outcome: Outcome, report: Path | None, screen: Console, *, elsewhere: str = "") -> None:
    """Print how a run ended and what was shipped. Commands on the run need the option `elsewhere` to find its store."""
    best, shipped = outcome.best, outcome.shipped
    screen.print(f"\nended: {why_it_ended(outcome.end)}; run {outcome.run.id}")
    for name, what in outcome.end.summary.get("failed", {}).items():
        screen.print(f"{name} could not be asked: {what}", markup=False)
    resume = f"triton-agent optimize --resume {outcome.run.id}{elsewhere}"
    if outcome.end.stop_reason == StopReason.POLICY_FAILED:
        screen.print(f"to try again: {resume}", markup=False, soft_wrap=True)
    if outcome.end.stop_reason == StopReason.INTERRUPTED:
        screen.print(f"to continue the search: {resume}", markup=False, soft_wrap=True)
    if spent := spent_on_models(outcome.end, outcome.run):
        screen.print(spent, markup=False)
    if best is None:
        for line in _why_no_kernel(outcome.run, elsewhere):
            screen.print(line, markup=False, soft_wrap=True)
        return
    screen.print(f"best: {best.attempt.key}  {figure_of(best)}", markup=False)
    for line in _left_out(best.attempt.plan):
        screen.print(f"  {line}", markup=False, soft_wrap=True)
    timings = shipped.evaluation.timings if shipped else best.evaluation.timings if best.evaluation else ()
    if timings:
        screen.print(_timing_table(timings))
    if shipped is not None and (worst := standing(shipped.evaluation).worst):
        gain = "gains nothing: the reference runs" if worst.speedup.median == 1 else f"{worst.speedup.median:.2f}x"
        screen.print(f"the least gain, at {worst.name}: {gain}", markup=False)
    if shipped is None:
        screen.print("nothing is shipped" + (": the reference is as fast" if timings else ""))
    elif shipped.draft:
        screen.print(f"[bold]draft[/] {escape(str(shipped.path))}", soft_wrap=True)
        screen.print(
            "A draft's kernels were proven correct but not timed. The file runs the reference until "
            f"`triton-agent promote {outcome.run.id}{elsewhere}` has measured it on a machine with a GPU.",
            markup=False,
            soft_wrap=True,
        )
    else:
        screen.print(f"[bold green]shipped[/] {escape(str(shipped.path))}", soft_wrap=True)
    if report is not None:
        screen.print(f"report {escape(str(report))}", soft_wrap=True)


def _timing_table(timings: tuple[Timing, ...]) -> Table:
    table = Table(box=None)
    several = any(item.input_set for item in timings)
    words = ("inputs",) * several + ("against", "time")
    for heading in (*words, "reference ms", "shipped ms", "speed-up", "95% interval"):
        table.add_column(heading, justify="left" if heading in words else "right")
    for item in timings:
        speedup = item.speedup
        table.add_row(
            *((escape(item.input_set or "all sets"),) * several),
            item.baseline,
            KINDS_OF_TIME[item.kind],
            f"{item.baseline_ms.median:.4f}",
            f"{item.candidate_ms.median:.4f}",
            f"{speedup.median:.2f}x",
            f"{speedup.low:.2f} to {speedup.high:.2f}",
        )
    return table
