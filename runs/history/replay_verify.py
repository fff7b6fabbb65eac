"""`triton-agent replay --verify` and `--regrade`: evaluates stored candidates again here and compares.

The problem is loaded from its file if that is unchanged, otherwise from the stored text, which may come from elsewhere
and is confined like a candidate. Exit code 1 means that a verdict differs; speed-ups are only shown, since other
machines have other ratios.
"""

from __future__ import annotations

import contextlib
import datetime
import json as json_text
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from triton_agent.memory.records import Grading, GradingMachine, InstrumentFailure
from triton_agent.memory.store import Store
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import legible
from triton_agent.runs.history.attempt_page import coloured, interval, table
from triton_agent.runs.history.judge_again import (
    Agreement,
    Comparison,
    Ratio,
    StoredCandidate,
    judge_again,
    settings_like,
    subjects_of,
)
from triton_agent.runs.history.records import History, StoredAttempt
from triton_agent.runs.history.stored_problem import restored
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.machine.hardware import visible_gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import GRADER, Evaluation
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.versions import project_version, require_supported

COLOURS = {Agreement.SAME: "green", Agreement.DIFFERS: "red", Agreement.NOT_MEASURED: "magenta", Agreement.NEW: "cyan"}


def verify(
    store: Store,
    history: History,
    steps: Sequence[StoredAttempt],
    *,
    regrade: bool,
    device: str,
    jobs: int,
    json: bool,
) -> int:
    """Evaluate again, print and, with `--regrade`, store."""
    require_supported()
    subjects = subjects_of(steps)
    if not subjects:
        raise UsageError("none of these attempts wrote a candidate", remedy="name another: --attempt TURN.ANSWER")
    rules, before = steps[-1].attempt.observation.rules, [item.before for item in subjects]
    with tempfile.TemporaryDirectory(prefix="triton-agent-replay-") as folder:
        spec = restored(history.run.problem, Path(folder))
        own = not Path(spec.path).is_relative_to(Path(folder).resolve())  # a stored text may have been imported
        settings = settings_like(rules, before, device, history.run.settings, trust=own)
        outcomes = []
        for outcome in watched(spec, subjects, settings, jobs):
            outcomes.append(outcome)
            if regrade:
                store.add_grading(_grading(outcome, f"{history.run.id}/{outcome.subject.name}"))
    tell(outcomes, json=json, about={"run": history.run.id, "regraded": regrade})
    return exit_code(outcomes)


def _grading(outcome: Comparison, key: str) -> Grading:
    failed = isinstance(outcome.now, InstrumentError)
    device = next(iter(visible_gpus()), None)
    return Grading(
        attempt=key,
        evaluation=outcome.now if isinstance(outcome.now, Evaluation) else None,
        failure=InstrumentFailure.of(outcome.now) if isinstance(outcome.now, InstrumentError) else None,
        machine=GradingMachine(gpu=device.name if device and not failed else "", commit=project_version()),
        grader=GRADER,
        graded_at=datetime.datetime.now(datetime.UTC),
    )


def watched(
    spec: ProblemSpec, subjects: Sequence[StoredCandidate], settings: EvaluatorSettings, jobs: int
) -> Iterator[Comparison]:
    """Yield outcomes as they arrive, with progress on stderr: a bar at a terminal, otherwise a line each."""
    err = console.progress()
    with _bar(err) as bar:
        task = bar.add_task("loading the problem", total=len(subjects))

        def on_stage(name: str, stage: str) -> None:
            bar.update(task, description=f"{name}: {stage}")

        def say(text: str) -> None:
            err.print(text, markup=False, soft_wrap=True)

        judging = judge_again(spec, subjects, settings, jobs=jobs, on_stage=on_stage, say=say)
        with contextlib.closing(judging) as outcomes:
            for outcome in outcomes:
                bar.advance(task)
                if not err.is_terminal:
                    err.print(f"{outcome.subject.name}: {outcome.agreement}", markup=False, soft_wrap=True)
                yield outcome


def _bar(err: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal)


def tell(outcomes: Sequence[Comparison], *, json: bool, about: dict[str, Any]) -> None:
    """Print a table with the differences, or one JSON object."""
    if json:
        plain = {**about, "outcomes": [one.to_json() for one in outcomes], "agree": exit_code(outcomes) == 0}
        print(json_text.dumps(plain, allow_nan=False))
        return
    out = console.results()
    shown = table("attempt", "stored", "now", "verdict", "stored speed-up", "speed-up now", "intervals")
    for one in outcomes:
        shown.add_row(*_cells(one))
    out.print(shown)
    for one in outcomes:
        _explain(out, one)
    counts = {kind: sum(one.agreement is kind for one in outcomes) for kind in Agreement}
    apart = sum(one.ratio is Ratio.APART for one in outcomes)
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    out.print(f"{len(outcomes)} judged again: {said}." + (f" {apart} with another speed-up." if apart else ""))


def _cells(one: Comparison) -> list[Text]:
    before, (then, now) = one.subject.before, one.speedups
    status = one.now.status.value if isinstance(one.now, Evaluation) else "not measured"
    return [
        Text(one.subject.name),
        coloured(before.status.value if before is not None else "not measured"),
        coloured(status),
        Text(one.agreement.value, style=COLOURS[one.agreement]),
        Text(interval(then)),
        Text(interval(now)),
        Text("" if one.ratio is Ratio.NOT_COMPARED else one.ratio.value),
    ]


def _explain(out: Console, one: Comparison) -> None:
    if isinstance(one.now, InstrumentError):
        out.print(Text(f"\n{one.subject.name}: could not be measured: {legible(str(one.now))}"), soft_wrap=True)
    elif one.agreement is Agreement.DIFFERS and one.subject.before is not None:
        for when, verdict in (("stored", one.subject.before), ("now", one.now)):
            place = verdict.environment
            where = f"{place.mode} on {place.device}, torch {place.torch}, triton {place.triton}, grader {place.grader}"
            said = verdict.message or "passed"
            out.print(Text(f"\n{one.subject.name}, {when} ({legible(where)}):\n  {legible(said)}"), soft_wrap=True)


def exit_code(outcomes: Sequence[Comparison]) -> int:
    """Return the exit code: a differing verdict counts most, then one that could not be reached."""
    found = {one.agreement for one in outcomes}
    if Agreement.DIFFERS in found:
        return exit_codes.NOT_PASSED
    return exit_codes.NOT_MEASURED if Agreement.NOT_MEASURED in found else exit_codes.GOOD
