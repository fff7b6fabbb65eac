"""Draws the problems of a benchmark: why unsolved ones are not solved, and a sortable table of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from triton_agent.runs.bench.page.sortable import Cell, Line, sortable
from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record, Sample
from triton_agent.runs.bench.standing import is_solved, kernel_counts, speed_of, standing_for
from triton_agent.runs.cli.foreign_text import in_a_line
from triton_agent.runs.history.attempt_page import interval
from triton_agent.runs.report.markup import Html, facts, folded, table, tag

BASELINES = {
    Against.EAGER: "eager as written",
    Against.EAGER_TF32: "eager, TF32 allowed",
    Against.COMPILE: "torch.compile",
}
TIMES = {Kind.DEVICE: "device time", Kind.LATENCY: "call latency"}
MESSAGE_AT_MOST = 240


# -- failures ----------------------------------------------------------------------------------------------------------


def failures(record: Record) -> Iterator[object]:
    failed = [(row, why(row)) for row in record.rows if not row.solved and (row.samples or row.unusable)]
    if not failed:
        yield tag("p", "None.")
        return
    counts = Counter(reason for _, (reason, _) in failed)
    yield table(("reason", "problems"), counts.most_common(), right=(1,), caption="Why problems are not solved")
    shown = ((tag("a", row.label, href=f"#{anchor(row.label)}"), *said) for row, said in sorted(failed, key=_by_reason))
    every = table(("problem", "reason", "what was said"), shown, caption="What came of each, in its last words")
    yield folded(f"All {len(failed)}", every, class_="paper")


def _by_reason(item: tuple[ProblemRow, tuple[str, str]]) -> tuple[str, str]:
    return item[1][0], item[0].label


def why(row: ProblemRow) -> tuple[str, str]:
    """Return the reason why a problem has no kernel, in a few words and with the details."""
    if row.unusable:
        return "cannot be used here", in_a_line(row.unusable, MESSAGE_AT_MOST)
    if not row.samples:
        return "no kernel was asked for", ""
    sample = standing_for(row)
    if is_solved(row) is None or sample is None:
        said = next((item.not_measured for item in row.samples if item.not_measured), "")
        return "not measured", in_a_line(said, MESSAGE_AT_MOST)
    reason = f"{sample.status} ({sample.finding})" if sample.finding else str(sample.status)
    return reason, in_a_line(sample.message, MESSAGE_AT_MOST)


# -- problems ----------------------------------------------------------------------------------------------------------


def problems(record: Record) -> Html:
    headings = (
        *("problem", "work", "dtype", "result", "passed"),
        *(f"{BASELINES[against]}" for against in Against),
        *("latency, eager", "kernel ms", "floor", "memory", "seconds"),
    )
    lines = [Line(anchor=anchor(row.label), cells=list(_cells(row))) for row in record.rows]
    numbers = (4, *range(5, len(headings)))
    missing = len(record.head.labels) - len(record.rows)
    caption = "All problems; speed-ups in device time with their intervals" + (
        f"; {missing} have not been run yet" if missing else ""
    )
    return sortable(headings, lines, right=numbers, caption=caption)


def _cells(row: ProblemRow) -> Iterator[Cell]:
    best = standing_for(row)
    passed = sum(sample.executed for sample in row.samples)
    result = "passed" if row.solved else why(row)[0]
    told = folded(row.label, _more(row)) if row.samples or row.notes else row.label
    yield Cell(shown=told, key=row.label)
    yield Cell(shown=row.dominant, key=row.dominant)
    yield Cell(shown=row.dtype, key=row.dtype)
    yield Cell(shown=result, key=result)
    yield Cell(shown=f"{passed} of {len(row.samples)}", key=passed if row.samples else "")
    for against, kind in (*((against, Kind.DEVICE) for against in Against), (Against.EAGER, Kind.LATENCY)):
        speed = speed_of(row, against, kind) if row.solved else None
        yield Cell(shown=interval(speed.speedup), key=f"{speed.speedup.median:.6g}") if speed else Cell(shown="")
    timed = speed_of(row, Against.EAGER, Kind.DEVICE)
    yield number(timed.kernel_ms.median if timed else None, "{:.4g}")
    yield number(best.floor_fraction if best else None, "{:.0%}")
    yield number(best.peak_memory_ratio if best else None, "{:.2f}")
    yield number(row.seconds, "{:.0f}")


def number(value: float | None, form: str) -> Cell:
    return Cell(shown="") if value is None else Cell(shown=form.format(value), key=f"{value:.6g}")


def _more(row: ProblemRow) -> Html:
    """Return the details that do not fit into a line."""
    told = [(f"sample {sample.index}", _of_sample(sample)) for sample in row.samples]
    return facts(
        [
            *told,
            ("behind torch.compile", next((sample.behind for sample in row.samples if sample.behind), "")),
            ("kernels judged", listed(kernel_counts([row]))),
            ("notes", "; ".join(row.notes)),
            ("digest", row.digest[:12]),
        ]
    )


def _of_sample(sample: Sample) -> str:
    reason = str(sample.finding or sample.status or "not measured")
    said = in_a_line(sample.message or sample.not_measured, MESSAGE_AT_MOST)
    run = f", run {sample.run}" if sample.run else ""
    return f"{reason}{f': {said}' if said else ''}{run}{f', {sample.kernel}' if sample.kernel else ''}"


def anchor(label: str) -> str:
    """Return the anchor of a problem on the page."""
    return "p-" + "".join(letter if letter.isalnum() and letter.isascii() else f"-{ord(letter):x}-" for letter in label)


def listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
