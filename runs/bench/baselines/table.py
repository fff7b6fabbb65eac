"""`bench baselines`: times the references of the suite on this machine's GPU, as a table and a CSV file.

Each line names its machine, versions and commit. The file is written after each problem, so it holds everything that
was measured before an interruption.
"""

from __future__ import annotations

import asyncio
import csv
import json as json_text
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from triton_agent.runs.bench.baselines.found import Baselines
from triton_agent.runs.bench.baselines.references import References, ReferenceSettings
from triton_agent.runs.bench.places import here
from triton_agent.runs.bench.problems import Selection, Task
from triton_agent.runs.bench.rows import Against, Kind, Where
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import Chosen, choose
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported

AT_ONCE, CORES_FOR_ONE = 4, 3
"""Most baselines at a time on a card, and processors for each, since torch.compile keeps several busy."""
PARTS = ("ms", "ms_low", "ms_high", "over_eager", "over_eager_low", "over_eager_high")
COLUMNS = (
    *("measured_at", "commit", "gpu", "driver", "python", "torch", "triton"),
    *("problem", "dominant", "dtype", "digest"),
    *(f"{against}_{kind}_{part}" for against in Against for kind in Kind for part in PARTS),
    "note",
)


def run(selection: Selection, *, device: str, out: str | None, again: bool, compile_limit_s: float, json: bool) -> int:
    """Measure the unknown baselines and print the table."""
    require_supported()
    chosen = choose(device)
    where = here(chosen)
    if not where.gpu:
        raise UsageError("baselines need a GPU, and none was found", remedy="see `triton-agent doctor`")
    found = asyncio.run(_measured(selection, chosen, where, out, again, compile_limit_s))
    for line in _told(selection.tasks, found) if json else ():
        print(line, flush=True)
    if not json:
        _show(selection.tasks, found, out)
    failed = any(task.label not in found or found[task.label].failure for task in selection.tasks)
    return exit_codes.NOT_MEASURED if failed else exit_codes.GOOD


async def _measured(
    selection: Selection, chosen: Chosen, where: Where, out: str | None, again: bool, compile_limit_s: float
) -> Mapping[str, Baselines]:
    """Return the baselines by label; the file is written after each problem."""

    def say(text: str) -> None:
        console.progress().print(text, markup=False)

    def keep(task: Task, result: Baselines) -> None:
        known = references.found
        device = [item for item in result.times if item.kind is Kind.DEVICE]
        short = ", ".join(f"{item.against} {item.ms.median:.4f} ms" for item in device) or result.failure[:100]
        say(f"[{len(known)}/{len(selection.tasks)}] {task.label:40} {short}")
        if out:
            there = [item for item in selection.tasks if item.label in known]
            _write(Path(out), [cells(item, item.spec(Path()).digest, known[item.label], where) for item in there])

    with tempfile.TemporaryDirectory(prefix="triton-agent-baselines-") as folder:
        cores = len(os.sched_getaffinity(0))
        settings = ReferenceSettings(
            workspace=Path(folder),
            compile_limit_s=compile_limit_s,
            at_once=chosen.at_once(AT_ONCE, cores_for_one=CORES_FOR_ONE, cores=cores),
            again=again,
        )
        references = References(chosen, settings, say)
        for task in selection.tasks:
            references.ask_for(task)
        references.ask_no_more()
        try:
            await references.measure(keep)
        finally:
            await references.close()
    return references.found


def cells(task: Task, digest: str, result: Baselines, where: Where) -> dict[str, Any]:
    """Return one line of the file; a cell without a measurement is missing."""
    line: dict[str, Any] = {
        "measured_at": result.measured_at,
        "commit": result.commit,
        **{name: getattr(where, name) for name in ("gpu", "driver", "python", "torch", "triton")},
        "problem": task.label,
        "dominant": str(task.dominant),
        "dtype": task.dtype,
        "digest": digest[:12],
        "note": "; ".join(filter(None, (result.failure, *result.notes))),
    }
    for item in result.times:
        name = f"{item.against}_{item.kind}"
        for part, interval in (("ms", item.ms), ("over_eager", item.over_eager)):
            figures = zip((part, f"{part}_low", f"{part}_high"), (interval.median, interval.low, interval.high))
            line |= {f"{name}_{key}": f"{figure:.6g}" for key, figure in figures}
    return line


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _told(tasks: Sequence[Task], found: Mapping[str, Baselines]) -> Iterator[str]:
    for task in tasks:
        if task.label in found:
            yield json_text.dumps({"problem": task.label, **to_json(found[task.label])}, allow_nan=False)


def _show(tasks: Sequence[Task], found: Mapping[str, Baselines], out: str | None) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("problem")
    for heading in ("eager ms", "latency ms", "eager TF32", "torch.compile"):
        table.add_column(heading, justify="right")
    for task in tasks:
        times = {(item.against, item.kind): item for item in found[task.label].times} if task.label in found else {}
        eager = [times.get((Against.EAGER, kind)) for kind in Kind]
        others = [times.get((against, Kind.DEVICE)) for against in (Against.EAGER_TF32, Against.COMPILE)]
        table.add_row(
            task.label,
            *(f"{item.ms.median:.4f}" if item else "" for item in eager),
            *(f"{item.over_eager.median:.2f}x" if item else "" for item in others),
        )
    screen = console.results()
    screen.print(table)
    for task in tasks:
        known = found.get(task.label)
        for note in filter(None, (known.failure, *known.notes) if known else ("not measured",)):
            screen.print(f"{task.label}: {note}", markup=False)
    if out:
        screen.print(f"written to {out}", markup=False)
