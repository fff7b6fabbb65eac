"""`triton-agent runs diff A B`: compares two attempts: their results side by side, their sources as a unified diff."""

from __future__ import annotations

import difflib
import json as json_text

from rich.text import Text

from triton_agent.memory.exchange.plain import to_plain
from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.foreign_text import in_a_line, legible
from triton_agent.runs.cli.store_option import load_attempt, open_store
from triton_agent.runs.history.attempt_page import coloured, diff_text, interval, table
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report.words import traffic_said


def diff(before: str, after: str, *, store: str | None, json: bool) -> int:
    """Print the comparison. The exit code is 0 even if they differ."""
    with open_store(store) as opened:
        items = (load_attempt(opened, before), load_attempt(opened, after))
    sources = tuple(item.attempt.source or "" for item in items)
    if json:
        before_lines, after_lines = (text.split("\n") for text in sources)
        lines = difflib.unified_diff(before_lines, after_lines, items[0].key, items[1].key, lineterm="")
        sides = [to_plain({"attempt": item.key, "evaluation": item.evaluation}) for item in items]
        print(json_text.dumps({"before": sides[0], "after": sides[1], "diff": list(lines)}, allow_nan=False))
        return exit_codes.GOOD
    out = console.results()
    out.print(_side_by_side(*items))
    if items[0].attempt.observation.problem.digest != items[1].attempt.observation.problem.digest:
        out.print("note: they answer different problems")
    if items[0].attempt.source is None or items[1].attempt.source is None:
        out.print("note: an answer without a candidate is shown as an empty one")
    out.print()
    out.print(diff_text(sources[0], sources[1], (items[0].key, items[1].key)), soft_wrap=True)
    return exit_codes.GOOD


def _side_by_side(one: StoredAttempt, other: StoredAttempt) -> object:
    shown = table("", one.key, other.key)
    pair = (one, other)
    shown.add_row("problem", *(Text(legible(item.attempt.observation.problem.name)) for item in pair))
    shown.add_row("policy", *(Text(legible(item.attempt.completion.policy)) for item in pair))
    shown.add_row("status", *(coloured(item.status) for item in pair))
    shown.add_row("finding", *(Text(_finding(item)) for item in pair))
    shown.add_row("speed-up", *(Text(interval(item.speedup) or "not measured") for item in pair))
    shown.add_row("registers", *(Text(_most(item, "registers")) for item in pair))
    shown.add_row("spills", *(Text(_most(item, "spill_bytes")) for item in pair))
    shown.add_row("shared", *(Text(_most(item, "shared_bytes")) for item in pair))
    shown.add_row("traffic", *(Text(_traffic(item)) for item in pair))
    shown.add_row(
        "message", *(Text(in_a_line(item.evaluation.message, 200) if item.evaluation else "") for item in pair)
    )
    shown.add_row("plan", *(Text(in_a_line(without_notes(item.attempt.plan), 200)) for item in pair))
    return shown


def _finding(item: StoredAttempt) -> str:
    return item.evaluation.finding.value if item.evaluation is not None and item.evaluation.finding is not None else ""


def _most(item: StoredAttempt, name: str) -> str:
    resources = item.evaluation.resources if item.evaluation is not None else ()
    figures = [figure for kernel in resources if (figure := getattr(kernel, name)) is not None]
    return f"{max(figures):,}" if figures else ""


def _traffic(item: StoredAttempt) -> str:
    return traffic_said(item.evaluation.diagnosis if item.evaluation is not None else None)
