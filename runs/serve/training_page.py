"""The pages of trainings: curves of logged figures, and the updates of an online training with their rollouts.

A trainer keeps its log in its checkpoints, so nothing is shown before its first checkpoint. An online training also
writes a line after each update; its point links to the update's rollouts, if the viewer's store holds them. The files
may come from anyone: only numbers and the id of the training are taken from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from triton_agent.policy.train.online.rollouts import UPDATES, runs_of_update
from triton_agent.runs.report import charts
from triton_agent.runs.report.markup import folded, long, pictures, table, tag
from triton_agent.runs.report.words import plain
from triton_agent.runs.serve.folders import Folders, newest_state
from triton_agent.runs.serve.frame import link, page

LOG_BYTES_AT_MOST = 64 << 20
FIRST = ("loss", "reward", "rewards", "entropy", "ratio", "completion_length", "eval_right", "eval_loss", "grad_norm")
"""Figures of a trainer's log that are drawn first; the others are folded."""
UPDATE_FIGURES = ("reward", "correct in the last turn", "entropy", "ratio", "answer_tokens", "verdicts a second")
"""Figures of updates that are drawn, in this order."""
NAMES = re.compile("[A-Za-z0-9-]{1,100}")
UPDATES_LISTED = 200

Series = dict[str, list[tuple[float, float]]]


def render_trainings(folders: Folders, *, jobs: bool) -> str:
    """Return the list of trainings."""
    found = folders.trainings()
    rows = [_row(name, path) for name, path in found.items()]
    where = ", ".join(map(str, folders.roots))
    headings = ("training", "steps", "newest checkpoint", "updates")
    parts: list[object] = [table(headings, rows, right=(1, 3), caption=f"In {where}", stacks=(1, 3))]
    if not rows:
        parts = [tag("p", f"No training lies in {where}. Other folders are named by --folder.")]
    return page("Training", "Training runs", [("trainings", "Training runs", parts)], here="/training", jobs=jobs)


def _row(name: str, path: Path) -> tuple[object, ...]:
    where, state, updates = tag("a", name, href=link("/training/run", name=name)), newest_state(path), _updates(path)
    steps = max((entry.get("step", 0) for entry in _history(state)), default=0) if state is not None else 0
    return where, f"{steps:g}", state.parent.name if state is not None else "", len(updates) or ""


def render_training(folders: Folders, query: Mapping[str, str], *, jobs: bool) -> str:
    """Return the curves of a training."""
    name = query.get("name", "")
    folder = folders.training(name)
    state, updates = newest_state(folder), _updates(folder)
    sections: list[tuple[str, str, list[object]]] = []
    if updates:
        sections.append(("updates", "Updates", _of_updates(updates)))
    if state is not None:
        sections.append(("curves", "The trainer's log", _of_log(state)))
    subtitle = f"As of {state.parent.name}" if state is not None else "No checkpoint yet"
    return page(name, subtitle, sections, here="/training", live=True, jobs=jobs)


# -- an online training ------------------------------------------------------------------------------------------------


def _of_updates(updates: list[dict[str, Any]]) -> list[object]:
    series: Series = {}
    for line in updates:
        for figure, value in _figures(line).items():
            series.setdefault(figure, []).append((line["update"], value))
    places = {float(line["update"]): _rollouts(line) for line in updates}
    curves = [
        (plain(figure), charts.curve(plain(figure), series[figure], over="update", link_of=places.get))
        for figure in UPDATE_FIGURES
        if len(series.get(figure, ())) > 1
    ]
    rows = [_update_row(line) for line in updates[::-1][:UPDATES_LISTED]]
    headings = ("update", "reward", "right, by turn", "answers", "verdicts", "seconds", "")
    listed = table(headings, rows, right=(0, 1, 2, 3, 4, 5), caption=f"{len(updates)} updates, newest first")
    return [pictures(curves), long(listed, len(rows), f"{len(updates)} updates in figures")]


def _figures(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of an update that are numbers."""
    taken, correct = line.get("seconds"), line.get("correct")
    found = {name: line.get(name) for name in ("reward", "entropy", "ratio", "answer_tokens")}
    found["correct in the last turn"] = correct[-1] if isinstance(correct, list) and correct else None
    whole_s = taken.get("all") if isinstance(taken, dict) else None
    if _is_number(whole_s) and whole_s and _is_number(line.get("verdicts")):
        found["verdicts a second"] = line["verdicts"] / whole_s
    return {name: float(value) for name, value in found.items() if _is_number(value)}


def _update_row(line: Mapping[str, Any]) -> tuple[object, ...]:
    figures, correct = _figures(line), line.get("correct")
    shares = [f"{share:.0%}" for share in correct if _is_number(share)] if isinstance(correct, list) else []
    whole = line.get("seconds", {}).get("all") if isinstance(line.get("seconds"), dict) else None
    place = _rollouts(line)
    return (
        line["update"],
        f"{figures['reward']:.3f}" if "reward" in figures else "",
        ", ".join(shares),
        *(f"{line[name]:,}" if _is_number(line.get(name)) else "" for name in ("attempts", "verdicts")),
        f"{whole:.0f}" if _is_number(whole) else "",
        tag("a", "Rollouts", href=place) if place else "",
    )


def _rollouts(line: Mapping[str, Any]) -> str | None:
    """Return the address of the runs of an update."""
    training = str(line.get("version", "")).rpartition("+")[0]
    return link("/", q=runs_of_update(training, line["update"])) if NAMES.fullmatch(training) else None


def _updates(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of an online training that can be read; the last one may be half written."""
    found = []
    for line in _text(folder / UPDATES).splitlines():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict) and isinstance(read.get("update"), int):
            found.append(read)
    return found


# -- a trainer's log ---------------------------------------------------------------------------------------------------


def _of_log(state: Path) -> list[object]:
    series: Series = {}
    for entry in _history(state):
        for figure, value in entry.items():
            if figure not in ("step", "epoch"):
                series.setdefault(figure, []).append((entry.get("step", 0.0), value))
    drawn = {figure: points for figure, points in series.items() if len(points) > 1}
    first = sorted((figure for figure in drawn if figure in FIRST), key=FIRST.index)
    rest = sorted(drawn.keys() - set(first))
    curves = {figure: (plain(figure), charts.curve(plain(figure), points)) for figure, points in drawn.items()}
    parts: list[object] = [pictures(curves[figure] for figure in first)]
    if rest:
        parts.append(folded(f"{len(rest)} more figures", pictures(curves[figure] for figure in rest)))
    last = [(plain(figure), f"{points[-1][1]:.5g}", f"{points[-1][0]:g}") for figure, points in sorted(series.items())]
    return [*parts, table(("figure", "last", "at step"), last, right=(1, 2), caption="Last logged")]


def _history(state: Path) -> list[dict[str, float]]:
    """Return what was logged, numbers only."""
    try:
        entries = json.loads(_text(state)).get("log_history", [])
    except (ValueError, AttributeError):
        return []
    return [
        {str(name): float(value) for name, value in entry.items() if _is_number(value)}
        for entry in entries
        if isinstance(entry, dict)
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= LOG_BYTES_AT_MOST else ""
    except OSError:
        return ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) < 1e300
