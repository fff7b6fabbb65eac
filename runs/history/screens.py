"""`triton-agent runs list`, `show` and `tree`: print stored runs or, with `--json`, write them for programs."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from triton_agent.agent.settings import MEANS, StopReason
from triton_agent.memory.exchange.plain import to_plain
from triton_agent.memory.listing import RunFilter, RunState, RunSummary
from triton_agent.memory.observation import ProblemView
from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import in_a_line, legible
from triton_agent.runs.cli.selection import RunSelection, select_runs
from triton_agent.runs.cli.store_option import load_history, open_store
from triton_agent.runs.history.attempt_page import attempt_page, coloured, interval, table
from triton_agent.runs.history.records import History, StoredAttempt, short_key
from triton_agent.runs.report.words import plain, traffic_said
from triton_agent.tools.errors import UsageError

PLAN_WIDTH = 56


# -- list --------------------------------------------------------------------------------------------------------------


def list_runs(chosen: RunSelection, *, store: str | None, json: bool) -> int:
    """Print one line per run."""
    with open_store(store) as opened:
        runs = select_runs(opened, chosen)
        where = opened.where
    if json:
        print(json_text.dumps([to_plain(run) | {"state": run.state.value} for run in runs], allow_nan=False))
        return exit_codes.GOOD
    out = console.results()
    if runs:
        out.print(_runs_table(runs))
    else:
        which = "no runs" if chosen.is_everything or chosen == RunSelection(limit=chosen.limit) else "no such runs"
        out.print(f"{which} in {legible(where)}", markup=False, soft_wrap=True)
    return exit_codes.GOOD


def _runs_table(runs: Sequence[RunSummary]) -> Any:
    right = ("turns", "attempts", "passed")
    shown = table("run", "problem", "policy", "started", *right, "best", "speed-up", "state", right=right)
    for run in runs:
        best = short_key(run.best) if run.best else ""
        counts = (str(run.turns), str(run.attempts), str(run.passed))
        cells = (run.id, in_a_line(run.problem, 32), in_a_line(run.policy, 24), f"{run.started_at:%Y-%m-%d %H:%M}")
        shown.add_row(*map(Text, (*cells, *counts, best, interval(run.speedup))), _state(run))
    return shown


def _state(run: RunSummary) -> Text:
    if run.state is RunState.OPEN:
        return Text("open", style="yellow")
    return Text(in_a_line(plain(run.stop_reason), 24))


# -- show --------------------------------------------------------------------------------------------------------------


def show(name: str, attempt: str | None, *, store: str | None, json: bool) -> int:
    """Print a run, or one of its attempts in full: `RUN/2.1` is attempt 2.1 of the run."""
    name, slash, place = name.partition("/")
    if slash and attempt is not None:
        raise UsageError(f"{name}/{place} --attempt {attempt}: two attempts", remedy="name one of them")
    attempt = place if slash else attempt
    with open_store(store) as opened:
        history = load_history(opened, name)
    item = None if attempt is None else history.attempt(attempt)
    if json:
        told = _attempt_json(item) if item is not None else _run_json(history)
        print(json_text.dumps(told, allow_nan=False))
    elif item is not None:
        console.results().print(attempt_page(item, history.parent_of(item)))
    else:
        _show_run(history)
    return exit_codes.GOOD


def _show_run(history: History) -> None:
    out, run = console.results(), history.run
    out.print(
        Text(f"run {run.id}", style="bold"), Text(f"by {legible(run.policy)}, {run.started_at:%Y-%m-%d %H:%M:%S} UTC")
    )
    for line in _about(history):
        out.print(Text(line), soft_wrap=True)
    if history.attempts:
        out.print(_attempts_table(history.attempts, history.best))


def _about(history: History) -> list[str]:
    run, best, end = history.run, history.best, history.end
    lines = [*_about_problem(run.problem)]
    if run.forked_from:
        lines.append(f"forked from {legible(run.forked_from)}")
    passed = sum(item.passed for item in history.attempts)
    lines.append(f"{len(history.attempts)} attempts, {passed} passed; " + _ending(history))
    if best is not None:
        so_far = "" if end is not None else " so far"
        lines.append(f"best{so_far}: {best.name}  {interval(best.speedup) or 'speed not measured'}")
    elif end is not None:
        lines.append("best: nothing better than the reference was found")
    return lines


def _ending(history: History) -> str:
    if history.end is None:
        return f"open: still running, or interrupted; triton-agent optimize --resume {history.run.id}"
    took_s = (history.end.ended_at - history.run.started_at).total_seconds()
    reason = history.end.stop_reason
    meaning = f"{MEANS[StopReason(reason)]} ({reason})" if reason in set(StopReason) else legible(reason)
    return f"ended after {took_s:.0f} s: {meaning}"


def _about_problem(view: ProblemView) -> list[str]:
    floor = f"fewest bytes {view.floor_bytes:,}, flops {view.floor_flops:,}"
    floor += f", {view.floor_ms:.4g} ms on this GPU" if view.floor_ms is not None else ""
    lines = [f"problem {legible(view.name)} ({view.digest[:12]}) on {legible(view.device)}; {floor}"]
    return lines + [f"  note: {legible(note)}" for note in view.notes]


def _attempts_table(attempts: Sequence[StoredAttempt], best: StoredAttempt | None) -> Any:
    timed = any(item.speedup is not None for item in attempts)
    shown = table("attempt", "from", "status", "finding", "speed-up" if timed else "traffic", "plan")
    for item in attempts:
        parent, verdict = item.attempt.parent, item.evaluation
        finding = verdict.finding.value if verdict is not None and verdict.finding is not None else ""
        mark = "*" if best is not None and item.key == best.key else ""
        traffic = traffic_said(verdict.diagnosis if verdict is not None else None)
        figure = interval(item.speedup) if timed else traffic
        cells = (finding, figure, in_a_line(without_notes(item.attempt.plan), PLAN_WIDTH))
        origin = "" if parent is None else short_key(parent) if parent.startswith(f"{item.attempt.run}/") else parent
        shown.add_row(Text(f"{item.name}{mark}"), Text(legible(origin)), coloured(item.status), *map(Text, cells))
    return shown


def _run_json(history: History) -> dict[str, Any]:
    best = history.best
    told = {"run": history.run, "end": history.end, "best": best.key if best is not None else None}
    plain: dict[str, Any] = to_plain(told)
    return plain | {"attempts": [_line_json(item) for item in history.attempts]}


def _line_json(item: StoredAttempt) -> dict[str, Any]:
    attempt, verdict = item.attempt, item.evaluation
    finding = verdict.finding if verdict is not None else None
    told = {name: getattr(attempt, name) for name in ("key", "turn", "index", "parent", "plan", "created_at")}
    plain: dict[str, Any] = to_plain({**told, "finding": finding, "speedup": item.speedup})
    return plain | {"status": item.status, "gradings": len(item.gradings)}


def _attempt_json(item: StoredAttempt) -> dict[str, Any]:
    told: dict[str, Any] = to_plain({"attempt": item.attempt, "gradings": item.gradings})
    return told


# -- tree --------------------------------------------------------------------------------------------------------------


def tree(name: str, *, store: str | None, json: bool) -> int:
    """Print attempts under their parents, and under them the runs forked from them."""
    with open_store(store) as opened:
        history = load_history(opened, name)
        forks = opened.runs(RunFilter(continues=history.run.id, limit=None))
    children = _children(history)
    if json:
        told = [_branch_json(item, children) for item in children.get(None, [])]
        beside = {"forked_from": history.run.forked_from, "forks": {run.id: run.forked_from for run in forks}}
        print(json_text.dumps({"run": history.run.id, **beside, "tree": told}, allow_nan=False))
        return exit_codes.GOOD
    _draw(history, children, forks)
    return exit_codes.GOOD


def _draw(history: History, children: dict[str | None, list[StoredAttempt]], forks: Sequence[RunSummary]) -> None:
    best, origin = history.best, history.run.forked_from
    title = Text(f"{history.run.id}  {legible(history.run.problem.name)}", style="bold")
    root = Tree(title.append(f"  forked from {legible(origin)}" if origin else "", style="not bold"))
    waiting = [(root, item) for item in reversed(children.get(None, []))]
    while waiting:
        above, item = waiting.pop()
        branch = above.add(_label(item, best))
        for fork in forks:
            if fork.forked_from == item.key:
                branch.add(Text(f"run {fork.id}  {fork.attempts} attempts  {interval(fork.speedup)}", style="cyan"))
        waiting += [(branch, child) for child in reversed(children.get(item.key, []))]
    console.results().print(root)


def _children(history: History) -> dict[str | None, list[StoredAttempt]]:
    """Group attempts by parent; None for a fresh start or a parent in another run."""
    known = {item.key: item for item in history.attempts}
    found: dict[str | None, list[StoredAttempt]] = {}
    for item in history.attempts:
        parent = item.attempt.parent if item.attempt.parent in known and _is_earlier(item, known) else None
        found.setdefault(parent, []).append(item)
    return found


def _is_earlier(item: StoredAttempt, known: dict[str, StoredAttempt]) -> bool:
    """Return True if the parent is earlier; an imported file might hold a cycle."""
    parent = known[item.attempt.parent or ""].attempt
    return (parent.turn, parent.index) < (item.attempt.turn, item.attempt.index)


def _label(item: StoredAttempt, best: StoredAttempt | None) -> Text:
    label = Text.assemble((item.name, "bold"), "  ", coloured(item.status))
    if item.evaluation is not None and item.evaluation.finding is not None:
        label.append(f" ({item.evaluation.finding})", style="")
    label.append(f"  {interval(item.speedup)}", style="bold")
    if best is not None and item.key == best.key:
        label.append("  best", style="green")
    return label.append(f"  {in_a_line(without_notes(item.attempt.plan), PLAN_WIDTH)}", style="dim")


def _branch_json(root: StoredAttempt, children: dict[str | None, list[StoredAttempt]]) -> dict[str, Any]:
    """Build the tree without recursion: a chain of attempts may exceed Python's stack."""
    told: dict[str, Any] = _line_json(root) | {"children": []}
    waiting = [(told, root)]
    while waiting:
        above, item = waiting.pop()
        for child in children.get(item.key, []):
            line = _line_json(child) | {"children": []}
            above["children"].append(line)
            waiting.append((line, child))
    return told
