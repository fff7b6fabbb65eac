"""The page of a run: its state, speed-up over the turns, tree, and attempts a page at a time.

Everything except the best attempt's verdict is read from headers, so that a run of many thousand attempts is shown as
quickly as a small one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from triton_agent.memory.listing import AttemptHeader, HeaderFilter, RunFilter, RunState, RunSummary
from triton_agent.memory.observation import ProblemView
from triton_agent.memory.store import Store
from triton_agent.runs.cli.store_option import load_attempt, run_id
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report import charts, evidence, lines
from triton_agent.runs.report.markup import Html, facts, figures, folded, join, pictures, tag
from triton_agent.runs.report.page import headline, problem_facts, roofline, tree
from triton_agent.runs.report.view import main_timing
from triton_agent.runs.report.words import counted, end_said, interval, plain, settings_said
from triton_agent.runs.serve.frame import attempt_link, link, page, run_link
from triton_agent.tools.results import Status

DRAWN = 250
"""Most attempts in the chart of speeds; of more attempts the best are drawn."""
IN_TREE = 240
"""Most attempts in a tree that can be read."""
ROWS = 60
FORKS = 20
IN_LINEAGE = 40
"""Most ancestors of the best attempt that are drawn if the whole tree is too large."""


def render_run(store: Store, query: Mapping[str, str], actions: Html, *, jobs: bool) -> str:
    """Return the page; `id` in the query may be the beginning of an id, or `last`."""
    id = run_id(store, query.get("id", "last"))
    (summary,) = store.runs(RunFilter(id=id, limit=1))
    run = store.run(id)
    best = load_attempt(store, summary.best) if summary.best else None
    sections: list[tuple[str, str, Sequence[object]]] = [
        ("summary", "Summary", [*_summary(store, summary, run.problem, best), actions]),
    ]
    if best is not None and best.evaluation is not None:
        more = tag("p", tag("a", f"All of attempt {best.name}", href=attempt_link(best.key)))
        sections.append(("best", "Best attempt", [*evidence.evidence(best.evaluation), more]))
    sections.append(("attempts", "Attempts", list(_attempts(store, summary, query))))
    sections.append(("problem", "Problem", problem_facts(run)))
    others = tag(
        "form",
        tag("input", type="hidden", name="a", value=run.id),
        tag("label", "compare with run", tag("input", name="b", value="last", size="28")),
        tag("button", "Compare", type="submit"),
        class_="filters",
        action="/compare",
    )
    sections.append(
        (
            "settings",
            "Settings and comparison",
            [folded("Settings of the run", facts(settings_said(run.settings))), others],
        )
    )
    subtitle = f"Run {run.id} by {run.policy} on {summary.device}, {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    return page(run.problem.name, subtitle, sections, live=summary.state is RunState.OPEN, jobs=jobs)


def _summary(store: Store, run: RunSummary, problem: ProblemView, best: StoredAttempt | None) -> Iterator[object]:
    yield tag("p", _lead(run), class_="lead")
    yield headline(best.evaluation if best else None)
    yield figures(
        [
            (f"{run.attempts:,}", "attempts", f"in {counted(run.turns, 'turn')}"),
            (f"{run.passed:,}", "passed", f"of {run.judged:,} judged"),
            *([(f"{run.tokens:,}", "tokens written", "")] if run.tokens else []),
        ]
    )
    timed = store.headers(run.id, HeaderFilter(timed=True, limit=DRAWN + 1))
    if len(timed) > DRAWN:
        timed = store.headers(run.id, HeaderFilter(timed=True, best_first=True, limit=DRAWN))
        yield tag("p", f"The {DRAWN:,} best are drawn.", class_="soft")
    turns = charts.speed_over_turns(lines.marks(timed, run.best, attempt_link)) if timed else ""
    yield pictures([("Speed-up over the turns", turns), ("Roofline", _roofline(problem, best))])
    forks = store.runs(RunFilter(continues=run.id, problem=run.problem_digest, limit=FORKS))
    origin = run.forked_from
    yield facts(
        [
            ("best attempt", lines.link(run.best, run.best, attempt_link) if run.best else "none yet"),
            ("ended because", end_said(run.stop_reason)),
            ("replay", _replay(store, run)),
            ("newest record", f"{run.last_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("forked from", tag("a", origin, href=attempt_link(origin)) if origin else None),
            ("forks", join([tag("a", fork.id, href=run_link(fork.id)) for fork in forks], ", ") if forks else None),
        ]
    )


def _roofline(problem: ProblemView, best: StoredAttempt | None) -> Html:
    measured = main_timing(best.evaluation, "device") if best else None
    if best is None or measured is None:
        return Html("")
    return roofline(problem, [(best.name, measured, True)], best.evaluation)


def _replay(store: Store, run: RunSummary) -> Html | None:
    first = store.headers(run.id, HeaderFilter(limit=1))
    return tag("a", "step by step, from the first attempt", href=attempt_link(first[0].key)) if first else None


def _lead(run: RunSummary) -> str:
    so_far = " so far" if run.state is RunState.OPEN else ""
    if run.best is None:
        return "No correct kernel so far." if so_far else "No correct kernel was found. The reference stays."
    if run.speedup is None:
        return f"The best kernel{so_far} is correct. Its speed was not measured."
    return f"The best kernel{so_far} is correct and {interval(run.speedup)} as fast as the reference in device time."


def _attempts(store: Store, run: RunSummary, query: Mapping[str, str]) -> Iterator[object]:
    if run.attempts == 0:
        yield tag("p", "None yet.")
        return
    if run.attempts <= IN_TREE:
        yield from tree(lines.marks(store.headers(run.id), run.best, attempt_link))
    elif run.best is not None:
        path = _lineage(store, run.best)
        yield tag("p", f"How the best came about: {len(path)} of {run.attempts:,} attempts.", class_="soft")
        yield charts.tree(lines.marks(path, run.best, attempt_link))
    status = query.get("status", "")
    wanted = HeaderFilter(
        status=Status(status) if status in list(Status) else None,
        best_first=query.get("order") == "best",
        after=query.get("after") or None,
        limit=ROWS + 1,
    )
    found = store.headers(run.id, wanted)
    yield _filters(run.id, status, query.get("order", ""))
    if not found:
        yield tag("p", "No attempt matches.")
        return
    shown = found[:ROWS]
    yield lines.overview(shown, run.best, attempt_link, caption=f"{len(shown)} of {run.attempts:,} attempts")
    if len(found) > ROWS and not wanted.best_first:
        later = link("/run", id=run.id, status=status, after=shown[-1].key) + "#attempts"
        yield tag("div", tag("a", "Later attempts", href=later, rel="next"), class_="pages")


def _lineage(store: Store, key: str) -> list[AttemptHeader]:
    """Return the attempt and its nearest ancestors in the same run, oldest first."""
    path: list[AttemptHeader] = []
    above: str | None = key
    run = key.rpartition("/")[0]
    while above is not None and above.rpartition("/")[0] == run and len(path) < IN_LINEAGE:
        header = store.header(above)
        if header is None or header in path:
            break
        path.append(header)
        above = header.parent
    return path[::-1]


def _filters(run: str, status: str, order: str) -> Html:
    states = [("", "any"), *((item.value, plain(item.value)) for item in Status)]
    orders = [("", "turn"), ("best", "best first")]
    return tag(
        "form",
        tag("input", type="hidden", name="id", value=run),
        tag("label", "status", tag("select", *(_option(*item, status) for item in states), name="status")),
        tag("label", "order", tag("select", *(_option(*item, order) for item in orders), name="order")),
        tag("button", "Filter", type="submit"),
        class_="filters",
        action="/run#attempts",
    )


def _option(value: str, name: str, chosen: str) -> Html:
    return tag("option", name, value=value, selected="selected" if value == chosen else None)
