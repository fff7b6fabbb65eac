"""Draws the speed of a benchmark: tables and charts, the baselines, and the public benchmark's own check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_agent.runs.bench.figures import Figure, SpeedFigures, Summary
from triton_agent.runs.bench.page import drawings
from triton_agent.runs.bench.page.problems import BASELINES, TIMES, anchor
from triton_agent.runs.bench.public.figures import public_figures
from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record, Sample
from triton_agent.runs.bench.standing import is_solved, speed_of, standing_for
from triton_agent.runs.history.attempt_page import interval
from triton_agent.runs.report.markup import Html, folded, pictures, table, tag
from triton_agent.tools.estimates import share_interval


def speed(record: Record, found: Sequence[Summary]) -> list[object]:
    whole = found[0]
    parts: list[object] = []
    if whole.speeds:
        parts.append(_speeds(found[:1]))
        groups = [item for item in found if item.by == "group"]
        if groups:
            parts.append(folded("The same for each group, in device time", _speeds(groups), class_="paper"))
        parts += _drawn(record, whole.speeds[0])
    else:
        parts.append(tag("p", f"Not measured: {_why_not(record)}."))
    if whole.floor is not None:
        shares = [sample.floor_fraction for sample in _best(record) if sample.floor_fraction is not None]
        parts += [tag("h3", "Nearness to the floor"), drawings.histogram(shares, "Fraction of the floor", "problems")]
        told = "100% is as fast as this GPU's memory and arithmetic allow."
        if whole.copy is not None:
            told += f" Where memory binds, a copy of as many bytes takes {percent(whole.copy)} of a kernel's time."
        parts.append(tag("p", told, class_="soft"))
    if whole.baselines:
        parts += [tag("h3", "The baselines among themselves"), _baselines(whole)]
    return parts


def _why_not(record: Record) -> str:
    if record.rows and all(row.where.device == "cpu" for row in record.rows):
        return "no GPU was used"
    return "nothing that passed was timed"


def _speeds(found: Sequence[Summary]) -> Html:
    names = list(dict.fromkeys(name for item in found for speed in item.speeds for name in speed.fast))
    rows = [
        (
            item.name or "not told",
            BASELINES[speed.against],
            TIMES[speed.kind],
            f"{speed.timed}" + (f" ({speed.untimed} without)" if speed.untimed else ""),
            *(percent(speed.fast.get(name)) for name in names),
            percent(speed.surely_fast.get("fast_1")),
            *(
                interval(figure.value) if figure else ""
                for figure in (speed.geomean_all, speed.geomean_solved, speed.mean_solved)
            ),
        )
        for item in found
        for speed in item.speeds
        if not item.by or speed.kind is Kind.DEVICE
    ]
    headings = (
        "",
        "against",
        "time",
        "timed",
        *names,
        "surely over 1",
        "geomean of all",
        "of solved",
        "plain mean of solved",
    )
    caption = "Shares and geometric means of all judged problems, unsolved ones as 1; 95% intervals"
    return table(headings, rows, right=range(3, len(headings)), caption=caption)


def _drawn(record: Record, first: SpeedFigures) -> list[object]:
    """Draw every problem against the first baseline, and the shares against each baseline."""
    judged = [row for row in record.rows if is_solved(row) is not None]
    series = {BASELINES[against]: _medians(judged, against, first.kind) for against in _timed(judged, first.kind)}
    points = [
        drawings.Point(label=row.label, href=f"#{anchor(row.label)}", value=speed.speedup if speed else None)
        for row in judged
        for speed in [speed_of(row, first.against, first.kind) if row.solved else None]
        if speed or not row.solved
    ]
    against = f"{BASELINES[first.against]}, {TIMES[first.kind]}"
    ladder = drawings.ladder(points, "Speed-up of every problem", f"times as fast as {against}")
    shares = f"How many are faster than a factor, {TIMES[first.kind]}"
    return [
        pictures([(f"Every problem, against {against}", ladder), (shares, drawings.fast_curves(series))]),
        tag("p", "A disc with its interval is a kernel that passed; a cross is a problem without one.", class_="soft"),
    ]


def _timed(rows: Sequence[ProblemRow], kind: Kind) -> list[Against]:
    return [against for against in Against if any(row.solved and speed_of(row, against, kind) for row in rows)]


def _medians(rows: Sequence[ProblemRow], against: Against, kind: Kind) -> list[float | None]:
    """Return median speed-ups with None for unsolved problems; solved problems without this time are left out."""
    found = [(row, speed_of(row, against, kind) if row.solved else None) for row in rows]
    return [speed.speedup.median if speed else None for row, speed in found if speed or not row.solved]


def _best(record: Record) -> Iterator[Sample]:
    for row in record.rows:
        sample = standing_for(row)
        if sample is not None and sample.executed:
            yield sample


def _baselines(whole: Summary) -> Html:
    rows = [
        (BASELINES[item.against], TIMES[item.kind], interval(item.geomean.value), item.geomean.of)
        for item in whole.baselines
    ]
    return table(("baseline", "time", "over eager", "problems"), rows, right=(2, 3), caption="Without any kernel")


# -- a public benchmark's own check ------------------------------------------------------------------------------------


def public(record: Record) -> Iterator[tuple[str, str, Sequence[object]]]:
    """Yield the section on the public benchmark's own check, if that was asked for."""
    found = public_figures(record)
    if found is None:
        return
    counts = [
        ("correct", found.correct),
        ("correct with the tolerance of its first version", found.correct_at_first),
        ("correct there, not solved here", found.only_there),
        *((f"{name}, by its own clock", count) for name, count in found.fast.items()),
    ]
    rows = [(name, count, percent(_figure(count, found.of))) for name, count in counts]
    caption = f"Of {found.of} judged problems; weaker than a verdict, and no other figure here rests on it"
    yield (
        "public",
        "By KernelBench's own check",
        [table(("", "problems", "share"), rows, right=(1, 2), caption=caption)],
    )


def _figure(count: int, of: int) -> Figure:
    return Figure(value=share_interval(count, of), of=of)


def percent(figure: Figure | None) -> str:
    if figure is None:
        return ""
    value = figure.value
    return f"{value.median:.0%} [{100 * value.low:.0f}, {100 * value.high:.0f}]"
