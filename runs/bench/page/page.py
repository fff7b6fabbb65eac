"""Lays out a benchmark record as one self-contained HTML page: figures of all and of each group, then every problem.

    render_page(record, name) -> HTML

Figures come from the record only; a figure that it does not have is shown as not measured. `docs/benchmarks.md`
explains each column and what it can be compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent import __version__
from triton_agent.runs.bench.figures import Figure, Summary, summaries
from triton_agent.runs.bench.page import drawings
from triton_agent.runs.bench.page.problems import BASELINES, TIMES, failures, listed, problems
from triton_agent.runs.bench.page.sortable import ONLY_THIS_SCRIPT, sorting_script
from triton_agent.runs.bench.page.sortable import STYLE as SORTABLE_STYLE
from triton_agent.runs.bench.page.speed import percent, public, speed
from triton_agent.runs.bench.rows import Record, Where
from triton_agent.runs.history.attempt_page import interval
from triton_agent.runs.report.document import document
from triton_agent.runs.report.markup import Html, facts, folded, join, table, tag
from triton_agent.runs.report.style import STYLE

WIDER = "body { max-width: 80rem; }"
"""Wider than a run's page, since tables have a column for each figure."""
LOOKS = STYLE + WIDER + drawings.STYLE + SORTABLE_STYLE
BY = {"": "", "group": "group", "dominant": "work", "dtype": "dtype"}


def render_page(record: Record, name: str, *, above: object = None) -> str:
    """Return the page, as text in UTF-8; it begins with what is `above`."""
    found = summaries(record)
    sections: list[tuple[str, str, Sequence[object]]] = [
        ("summary", "Summary", _summary(record, found)),
        ("speed", "Speed", speed(record, found)),
        *public(record),
        ("failures", "Failures", list(failures(record))),
        ("problems", "Problems", [problems(record)]),
        ("environment", "Environment", _environment(record)),
    ]
    title = f"{record.head.title}: {name}"
    said = f"{name}, {record.head.settings.get('policy', '')}, triton-agent {__version__}"
    return document(
        title,
        record.head.title,
        said,
        sections,
        style=LOOKS,
        policy=ONLY_THIS_SCRIPT,
        above=above,
        after=sorting_script(),
    )


# -- summary -----------------------------------------------------------------------------------------------------------


def _summary(record: Record, found: Sequence[Summary]) -> list[object]:
    whole = found[0]
    settings = record.head.settings
    return [
        tag("p", verdict(record, whole), class_="lead"),
        facts(
            [
                ("policy", settings.get("policy")),
                ("mode", settings.get("mode")),
                ("GPU", " and ".join(dict.fromkeys(row.where.gpu or "none" for row in record.rows))),
                ("problems", _counts(whole)),
                ("samples of each", settings.get("samples")),
                ("kernels judged", listed(whole.kernels)),
                ("took", f"{whole.seconds / 3600:.1f} h" if whole.seconds >= 3600 else f"{whole.seconds:.0f} s"),
                ("tokens", f"{whole.tokens:,}" if whole.tokens else ""),
            ]
        ),
        _shares(found),
    ]


def verdict(record: Record, whole: Summary) -> str:
    """Return the sentences that summarise the record."""
    if whole.solved is None:
        return "No problem has been judged."
    done = "" if whole.rows == len(record.head.labels) else f", {whole.rows} of {len(record.head.labels)} run so far"
    said = f"{whole.solved_count} of {whole.judged} problems solved{done}."
    speeds = whole.speed() or next(iter(whole.speeds), None)
    if speeds is None or speeds.geomean_all is None:
        return f"{said} Speed was not measured."
    against = f"{BASELINES[speeds.against]} in {TIMES[speeds.kind]}"
    return f"{said} Against {against}: {interval(speeds.geomean_all.value)} over all of them, unsolved ones as 1."


def _counts(whole: Summary) -> str:
    counts = [
        (whole.asked or whole.rows, "asked for"),
        (whole.judged, "judged"),
        (whole.not_measured, "not measured"),
        (whole.unusable, "cannot be used here"),
        (whole.no_samples, "without a kernel asked for"),
        ((whole.asked or whole.rows) - whole.rows, "not run yet"),
    ]
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def _shares(found: Sequence[Summary]) -> Html:
    # With one sample of each problem pass@1 equals fast_0.
    passes = list(dict.fromkeys(name for item in found for name in item.pass_at)) if len(found[0].pass_at) > 1 else []
    rows = [
        (
            BY[item.by],
            item.name or "not told",
            item.rows if item.asked in (None, item.rows) else f"{item.rows} of {item.asked}",
            item.judged,
            item.solved_count,
            percent(item.solved),
            *(percent(item.pass_at.get(name)) for name in passes),
            percent(item.called),
            percent(item.executed),
            percent(item.hack),
            percent(item.floor),
            _plain(item.memory),
        )
        for item in found
    ]
    headings = (
        "by",
        "",
        "run",
        "judged",
        "solved",
        "fast_0",
        *passes,
        "called",
        "executed",
        "hack",
        "floor",
        "memory",
    )
    caption = "Shares with 95% intervals; floor and memory are medians over what was solved"
    told = [place for place in range(len(headings)) if place < 2 or any(row[place] != "" for row in rows)]
    shown = [[row[place] for place in told] for row in rows]
    return table([headings[place] for place in told], shown, right=range(2, len(told)), caption=caption)


def _plain(figure: Figure | None) -> str:
    return interval(figure.value, "") if figure else ""


# -- environment -------------------------------------------------------------------------------------------------------


def _environment(record: Record) -> list[object]:
    places = list(dict.fromkeys(row.where for row in record.rows))
    return [
        *(join([tag("h3", where.gpu or "no GPU"), _where(where)]) for where in places),
        folded("Settings", facts((name, value) for name, value in sorted(record.head.settings.items()))),
        facts([("problem set", record.head.digest)]),
    ]


def _where(where: Where) -> Html:
    return facts(
        [
            *(("driver", where.driver), ("torch", where.torch), ("triton", where.triton), ("Python", where.python)),
            ("commit", where.commit),
        ]
    )
