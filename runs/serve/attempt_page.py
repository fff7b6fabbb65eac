"""An attempt: verdict in words and pictures, code beside its parent's, the best's and the reference's, the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from triton_agent.memory.listing import AttemptHeader, HeaderFilter, RunFilter, RunSummary
from triton_agent.memory.records import run_of
from triton_agent.memory.store import Store
from triton_agent.policy.answer import without_notes
from triton_agent.runs.cli.store_option import load_attempt
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report import attempts, lines
from triton_agent.runs.report.evidence import reasons
from triton_agent.runs.report.markup import Html, facts, join, tag
from triton_agent.runs.report.page import floor, headline, roofline
from triton_agent.runs.report.view import main_timing
from triton_agent.runs.report.words import plain
from triton_agent.runs.serve.frame import attempt_link, link, page, run_link
from triton_agent.tools.errors import UsageError

CHILDREN = 50


class Offer(Protocol):
    """Returns buttons for the actions on an attempt."""

    def __call__(self, run: RunSummary, name: str, /, *, judged: bool) -> Html: ...


def render_attempt(store: Store, query: Mapping[str, str], actions: Offer, *, jobs: bool) -> str:
    """Return the page of the attempt `key` in the query."""
    item = load_attempt(store, query.get("key", ""))
    (run,) = store.runs(RunFilter(id=item.attempt.run, limit=1))
    parent, best = source_of(store, item.attempt.parent), source_of(store, run.best)
    others: list[tuple[str, str | None]] = []
    if parent is not None:
        others.append((f"its parent {name_beside(parent, item)}", parent.attempt.source))
    if best is not None and best.key not in (item.key, item.attempt.parent):
        others.append((f"the best, {name_beside(best, item)}", best.attempt.source))
    others.append(("the reference", item.attempt.observation.problem.source))
    offered = actions(run, item.name, judged=bool(item.gradings))
    seen, said = item.attempt.observation, item.attempt.completion
    sections: list[tuple[str, str, Sequence[object]]] = [
        ("verdict", "Verdict", [_steps(store, item), *_head(store, item, best=run.best == item.key), *_verdict(item)]),
        ("code", "Code", list(attempts.code(item, others, whole_open=parent is None))),
        ("asked", "What the author was shown", list(attempts.asked(seen, said, item.key, attempt_link))),
        ("answered", "What it answered", list(attempts.answered(said))),
        ("more", "More", [_compare(item, parent, run.best), offered]),
    ]
    subtitle = join(["Attempt of ", tag("a", f"run {item.attempt.run}", href=run_link(item.attempt.run))])
    live = not item.gradings
    return page(f"{seen.problem.name}, attempt {item.name}", subtitle, sections, live=live, jobs=jobs)


def _head(store: Store, item: StoredAttempt, *, best: bool) -> Iterator[object]:
    yield tag("p", lines.status_mark(item.header), " ★ the best of its run" if best else None, class_="lead")
    yield headline(item.evaluation)
    if item.evaluation is not None:
        yield from reasons(item.evaluation)
    plan = without_notes(item.attempt.plan).strip()
    if plan:
        yield tag("p", plan, class_="said")
    parent = item.attempt.parent
    children = store.headers(item.attempt.run, HeaderFilter(children_of=item.key, limit=CHILDREN))
    yield facts(
        [
            ("from", lines.link(parent, item.key, attempt_link) if parent else "a fresh start"),
            ("led to", join([_child(child, item.key) for child in children], ", ") if children else None),
            ("written", f"{item.attempt.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ]
    )


def _steps(store: Store, item: StoredAttempt) -> Html:
    """Return links to the attempts before and after this one: the run, replayed."""
    before = store.headers(item.attempt.run, HeaderFilter(before=item.key, limit=1))
    after = store.headers(item.attempt.run, HeaderFilter(after=item.key, limit=1))
    shown = [
        *(tag("a", f"← {lines.short(line.key)}", href=attempt_link(line.key), rel="prev") for line in before),
        *(tag("a", f"{lines.short(line.key)} →", href=attempt_link(line.key), rel="next") for line in after),
    ]
    return tag("div", *shown, class_="pages") if shown else Html("")


def _verdict(item: StoredAttempt) -> Iterator[object]:
    """Yield the evidence, with the roofline and the floor of what was timed."""
    problem, measured = item.attempt.observation.problem, main_timing(item.evaluation, "device")
    if measured is None:
        yield from attempts.verdict(item, fold=False)
    else:
        drawn = roofline(problem, [(item.name, measured, True)], item.evaluation)
        yield from attempts.verdict(item, ("Roofline", drawn), fold=False)
        yield floor(problem, item.evaluation)


def _child(child: AttemptHeader, own: str) -> Html:
    return join([lines.link(child.key, own, attempt_link), f" ({plain(child.state)})" if not child.passed else None])


def source_of(store: Store, key: str | None) -> StoredAttempt | None:
    """Return an attempt if it is in this store: a parent may be in another."""
    if key is None:
        return None
    try:
        return load_attempt(store, key)
    except UsageError:
        return None


def name_beside(other: StoredAttempt, item: StoredAttempt) -> str:
    return other.name if run_of(other.key) == run_of(item.key) else other.key


def _compare(item: StoredAttempt, parent: StoredAttempt | None, best: str | None) -> Html:
    """Return a form for comparing this attempt with any other."""
    usual = parent.key if parent is not None else best or ""
    return tag(
        "form",
        tag("input", type="hidden", name="b", value=item.key),
        tag("label", "compare with attempt", tag("input", name="a", value=usual, size="36")),
        tag("button", "Compare", type="submit"),
        class_="filters",
        action=link("/compare"),
    )
