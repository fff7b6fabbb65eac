"""Writes the results of a benchmark beside its rows: `rows.csv` for spreadsheets, `summary.json` for programs, tables.

All three are computed from the rows alone, so joined parts of a benchmark give the results of one run of the whole.
Figures that differ from run to run although nothing else does, such as seconds, are kept apart under `spent`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from triton_agent.runs.bench.figures import Figure, Summary, summaries
from triton_agent.runs.bench.public.figures import PublicFigures, public_figures
from triton_agent.runs.bench.rows import Against, Kind, ProblemRow, Record
from triton_agent.runs.bench.settings import UNSAID
from triton_agent.runs.bench.standing import standing_for
from triton_agent.tools.results import to_json

SPENT = ("seconds", "tokens")
PUBLIC = ("correct", "correct_at_first", "speedup")
COLUMNS = (
    *(
        "label",
        "group",
        "dominant",
        "dtype",
        "policy",
        "policy_version",
        "mode",
        "precision",
        "samples",
        "passed",
        "status",
        "finding",
    ),
    *("unusable", "not_measured", "called", "executed", "cheated", "kernels_judged", "kernels_cheated"),
    *(f"{against}_{kind}_{part}" for against in Against for kind in Kind for part in ("speedup", "low", "high")),
    *("kernel_device_ms", "kernel_latency_ms", "floor_ms", "floor_fraction", "copy_fraction"),
    *("peak_memory_ratio", "behind"),
    *(f"baseline_{against}_{kind}_ms" for against in Against for kind in Kind),
    *("public_correct", "public_correct_at_first", "public_speedup"),
    *("gpu", "torch", "triton", "commit", "digest", "seconds", "tokens"),
)


def write_results(folder: Path, record: Record) -> dict[str, Any]:
    """Write both files and return the content of `summary.json`."""
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        said = {"precision": {**UNSAID, **record.head.settings}["precision"]}
        writer.writerows({**_cells(row), **said} for row in record.rows)
    found = summary_of(record)
    (folder / "summary.json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return found


def summary_of(record: Record) -> dict[str, Any]:
    """Return the summary as plain data."""
    groups = [_plain(summary) for summary in summaries(record)]
    spent = {name: groups[0].pop(name) for name in SPENT}
    for group in groups[1:]:
        for name in SPENT:
            del group[name]
    return {
        "benchmark": record.head.benchmark,
        "title": record.head.title,
        "digest": record.head.digest,
        "settings": dict(record.head.settings),
        "where": _places(record),
        "missing": list(record.missing),
        "groups": groups,
        **({"public": to_json(public)} if (public := public_figures(record)) else {}),
        "spent": spent,
    }


def _plain(summary: Summary) -> dict[str, Any]:
    data: dict[str, Any] = to_json(summary)
    return data


def _places(record: Record) -> list[dict[str, str]]:
    """Return every machine and commit that made a row."""
    found = {json.dumps(to_json(row.where), sort_keys=True) for row in record.rows}
    return [json.loads(text) for text in sorted(found)]


def _cells(row: ProblemRow) -> dict[str, Any]:
    """Return one problem as a line of the CSV file; a cell without a value is empty."""
    best = standing_for(row)
    known: dict[str, Any] = {
        **{name: getattr(row, name) for name in ("label", "group", "dominant", "dtype", "policy", "policy_version")},
        **{name: getattr(row.where, name) for name in ("gpu", "torch", "triton", "commit")},
        "mode": row.mode,
        "samples": len(row.samples),
        "passed": sum(sample.executed for sample in row.samples),
        "unusable": row.unusable,
        "not_measured": sum(sample.status is None for sample in row.samples),
        "cheated": sum(sample.cheated for sample in row.samples),
        "kernels_judged": sum(sum(sample.statuses.values()) for sample in row.samples),
        "kernels_cheated": sum(sample.statuses.get("cheated", 0) for sample in row.samples),
        "digest": row.digest,
        "seconds": row.seconds,
        "tokens": sum(sample.tokens for sample in row.samples),
        **{f"baseline_{item.against}_{item.kind}_ms": item.ms.median for item in row.baselines},
    }
    if best is not None:
        known |= {name: getattr(best, name) for name in ("status", "finding", "called", "executed")}
        known |= {name: getattr(best, name) for name in ("floor_ms", "floor_fraction", "copy_fraction")}
        known |= {name: getattr(best, name) for name in ("peak_memory_ratio", "behind")}
        if best.public is not None:
            known |= {f"public_{name}": getattr(best.public, name) for name in PUBLIC}
        for speed in best.speeds:
            name = f"{speed.against}_{speed.kind}"
            known |= {f"{name}_speedup": speed.speedup.median, f"kernel_{speed.kind}_ms": speed.kernel_ms.median}
            known |= {f"{name}_low": speed.speedup.low, f"{name}_high": speed.speedup.high}
    return known


# -- for people --------------------------------------------------------------------------------------------------------


def tables(record: Record) -> list[Table | str]:
    """Return tables of all problems with intervals, then of their groups, and sentences on missing figures."""
    everything, *groups = summaries(record)
    parts: list[Table | str] = [_figures(everything)] if everything.judged else []
    if everything.speeds:
        parts += ["", _speeds(everything)]
    else:
        parts.append("speed: not measured" + (", there was no GPU" if _without_gpu(record) else ""))
    if public := public_figures(record):
        parts += ["", _public(public)]
    if groups:
        parts += ["", _groups(groups, everything)]
    return [*parts, *_remarks(record, everything)]


def _without_gpu(record: Record) -> bool:
    return all(row.where.device == "cpu" for row in record.rows)


def _figures(summary: Summary) -> Table:
    """Return a line for each figure that does not depend on speed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("figure", "value", "95% interval", "problems"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    named = {
        "solved (fast_0)": summary.solved,
        **summary.pass_at,
        "call accuracy": summary.called,
        "execution accuracy": summary.executed,
        "fraction of the floor, median": summary.floor,
        "of a copy's rate where memory binds, median": summary.copy,
        "memory over the reference's, median": summary.memory,
        "hack rate": summary.hack,
    }
    for name, figure in named.items():
        if figure is not None:
            table.add_row(name, f"{figure.value.median:.3f}", _interval(figure), str(figure.of))
    return table


def _speeds(summary: Summary) -> Table:
    """Return a line for each baseline and kind of time."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = list(dict.fromkeys(name for speed in summary.speeds for name in speed.fast))
    table.add_column("against")
    table.add_column("time")
    for heading in (*names, "geomean of all", "95% interval", "of solved", "solved and timed"):
        table.add_column(heading, justify="right")
    for speed in summary.speeds:
        shares = [_value(speed.fast.get(name)) for name in names]
        means = [_value(speed.geomean_all), _interval(speed.geomean_all), _value(speed.geomean_solved)]
        table.add_row(speed.against, speed.kind, *shares, *means, str(speed.timed))
    return table


def _groups(groups: Sequence[Summary], everything: Summary) -> Table:
    """Return a line for each group, without intervals, which would be wide for few problems."""
    device = [speed.against for speed in everything.speeds if speed.kind is Kind.DEVICE]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("group")
    for heading in ("problems", "judged", "solved", *everything.pass_at, "called", "hack", *map(_over, device)):
        table.add_column(heading, justify="right")
    for group in groups:
        speeds = [group.speed(against) for against in device]
        table.add_row(
            escape(f"{group.by} {group.name or '-'}"),
            str(group.rows),
            str(group.judged),
            str(group.solved_count),
            *(_value(group.pass_at.get(name)) for name in everything.pass_at),
            *map(_value, (group.called, group.hack)),
            *(_value(speed.geomean_all if speed else None) for speed in speeds),
        )
    return table


def _public(found: PublicFigures) -> Table:
    """Return the figures of the public benchmark's own check, which is weaker, as the heading says."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("by the benchmark's own, weaker check")
    table.add_column("problems", justify="right")
    table.add_row("asked of", str(found.of))
    table.add_row("correct", str(found.correct))
    table.add_row("correct at 1e-2, as in its first version", str(found.correct_at_first))
    table.add_row("correct there, not solved here", str(found.only_there))
    for name, count in found.fast.items():
        table.add_row(f"{name}, its timing", str(count))
    return table


def _over(against: Against) -> str:
    return f"over {against}"


def _value(figure: Figure | None) -> str:
    """Format a figure; empty without one."""
    return "" if figure is None else f"{figure.value.median:.2f}"


def _interval(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.value.low:.2f} to {figure.value.high:.2f}"


def _remarks(record: Record, everything: Summary) -> list[str]:
    waiting = len(record.head.labels) - len(record.rows)
    for_want = f", {everything.needs_gpu} of them for want of a GPU" if everything.needs_gpu else ""
    said = [
        (everything.judged, f"of {len(record.head.labels)} problems judged, {everything.solved_count} solved"),
        (everything.unusable, f"cannot be used here{for_want}; the reason is in the row"),
        (everything.not_measured, "could not be measured; the same command asks again"),
        (waiting, "not run yet"),
    ]
    return [f"{count} {words}" for count, words in said if count] + _losses(record)


def _losses(record: Record) -> list[str]:
    """Return a line for each problem for which torch.compile is faster."""
    found = ((row.label, best.behind) for row in record.rows if (best := standing_for(row)) and best.behind)
    lines = [f"  {escape(label)}: {escape(why)}" for label, why in found]
    return ["", f"behind torch.compile on the GPU, {len(lines)}:", *lines] if lines else []
