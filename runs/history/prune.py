"""`triton-agent runs prune`: removes runs for good, after showing them and their sizes."""

from __future__ import annotations

import dataclasses
import json as json_text
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from triton_agent.memory.listing import RunFilter, RunState, RunSummary
from triton_agent.memory.pruning import forget, sizes_bytes
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import in_a_line
from triton_agent.runs.cli.selection import RunSelection, select_runs
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.doctor.checkup import in_binary_units
from triton_agent.runs.history.attempt_page import interval, table
from triton_agent.runs.history.clean import confirm
from triton_agent.tools.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PruneRequest:
    selection: RunSelection
    keep_best: bool
    yes: bool
    dry_run: bool


def prune(request: PruneRequest, *, store: str | None, json: bool) -> int:
    """Show, ask, remove."""
    if request.selection.is_everything:
        raise UsageError("which runs?", remedy="name them, or say --older-than 90d, --problem, --policy or --status")
    with open_store(store) as opened:
        chosen = _chosen(request, select_runs(opened, request.selection))
        kept = _holders_of_best(opened.runs(RunFilter(limit=None))) if request.keep_best else set()
        chosen = [run for run in chosen if run.id not in kept]
        with opened.reading() as connection:
            sizes = sizes_bytes(connection) if chosen else {}
        path = opened.database.path
    about = [{"id": run.id, "problem": run.problem, "bytes": sizes[run.id]} for run in chosen]
    if not json:
        _show(chosen, sizes)
    if request.dry_run or not chosen:
        if json:
            print(json_text.dumps({"runs": about, "forgotten": None}))
        return exit_codes.GOOD
    confirm(f"Remove {len(chosen)} runs for good?", request.yes)
    before = _size_bytes(path)
    done = forget(store, [run.id for run in chosen])
    freed = max(0, before - _size_bytes(path))
    if json:
        print(json_text.dumps({"runs": about, "forgotten": dataclasses.asdict(done) | {"freed_bytes": freed}}))
        return exit_codes.GOOD
    what = f"removed {done.runs} runs with {done.attempts} attempts and {done.texts} texts"
    console.results().print(what + (f"; the file is {in_binary_units(freed)} smaller" if path is not None else ""))
    return exit_codes.GOOD


def _chosen(request: PruneRequest, found: Sequence[RunSummary]) -> list[RunSummary]:
    """Drop open runs, which may be under way, unless they were named or open runs were requested."""
    named = bool(request.selection.ids) or request.selection.status == RunState.OPEN.value
    return [run for run in found if named or run.state is RunState.ENDED]


def _holders_of_best(runs: Sequence[RunSummary]) -> set[str]:
    """Return for each problem the run with the highest sure speed-up or, if none was timed, the newest with a best
    attempt.
    """
    best: dict[str, RunSummary] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        if run.best is not None and (run.problem_digest not in best or _sure(run) >= _sure(best[run.problem_digest])):
            best[run.problem_digest] = run
    return {run.id for run in best.values()}


def _sure(run: RunSummary) -> float:
    return run.speedup.low if run.speedup is not None else 0.0


def _size_bytes(path: Path | None) -> int:
    """Return the size of the file and its log."""
    files = [] if path is None else [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())


def _show(chosen: Sequence[RunSummary], sizes: dict[str, int]) -> None:
    out = console.results()
    if not chosen:
        out.print("no run to remove")
        return
    shown = table("run", "problem", "policy", "started", "attempts", "speed-up", "size", right=("attempts", "size"))
    for run in chosen:
        texts = (run.id, in_a_line(run.problem, 32), in_a_line(run.policy, 24), f"{run.started_at:%Y-%m-%d %H:%M}")
        figures = (str(run.attempts), interval(run.speedup), in_binary_units(sizes[run.id]))
        shown.add_row(*map(Text, (*texts, *figures)))
    total = in_binary_units(sum(sizes[run.id] for run in chosen))
    shown.add_row("", "", "", "", "", "", Text(total, style="bold"))
    out.print(shown)
    out.print("Sizes are those of answers and verdicts; texts that only these runs use are removed, too.")
