"""The list of runs: search and filters, a page at a time, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from triton_agent.memory.listing import RunFilter, RunState, RunSummary
from triton_agent.memory.store import Store
from triton_agent.runs.report.markup import Html, join, table, tag
from triton_agent.runs.report.words import counted, end_said, interval
from triton_agent.runs.serve.frame import link, page, run_link

ROWS = 50
"""Runs on a page."""
STATES = {"": "any", "open": "open", "ended": "ended"}
FILTERS = ("q", "policy", "state")


def render_runs(store: Store, query: Mapping[str, str], *, jobs: bool) -> str:
    """Return the page. `before` in the query is the last run of the page before."""
    asked = {name: query.get(name, "") for name in FILTERS}
    state = RunState(asked["state"]) if asked["state"] in list(RunState) else None
    wanted = RunFilter(
        search=asked["q"].strip() or None,
        policy=asked["policy"] or None,
        state=state,
        before=query.get("before") or None,
        limit=ROWS + 1,
    )
    found = store.runs(wanted)
    shown, more = found[:ROWS], len(found) > ROWS
    parts: list[object] = [_filters(asked, store.policies())]
    if shown:
        parts += [_table(shown), _pages(asked, query, shown[-1].id if more else None)]
    elif any(asked.values()) or query.get("before"):
        parts.append(tag("p", "No run matches. ", tag("a", "Show all runs", href="/")))
    else:
        parts.append(tag("p", "There are no runs yet. Start one: ", tag("code", "triton-agent optimize model.py")))
    live = any(run.state is RunState.OPEN for run in shown) or not query.get("before")
    return page("Runs", store.where, [("runs", "Runs", parts)], live=live, jobs=jobs)


def _filters(asked: Mapping[str, str], policies: Sequence[str]) -> Html:
    states = [_option(value, name, asked["state"]) for value, name in STATES.items()]
    authors = [_option("", "any", asked["policy"]), *(_option(name, name, asked["policy"]) for name in policies)]
    return tag(
        "form",
        tag("label", "problem or run", tag("input", type="search", name="q", value=asked["q"], placeholder="softmax")),
        tag("label", "policy", tag("select", *authors, name="policy")),
        tag("label", "state", tag("select", *states, name="state")),
        tag("button", "Filter", type="submit"),
        class_="filters",
        action="/",
        role="search",
    )


def _option(value: str, name: str, chosen: str) -> Html:
    return tag("option", name, value=value, selected="selected" if value == chosen else None)


def _table(runs: Sequence[RunSummary]) -> Html:
    rows = [
        (
            tag("a", run.problem, href=run_link(run.id)),
            tag("strong", interval(run.speedup)) if run.speedup else ("correct" if run.best else ""),
            f"{run.passed:,} of {run.attempts:,}",
            state_mark(run),
            join([tag("code", run.id), tag("br"), tag("small", f"{run.started_at:%Y-%m-%d %H:%M} UTC")]),
            run.policy,
            run.device,
        )
        for run in runs
    ]
    headings = ("problem", "best speed-up", "passed", "state", "run", "policy", "device")
    return table(headings, rows, right=(1, 2), caption=f"{counted(len(runs), 'run')}, newest first", stacks=(2,))


def state_mark(run: RunSummary) -> Html:
    if run.state is RunState.OPEN:
        return tag("span", "open", class_="live", title="It is running, or was stopped and can be resumed.")
    return tag("span", end_said(run.stop_reason))


def _pages(asked: Mapping[str, str], query: Mapping[str, str], last: str | None) -> Html:
    def links() -> Iterator[Html]:
        if query.get("before"):
            yield tag("a", "Newest", href=link("/", **asked))
        if last is not None:
            yield tag("a", "Older", href=link("/", **asked, before=last), rel="next")

    return tag("div", *links(), class_="pages")
