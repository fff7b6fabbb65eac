"""Draws the comparison of two benchmark records as one HTML page: changes, each problem's ratio, and differences.

render_comparison(comparison, before, after) -> HTML
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_agent import __version__
from triton_agent.runs.bench.compare.compare import Comparison, Pair, Shift
from triton_agent.runs.bench.compare.screen import chance, problems_said, solved_said, speed_said, what_happened
from triton_agent.runs.bench.page import drawings
from triton_agent.runs.bench.page.page import LOOKS
from triton_agent.runs.bench.page.problems import BASELINES, TIMES, anchor
from triton_agent.runs.bench.page.sortable import ONLY_THIS_SCRIPT, Cell, Line, sortable, sorting_script
from triton_agent.runs.bench.rows import Record
from triton_agent.runs.history.attempt_page import interval
from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, facts, table, tag
from triton_agent.tools.results import Interval

OUTCOMES = {True: "solved", False: "not solved", None: "not known"}


def render_comparison(found: Comparison, before: Record, after: Record, *, above: object = None) -> str:
    """Return the page, as text in UTF-8; it begins with what is `above`."""
    sections: list[tuple[str, str, Sequence[object]]] = [
        ("summary", "Summary", _summary(found, before, after)),
        ("speed", "Speed", _speed(found)),
        ("problems", "Problems", [_problems(found)]),
        ("differences", "What is not the same", [_differences(found)]),
    ]
    heading = f"{found.before} and {found.after}"
    said = f"{after.head.title}, compared by triton-agent {__version__}"
    return document(
        f"Comparison: {heading}",
        heading,
        said,
        sections,
        style=LOOKS,
        policy=ONLY_THIS_SCRIPT,
        above=above,
        after=sorting_script(),
    )


def _summary(found: Comparison, before: Record, after: Record) -> list[object]:
    parts: list[object] = []
    if found.deciding:
        names = ", ".join(item.what for item in found.deciding)
        parts.append(tag("p", f"These figures mean different things: not the same are {names}.", class_="lead"))
    parts += [tag("p", solved_said(found)), tag("p", speed_said(found))]
    if found.timed:
        parts.append(tag("p", problems_said(found)))
    sides = (("before", found.before, before), ("after", found.after, after))
    rows = [
        (name, folder, record.head.settings.get("policy", ""), f"{len(record.rows)} of {len(record.head.labels)}")
        for name, folder, record in sides
    ]
    return [*parts, table(("", "record", "policy", "problems run"), rows, right=(3,), caption="What is compared")]


def _speed(found: Comparison) -> list[object]:
    if not found.speeds:
        return [tag("p", "No problem was timed on both sides.")]
    rows = [
        (
            BASELINES[item.against],
            TIMES[item.kind],
            *_moved(item.solved),
            *_moved(item.everything),
            interval(item.baseline.ratio) if item.baseline else "",
        )
        for item in found.speeds
    ]
    headings = ("against", "time", *("solved on both", "of", "chance"), *("all, unsolved as 1", "of", "chance"))
    caption = (
        "Speed-up after over before: geometric mean with its interval, and the chance of such a move by noise alone"
    )
    drawn = _drawn(found)
    return [table((*headings, "the baseline itself"), rows, right=range(2, 9), caption=caption), *drawn]


def _moved(moved: Shift | None) -> tuple[str, str, str]:
    return (interval(moved.ratio), str(moved.of), chance(moved.chance)) if moved else ("", "", "")


def _drawn(found: Comparison) -> Iterator[object]:
    points = [
        drawings.Point(label=pair.label, href=f"#{anchor(pair.label)}", value=pair.ratio, marked=pair.changed)
        for pair in found.pairs
        if pair.ratio
    ]
    if points:
        unit = "times as fast as before"
        yield tag("h3", f"Every problem timed on both sides, against {BASELINES[found.against]}, {TIMES[found.kind]}")
        yield drawings.ladder(points, "Change of every problem", unit)
        yield tag("p", "A disc with a halo moved beyond noise, all problems taken together.", class_="soft")


def _problems(found: Comparison) -> Html:
    lines = [Line(anchor=anchor(pair.label), cells=list(_cells(found, pair))) for pair in found.pairs]
    headings = ("problem", "change", "before", "after", "speed-up before", "after", "after over before")
    caption = f"All problems on both sides; speed-ups over {BASELINES[found.against]}, {TIMES[found.kind]}"
    return sortable(headings, lines, right=(4, 5, 6), caption=caption)


def _cells(found: Comparison, pair: Pair) -> Iterator[Cell]:
    happened = what_happened(found, pair)
    yield Cell(shown=pair.label, key=pair.label)
    yield Cell(shown=happened, key=happened)
    for solved in (pair.solved_before, pair.solved_after):
        yield Cell(shown=OUTCOMES[solved], key=OUTCOMES[solved])
    for value in (pair.speedup_before, pair.speedup_after, pair.ratio):
        yield _speedup(value)


def _speedup(value: Interval | None) -> Cell:
    return Cell(shown=interval(value), key=f"{value.median:.6g}") if value else Cell(shown="")


def _differences(found: Comparison) -> Html:
    if not found.differences and not found.only_before and not found.only_after:
        return tag("p", "Nothing but the time.")
    rows = [
        (item.what, item.before, item.after, "figures are not comparable because of it" if item.deciding else "")
        for item in found.differences
    ]
    sides = [("problems before only", found.only_before), ("problems after only", found.only_after)]
    return tag(
        "div",
        table(("what", "before", "after", ""), rows, caption="Differences"),
        facts((name, ", ".join(labels)) for name, labels in sides),
    )
