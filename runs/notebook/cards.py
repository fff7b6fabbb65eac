"""Draws evaluations, outcomes, runs and attempts as HTML for notebooks.

Everything that is not markup is escaped: messages, plans and code come from candidates. No scripts and no requests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli.foreign_text import in_a_line
from triton_agent.runs.report.markup import Html, facts, folded, table, tag
from triton_agent.runs.report.words import end_said, finding_said, plain
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Interval, Status, Timing

if TYPE_CHECKING:
    from triton_agent.runs.api import Optimized
    from triton_agent.runs.history.records import History, StoredAttempt

ATTEMPTS_SHOWN = 50
CASES_SHOWN = 8
PLAN_WIDTH = 90
MARKS = {True: ("✓", "#1a7f37"), False: ("✗", "#cf222e")}
"""Signs and colours for passed and failed; both are legible on light and dark pages."""


def evaluation_card(evaluation: Evaluation) -> Html:
    """Draw a verdict: status, message, times, the cases closest to their limits, resources, notes."""
    passed = evaluation.status is Status.PASSED
    place = evaluation.environment
    where = f"on {place.device}" if place.mode == "gpu" else "in the interpreter; speed not measured"
    return _card(
        _title(plain(evaluation.status.value), passed, finding_said(evaluation.finding), where),
        tag("pre", evaluation.message) if evaluation.message else None,
        _times(evaluation.timings),
        _accuracy(evaluation),
        table(
            ("kernel", "registers", "spilled bytes", "shared bytes"),
            [(item.kernel, item.registers, item.spill_bytes, item.shared_bytes) for item in evaluation.resources],
            right=(1, 2, 3),
            caption=f"Compiled for {place.target}",
        ),
        *(tag("p", note) for note in evaluation.notes),
    )


def outcome_card(outcome: Optimized) -> Html:
    """Draw the outcome of `optimize`: what it returned, and why."""
    if outcome.file is None:
        what = "nothing shipped: the module itself is returned"
    elif outcome.draft:
        what = 'draft: verified, not timed; its kernels run once use_kernels = "always"'
    else:
        what = f"shipped, {_interval(outcome.speedup)} as fast as the reference"
    named = [("why", outcome.why), ("file", outcome.file), ("report", outcome.report), ("run", outcome.run)]
    named += [(name, _interval(speedup)) for name, speedup in outcome.by_set.items()]
    return _card(
        _title(what, outcome.file is not None, "", ""),
        facts(named),
        *(tag("p", line) for line in outcome.ranges),
        folded("the shipped file's verdict", evaluation_card(outcome.evaluation)) if outcome.evaluation else None,
    )


def run_card(history: History) -> Html:
    """Draw a run: its problem, its end, and a table of its attempts, of which the best is marked."""
    run, end, best = history.run, history.end, history.best
    passed = sum(item.passed for item in history.attempts)
    ending = f"ended: {end_said(end.stop_reason)}" if end else "open"
    return _card(
        _title(f"run {run.id}", None, "", f"{run.problem.name} by {run.policy} on {run.problem.device}"),
        tag("p", f"{len(history.attempts)} attempts, {passed} passed; {ending}"),
        table(
            ("attempt", "status", "because", "speed-up", "plan"),
            [
                (
                    f"{item.name} (best)" if best is not None and item.key == best.key else item.name,
                    _mark(plain(item.status), item.passed if item.evaluation else None),
                    finding_said(item.evaluation.finding) if item.evaluation else "",
                    _interval(item.speedup),
                    in_a_line(without_notes(item.attempt.plan), PLAN_WIDTH),
                )
                for item in history.attempts[:ATTEMPTS_SHOWN]
            ],
            right=(3,),
            caption="Attempts" if len(history.attempts) <= ATTEMPTS_SHOWN else f"The first {ATTEMPTS_SHOWN} attempts",
        ),
    )


def attempt_card(item: StoredAttempt) -> Html:
    """Draw an attempt: its verdict, plan and code."""
    source = item.attempt.source
    return _card(
        _title(f"attempt {item.key}", None, "", plain(item.status)),
        evaluation_card(item.evaluation) if item.evaluation else None,
        tag("pre", without_notes(item.attempt.plan)) if item.attempt.plan else None,
        folded("code", tag("pre", source)) if source else None,
    )


def register() -> None:
    """Let IPython draw evaluations as HTML; do nothing outside of IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(Evaluation, evaluation_card)


def _card(*parts: object) -> Html:
    shown = (part for part in parts if part)
    return tag("div", *shown, style="border: 1px solid #8884; border-radius: 6px; padding: .6em 1em; margin: .3em 0")


def _title(what: str, passed: bool | None, because: str, beside: str) -> Html:
    told = [_mark(what, passed), f": {because}" if because else "", f" ({beside})" if beside else ""]
    return tag("div", tag("strong", told[0]), *told[1:])


def _mark(what: str, passed: bool | None) -> Html:
    if passed is None:
        return tag("span", what)
    sign, colour = MARKS[passed]
    return tag("span", tag("span", sign, style=f"color: {colour}"), f" {what}")


def _times(timings: Iterable[Timing]) -> Html:
    rows = [
        (
            KINDS_OF_TIME[item.kind],
            item.baseline,
            item.input_set,
            f"{item.baseline_ms.median:.4g}",
            f"{item.candidate_ms.median:.4g}",
            _interval(item.speedup),
        )
        for item in timings
    ]
    headings = ("time", "against", "inputs", "reference ms", "kernel ms", "speed-up")
    return table(headings, rows, right=(3, 4, 5), caption="Measured in pairs; medians with 95% intervals")


def _accuracy(evaluation: Evaluation) -> Html:
    closest = sorted(evaluation.accuracy, key=lambda case: case.error / case.limit if case.limit else case.error)
    rows = [
        (
            f"{case.variant} / {case.distribution}",
            case.output,
            f"{case.error:.2g}",
            f"{case.limit:.2g}",
            _mark("", case.ok),
        )
        for case in reversed(closest[-CASES_SHOWN:])
    ]
    caption = f"Closest to their limits, of {len(evaluation.accuracy)} comparisons with float64"
    return table(("case", "output", "error", "allowed", ""), rows, right=(2, 3), caption=caption)


def _interval(value: Interval | None) -> str:
    return f"{value.median:.2f}x [{value.low:.2f}, {value.high:.2f}]" if value else ""
