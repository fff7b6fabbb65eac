"""Compares two attempts or two runs: their results side by side, then the difference of their code or progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from triton_agent.memory.listing import HeaderFilter, RunFilter, RunSummary
from triton_agent.memory.records import run_of
from triton_agent.memory.store import Store
from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli.pace import in_words
from triton_agent.runs.cli.store_option import load_attempt, run_id
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report import attempts, charts, lines
from triton_agent.runs.report.evidence import method, reasons, times
from triton_agent.runs.report.markup import Html, facts, pictures, table, tag
from triton_agent.runs.report.page import headline
from triton_agent.runs.report.words import bytes_said, end_said, interval, plain, traffic_said
from triton_agent.runs.serve.frame import attempt_link, link, page, run_link
from triton_agent.tools.errors import UsageError

DRAWN = 1000
"""Maximum number of attempts of a run for which the progress is drawn."""


def render_comparison(store: Store, query: Mapping[str, str], *, jobs: bool) -> str:
    """Return the page; `a` and `b` in the query are two attempts (`RUN/2.1`, `RUN/best`) or two runs."""
    names = (query.get("a", "").strip(), query.get("b", "").strip())
    if not all(names):
        raise UsageError("a comparison needs two attempts or two runs", remedy="name both: RUN/TURN.ANSWER, or RUN")
    if len({"/" in name for name in names}) > 1:
        raise UsageError("an attempt and a run cannot be compared", remedy="name two attempts, or two runs")
    if "/" in names[0]:
        return _attempts(load_attempt(store, names[0]), load_attempt(store, names[1]), jobs=jobs)
    ids = [run_id(store, name) for name in names]
    return _runs(store, [store.runs(RunFilter(id=id, limit=1))[0] for id in ids], jobs=jobs)


def swap(a: str, b: str) -> Html:
    return tag("p", tag("a", "Swap the sides", href=link("/compare", a=b, b=a)))


# -- attempts ----------------------------------------------------------------------------------------------------------


def _attempts(one: StoredAttempt, other: StoredAttempt, *, jobs: bool) -> str:
    pair = (one, other)
    problems = {item.attempt.observation.problem.digest for item in pair}
    parts: list[object] = [swap(one.key, other.key)]
    if len(problems) > 1:
        parts.append(tag("p", "They answer different problems.", class_="because"))
    parts.append(_figures(one, other))
    parts.append(tag("div", *(tag("div", *_side(item)) for item in pair), class_="sides"))
    sources = [without_notes(item.attempt.source or "") for item in pair]
    changed = attempts.difference(sources[0], sources[1], f"attempt {one.name}", opened=True)
    sections: list[tuple[str, str, Sequence[object]]] = [("results", "Results", parts), ("code", "Code", [changed])]
    same = run_of(one.key) == run_of(other.key)
    title = f"Attempts {one.name} and {other.name}" if same else f"{one.key} and {other.key}"
    subtitle = f"Side by side, both of run {run_of(one.key)}" if same else "Two attempts side by side"
    return page(title, subtitle, sections, jobs=jobs)


def _figures(one: StoredAttempt, other: StoredAttempt) -> Html:
    def row(name: str, *cells: object) -> tuple[object, ...]:
        return (name, *cells)

    pair = (one, other)
    rows = [
        row("problem", *(item.attempt.observation.problem.name for item in pair)),
        row("author", *(item.attempt.completion.policy for item in pair)),
        row("speed-up, device time", *(interval(item.speedup) or "not measured" for item in pair)),
        row("registers, most of a kernel", *(_most(item, "registers") for item in pair)),
        row("spilled bytes", *(_most(item, "spill_bytes") for item in pair)),
        row("shared bytes", *(_most(item, "shared_bytes") for item in pair)),
        row("memory of a call", *(_memory(item) for item in pair)),
        row("bytes moved over the fewest", *(_traffic(item) for item in pair)),
    ]
    known = [cells for cells in rows if any(cell not in ("", None) for cell in cells[1:])]
    links = [tag("a", item.key, href=attempt_link(item.key)) for item in pair]
    return table(("", *links), known, caption="Figures of both")


def _side(item: StoredAttempt) -> Iterator[object]:
    yield tag("h3", item.name, lines.status_mark(item.header))
    yield headline(item.evaluation)
    plan = without_notes(item.attempt.plan).strip()
    if plan:
        yield tag("p", plan, class_="said")
    if item.evaluation is not None:
        yield from reasons(item.evaluation)
        yield times(item.evaluation)
        yield from method(item.evaluation)


def _most(item: StoredAttempt, name: str) -> str:
    resources = item.evaluation.resources if item.evaluation is not None else ()
    known = [figure for kernel in resources if (figure := getattr(kernel, name)) is not None]
    return f"{max(known):,}" if known else ""


def _memory(item: StoredAttempt) -> str:
    diagnosis = item.evaluation.diagnosis if item.evaluation is not None else None
    return bytes_said(diagnosis.peak_bytes) if diagnosis is not None else ""


def _traffic(item: StoredAttempt) -> str:
    return traffic_said(item.evaluation.diagnosis if item.evaluation is not None else None)


# -- runs --------------------------------------------------------------------------------------------------------------


def _runs(store: Store, pair: Sequence[RunSummary], *, jobs: bool) -> str:
    one, other = pair
    parts: list[object] = [swap(one.id, other.id)]
    if one.problem_digest != other.problem_digest:
        parts.append(tag("p", "They are of different problems.", class_="because"))
    timed = HeaderFilter(timed=True, best_first=True, limit=DRAWN)
    series = {run.id: lines.marks(store.headers(run.id, timed), run.best, attempt_link) for run in pair}
    if any(series.values()):
        drawn = charts.progress({name: marks for name, marks in series.items() if marks})
        parts.append(pictures([("The best so far over the turns", drawn)]))
    rows: list[tuple[object, ...]] = [
        ("problem", one.problem, other.problem),
        ("policy", one.policy, other.policy),
        ("device", one.device, other.device),
        ("best speed-up", *(interval(run.speedup) or "not measured" for run in pair)),
        ("passed", *(f"{run.passed:,} of {run.attempts:,}" for run in pair)),
        ("turns", *(f"{run.turns:,}" for run in pair)),
        ("tokens", *(f"{run.tokens:,}" for run in pair)),
        ("ended because", *(end_said(run.stop_reason) or plain(run.state.value) for run in pair)),
        ("took", *(in_words((run.last_at - run.started_at).total_seconds()) for run in pair)),
    ]
    heads = ("", *(tag("a", run.id, href=run_link(run.id)) for run in pair))
    parts.append(table(heads, rows, caption="Figures of both"))
    if one.best and other.best:
        parts.append(tag("p", tag("a", "Compare their best attempts", href=link("/compare", a=one.best, b=other.best))))
    parts.append(facts([("newest records", ", ".join(f"{run.last_at:%Y-%m-%d %H:%M} UTC" for run in pair))]))
    return page(f"{one.id} and {other.id}", "Two runs side by side", [("results", "Results", parts)], jobs=jobs)
