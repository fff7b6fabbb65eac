"""Draws one attempt: its prompt, plan and code, verdicts and cost.

Uses stored values only, with rich; needs neither torch, nor a GPU, nor a policy. `show`, `replay` and `diff` use it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from triton_agent.memory.observation import Observation, Tried
from triton_agent.memory.records import Completion, Grading
from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli.foreign_text import in_a_line, legible
from triton_agent.runs.history.records import StoredAttempt, short_key
from triton_agent.tools.results import KINDS_OF_TIME, Evaluation, Interval, Status

THEME = "ansi_dark"
"""The terminal's own sixteen colours, which its user has chosen to be readable."""
COLOURS = {
    **{"passed": "green", "cheated": "red", "not_triton": "yellow", "not measured": "magenta", "not judged": "dim"},
    **{status.value: "red" for status in Status if status.value not in ("passed", "not_triton")},
}
CASES_SHOWN = 8


def attempt_page(item: StoredAttempt, parent: StoredAttempt | None, *, changes: bool = False) -> RenderableType:
    """Draw one attempt; with `changes`, the difference to its parent instead of the whole code."""
    parts: list[RenderableType] = [title_of(item), Rule("asked", align="left", style="dim")]
    parts += _asked(item.attempt.observation, item.attempt.completion)
    parts += [Rule("plan", align="left", style="dim"), _prose(without_notes(item.attempt.plan) or "(none was written)")]
    parts += _code(item, parent, changes)
    for grading in item.gradings:
        parts += [Rule(f"verdict, {grading.graded_at:%Y-%m-%d %H:%M:%S}", align="left", style="dim")]
        parts += list(verdict_page(grading))
    if not item.gradings:
        parts += [Rule("verdict", align="left", style="dim"), Text("not judged yet")]
    return Group(*parts)


def coloured(status: str) -> Text:
    return Text(status, style=COLOURS.get(status, ""))


def interval(value: Interval | None, unit: str = "x", digits: int = 2) -> str:
    """Format `1.32x [1.30, 1.35]`; empty if it was not measured."""
    if value is None:
        return ""
    return f"{value.median:.{digits}f}{unit} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def table(*headings: str, right: Sequence[str] = ()) -> Table:
    """Make a table in the common style."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return made


def diff_text(before: str, after: str, names: tuple[str, str]) -> Text:
    """Make a coloured unified diff; says so if nothing differs."""
    lines = difflib.unified_diff(legible(before).split("\n"), legible(after).split("\n"), *names, lineterm="")
    styles = {"@": "cyan", "+": "green", "-": "red"}
    shown = Text()
    for number, line in enumerate(lines):
        shown.append(f"{line}\n", style="bold" if number < 2 else styles.get(line[:1], ""))
    shown.rstrip()
    return shown if shown.plain else Text("(no difference)")


def title_of(item: StoredAttempt) -> Text:
    """Name an attempt: status, speed-up, parent, author."""
    attempt = item.attempt
    parent = f"from {_of_run(attempt.parent, attempt.run)}" if attempt.parent else "a fresh start"
    author = " ".join(filter(None, (attempt.completion.policy, attempt.completion.policy_version)))
    head = Text.assemble((f"{attempt.run}  {item.name}", "bold"), "  ", coloured(item.status), "  ")
    head.append(interval(item.speedup), style="bold")
    return head.append(f"\nturn {attempt.turn}, answer {attempt.index}, {parent}; by {legible(author)}")


def _of_run(key: str, run: str) -> str:
    return short_key(key) if key.startswith(f"{run}/") else key


# -- prompt ------------------------------------------------------------------------------------------------------------


def _asked(seen: Observation, said: Completion) -> list[RenderableType]:
    problem, rules, left = seen.problem, seen.rules, seen.budget
    amounts = {"turns": left.turns, "seconds": left.seconds, "tokens": left.tokens, "cost": left.cost}
    budget = ", ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount is not None)
    library = "allowed" if rules.allow_library else "not allowed"
    head = (
        f"problem {problem.name} on {problem.device}; target {rules.target}, precision {rules.precision}, "
        f"library calls {library}\nseed {seen.seed}; left: {budget or 'no limit'}"
    )
    parts: list[RenderableType] = [_prose(head)]
    if seen.tried:
        parts.append(_tried(seen.tried))
    parts += [_prose(f"recalled ({lesson.kind}): {lesson.why}") for lesson in seen.recalled]
    for message in said.messages:
        parts += [Text(f"{legible(message.role)}:", style="bold"), _prose(message.content)]
    return parts


def _tried(items: Sequence[Tried]) -> Table:
    shown = table("shown", "as", "status", "speed-up", "plan")
    for one in items:
        status = one.status.value if one.status else "not measured"
        row = (short_key(one.attempt), one.role.value, coloured(status), Text(interval(one.speedup)))
        shown.add_row(*row, Text(in_a_line(without_notes(one.plan))))
    return shown


# -- code --------------------------------------------------------------------------------------------------------------


def _code(item: StoredAttempt, parent: StoredAttempt | None, changes: bool) -> list[RenderableType]:
    source = item.attempt.source
    if source is None:
        return [_heading("code"), Text("(the answer holds no code)"), *_raw_answer(item)]
    before = parent.attempt.source if parent is not None else None
    if changes and parent is not None and before is not None:
        return [_heading(f"code, changes from {parent.name}"), diff_text(before, source, (parent.name, item.name))]
    whole = Syntax(
        legible(source), "python", theme=THEME, background_color="default", line_numbers=True, word_wrap=True
    )
    parts: list[RenderableType] = [_heading("code"), whole]
    if parent is not None and before is not None:
        parts += [_heading(f"changes from {parent.name}"), diff_text(before, source, (parent.name, item.name))]
    return parts


def _raw_answer(item: StoredAttempt) -> list[RenderableType]:
    return [_prose(item.attempt.completion.whole)] if item.attempt.completion.whole else []


def _heading(text: str) -> Rule:
    return Rule(text, align="left", style="dim")


def _prose(text: str) -> Text:
    return Text(legible(text))


# -- verdict -----------------------------------------------------------------------------------------------------------


def verdict_page(grading: Grading) -> Iterator[RenderableType]:
    """Draw one grading: a verdict, or why there is none."""
    machine = grading.machine
    where = ", ".join(filter(None, (machine.gpu, machine.driver and f"driver {machine.driver}", machine.commit[:12])))
    if grading.failure is not None:
        yield Text.assemble(("not measured", "magenta"), f" ({grading.failure.kind})")
        yield _prose("\n".join(filter(None, (grading.failure.what, grading.failure.where, grading.failure.remedy))))
    if grading.evaluation is not None:
        yield from evaluation_page(grading.evaluation)
    yield Text(f"grader {grading.grader}" + (f"; {where}" if where else ""), style="dim")


def evaluation_page(verdict: Evaluation) -> Iterator[RenderableType]:
    """Draw an evaluation: verdict, cases, resources, timings and environment."""
    finding = f" ({verdict.finding})" if verdict.finding else ""
    yield coloured(verdict.status.value).append(finding, style="")
    if verdict.message:
        yield _prose(verdict.message)
    for evidence in verdict.evidence:
        yield _prose(f"{evidence.finding}: {evidence.detail}")
    if verdict.accuracy:
        yield _cases(verdict)
    if verdict.resources:
        yield _resources(verdict)
    yield from _timings(verdict)
    for note in (*(verdict.diagnosis.notes if verdict.diagnosis else ()), *verdict.notes):
        yield _prose(f"note: {note}")
    place = verdict.environment
    versions = f"python {place.python}, torch {place.torch}, triton {place.triton}"
    sandbox = ", ".join(place.sandbox) or "none"
    yield Text(legible(f"{place.mode} on {place.device}; {versions}; sandbox: {sandbox}"), style="dim")


def _cases(verdict: Evaluation) -> Table:
    """Make a table of the cases nearest to their limits."""
    ranked = sorted(verdict.accuracy, key=lambda case: case.error / case.limit if case.limit else case.error)
    figures = ("error", "allowed", "reference's")
    shown = table("case", "output", "measure", *figures, right=figures)
    for case in reversed(ranked[-CASES_SHOWN:]):
        name = legible(f"{case.variant} / {case.distribution}")
        cells = (f"{figure:.2g}" for figure in (case.error, case.limit, case.original_error))
        row = (Text(name), Text(legible(case.output)), Text(case.metric), *map(Text, cells))
        shown.add_row(*row, style="" if case.ok else "red")
    if hidden := len(ranked) - CASES_SHOWN:
        shown.caption = f"and {hidden} further from their limits" if hidden > 0 else None
    return shown


def _resources(verdict: Evaluation) -> Table:
    shown = table("kernel", "target", "warps", "stages", "registers", "spills", "shared", right=("registers", "spills"))
    for kernel in verdict.resources:
        name = legible(f"{kernel.kernel} {kernel.constants}".strip())
        figures = (kernel.num_warps, kernel.num_stages, kernel.registers, kernel.spill_bytes, kernel.shared_bytes)
        cells = ("" if figure is None else f"{figure:,}" for figure in figures)
        shown.add_row(Text(name), Text(kernel.target), *map(Text, cells))
    return shown


def _timings(verdict: Evaluation) -> Iterator[RenderableType]:
    if verdict.timings:
        several = any(one.input_set for one in verdict.timings)
        shown = table(
            *(("inputs",) * several),
            "time",
            "against",
            "this, ms",
            "reference, ms",
            "speed-up",
            "pairs",
            "L2",
            "method",
        )
        for one in verdict.timings:
            spans = (interval(one.candidate_ms, "", 4), interval(one.baseline_ms, "", 4), interval(one.speedup))
            rest = (str(one.pairs), "cold" if one.cold_l2 else "warm", legible(one.method))
            where = (Text(legible(one.input_set or "all sets")),) * several
            what = Text(KINDS_OF_TIME[one.kind]), Text(legible(one.baseline))
            shown.add_row(*where, *what, *map(Text, (*spans, *rest)))
        yield shown
    elif verdict.status is Status.PASSED:
        yield Text("speed: not measured")
    if verdict.stages:
        spent = ", ".join(f"{stage.stage} {stage.wall_ms:.0f} ms" for stage in verdict.stages)
        yield Text(f"took {sum(stage.wall_ms for stage in verdict.stages) / 1e3:.2f} s: {spent}", style="dim")
