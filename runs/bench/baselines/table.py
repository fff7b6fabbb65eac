"""`bench baselines`: the references of the suite alone, timed on this machine's GPU, as a table and a CSV file.

One line a problem, each with its own machine, versions and commit. The file is written anew after each problem, so that
what was measured before an interruption is in it.
"""

from __future__ import annotations

import csv
import json as json_text
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from triton_agent.runs.bench.baselines.cards import Baselines
from triton_agent.runs.bench.baselines.measuring import measured
from triton_agent.runs.bench.places import here
from triton_agent.runs.bench.problems import Selection, Task
from triton_agent.runs.bench.rows import Against, Kind, Where
from triton_agent.runs.cli import console, exit_codes
from triton_agent.runs.cli.devices import choose
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import to_json
from triton_agent.tools.versions import require_supported

PARTS = ("ms", "ms_low", "ms_high", "over_eager", "over_eager_low", "over_eager_high")
COLUMNS = (
    *("measured_at", "commit", "gpu", "driver", "python", "torch", "triton"),
    *("problem", "dominant", "dtype", "digest"),
    *(f"{against}_{kind}_{part}" for against in Against for kind in Kind for part in PARTS),
    "note",
)


def run(selection: Selection, *, device: str, out: str | None, again: bool, json: bool) -> int:
    """Measure what is not known yet, and tell."""
    require_supported()
    chosen = choose(device)
    where = here(chosen)
    if not where.gpu:
        raise UsageError("baselines need a GPU, and none was found", remedy="see `triton-agent doctor`")
    tasks = {task.spec(Path()).digest: task for task in selection.tasks}  # of the suite: nothing is written
    specs = [task.spec(Path()) for task in tasks.values()]

    def keep(found: Mapping[str, Baselines]) -> None:
        if out:
            known = [(task, digest) for digest, task in tasks.items() if digest in found]
            _write(Path(out), [cells(task, digest, found[digest], where) for task, digest in known])

    def say(text: str) -> None:
        console.progress().print(text, markup=False)

    found = measured(specs, chosen, say, again=again, on_each=keep)
    keep(found)
    for line in _told(tasks, found) if json else ():
        print(line, flush=True)
    if not json:
        _show(tasks, found, out)
    failed = any(digest not in found or found[digest].failure for digest in tasks)
    return exit_codes.NOT_MEASURED if failed else exit_codes.GOOD


def cells(task: Task, digest: str, result: Baselines, where: Where) -> dict[str, Any]:
    """One line of the file; a cell is missing where nothing was measured."""
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


def _told(tasks: Mapping[str, Task], found: Mapping[str, Baselines]) -> Iterator[str]:
    for digest, task in tasks.items():
        if digest in found:
            yield json_text.dumps({"problem": task.label, **to_json(found[digest])}, allow_nan=False)


def _show(tasks: Mapping[str, Task], found: Mapping[str, Baselines], out: str | None) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("problem")
    for heading in ("eager ms", "latency ms", "eager TF32", "torch.compile"):
        table.add_column(heading, justify="right")
    for digest, task in tasks.items():
        times = {(item.against, item.kind): item for item in found[digest].times} if digest in found else {}
        eager = [times.get((Against.EAGER, kind)) for kind in Kind]
        others = [times.get((against, Kind.DEVICE)) for against in (Against.EAGER_TF32, Against.COMPILE)]
        table.add_row(
            task.label,
            *(f"{item.ms.median:.4f}" if item else "" for item in eager),
            *(f"{item.over_eager.median:.2f}x" if item else "" for item in others),
        )
    screen = console.results()
    screen.print(table)
    for digest, task in tasks.items():
        for note in filter(None, (found[digest].failure, *found[digest].notes) if digest in found else ("lost",)):
            screen.print(f"{task.label}: {note}", markup=False)
    if out:
        screen.print(f"written to {out}", markup=False)
