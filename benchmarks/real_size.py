"""Runs the suite's part `large` on a GPU, and measures the time to the first row and for all, memory, and resumption.

Runs `triton-agent bench suite --part large` with the built-in author. With --kills the run is killed at random moments
and continued with --resume; no problem may then have two rows with different verdicts, except the one under way.
Baselines that are measured later are written into a row again, which counts as the same row. Appends one row to
benchmarks/results/real_size.csv; exit code 1 if a bar is missed.

    python benchmarks/real_size.py --device cuda --out bench-large
    python benchmarks/real_size.py --device cuda:all --kills 5 --out bench-large-killed
    python benchmarks/real_size.py --device cuda --problem scans --out bench-scans     # a family only
    python benchmarks/real_size.py --device cuda --for-s 550 --out bench-large         # a part; once more: goes on

Bars (issue 21): the first row within 60 s; on one card 25 minutes for all, on four 8; no row "not measured" or
"unusable"; no call of a kernel takes more than 2.5 times the memory of one of the reference's.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from triton_agent.runs.bench.rows import FILE, ProblemRow, Record, read_record

FIRST_ROW_S, ALL_S, MEMORY_TIMES = 60.0, 1500.0, 2.5
POLL_S = 0.25
PARTS = "real_size.json"
"""In the folder of the record: what a run in parts has taken so far."""


def main() -> int:
    options = _options()
    import rows

    shared = rows.provenance()
    folder = Path(options.out)
    progress, code = _run(options, folder, _progress_in(folder))
    if code is None:
        folder.mkdir(exist_ok=True)
        (folder / PARTS).write_text(json.dumps(dataclasses.asdict(progress)), encoding="utf-8")
        print(f"{max(_lines(folder) - 1, 0)} rows after {progress.seconds:.0f} s; the same command goes on")
        return 0
    if not _lines(folder):
        return code
    figures = figures_of(read_record(folder), folder, progress.seconds, progress.first_row_s, progress.kills)
    rows.append(rows.RESULTS / "real_size.csv", shared, [{"device": options.device, **figures}])
    for name, value in figures.items():
        print(f"{name}: {value}")
    missed = misses(figures, options.all_s)
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a run in parts has taken so far."""

    seconds: float = 0.0
    first_row_s: float | None = None
    kills: int = 0


def _progress_in(folder: Path) -> Progress:
    parts = folder / PARTS
    return Progress(**json.loads(parts.read_text(encoding="utf-8"))) if parts.exists() else Progress()


def _run(options: argparse.Namespace, folder: Path, before: Progress) -> tuple[Progress, int | None]:
    """Run the benchmark, killed when due. Return the exit code as well, or None if the time of this part is over."""
    now_s = time.monotonic()
    began_s, stops_s = now_s - before.seconds, now_s + (options.for_s or math.inf)
    moments = sorted(random.Random(options.seed).uniform(30.0, options.span_s) for _ in range(options.kills))
    first_row_s, kills, resumed = before.first_row_s, before.kills, before != Progress()
    while True:
        process = subprocess.Popen(_command(options, folder, resumed=resumed), start_new_session=True)
        out_of_time = False
        while process.poll() is None:
            time.sleep(POLL_S)
            if first_row_s is None and _lines(folder) > 1:
                first_row_s = time.monotonic() - began_s
            out_of_time = time.monotonic() > stops_s
            if out_of_time or (moments and time.monotonic() - began_s > moments[0]):
                moments, kills = moments[1:], kills + 1
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        ended = process.returncode >= 0
        if ended or out_of_time:
            progress = Progress(time.monotonic() - began_s, first_row_s, kills)
            return progress, process.returncode if ended else None
        resumed = True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cuda:all (default: cuda)")
    parser.add_argument("--out", required=True, help="folder of the record")
    parser.add_argument("--problem", action="append", default=[], help="only this family or problem; repeatable")
    parser.add_argument("--at-once", type=int, help="problems side by side on each card (default: as `bench` has it)")
    parser.add_argument("--kills", type=int, default=0, help="kill the run so often, and go on (default: 0)")
    parser.add_argument(
        "--span-s", type=float, default=900.0, help="the kills fall into so many seconds (default: 900)"
    )
    parser.add_argument("--for-s", type=float, help="kill the run after so many seconds; called again, it goes on")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills (default: 0)")
    parser.add_argument("--all-s", type=float, default=ALL_S, help=f"bar for the whole run (default: {ALL_S:g})")
    return parser.parse_args()


def _command(options: argparse.Namespace, folder: Path, *, resumed: bool) -> list[str]:
    bench = [sys.executable, "-m", "triton_agent", "bench", "suite"]
    if resumed:
        return [*bench, "--resume", str(folder)]
    chosen = [word for name in options.problem for word in ("--problem", name)]
    how = ["--part", "large", "--device", options.device, "--turns", "1"]
    at_once = ["--at-once", str(options.at_once)] if options.at_once else []
    return [*bench, *how, *at_once, *chosen, "--out", str(folder)]


def _lines(folder: Path) -> int:
    """Lines of the record: its head, and a row for each problem."""
    path = folder / FILE
    return path.read_bytes().count(b"\n") if path.exists() else 0


def figures_of(record: Record, folder: Path, seconds: float, first_row_s: float | None, kills: int) -> dict[str, Any]:
    """Return one line of the results."""
    samples = [sample for row in record.rows for sample in row.samples]
    ratios = [sample.peak_memory_ratio for sample in samples if sample.peak_memory_ratio is not None]
    compiled = sum(any(item.against == "compile" for item in row.baselines) for row in record.rows)
    return {
        "problems": len(record.head.labels),
        "rows": len(record.rows),
        "solved": sum(row.solved for row in record.rows),
        "no_kernel": sum(not row.solved and row.measured and not row.unusable for row in record.rows),
        "not_measured": sum(not row.measured for row in record.rows),
        "unusable": sum(bool(row.unusable) for row in record.rows),
        "first_row_s": "" if first_row_s is None else f"{first_row_s:.1f}",
        "all_s": f"{seconds:.0f}",
        "median_problem_s": f"{statistics.median(row.seconds for row in record.rows):.1f}" if record.rows else "",
        "with_compile": compiled,
        "scaled_down": sum(any(note.startswith("scaled down") for note in row.notes) for row in record.rows),
        "most_memory_ratio": f"{max(ratios):.2f}" if ratios else "",
        "kills": kills,
        "judged_twice": judged_twice(folder),
    }


def judged_twice(folder: Path) -> int:
    """Problems with more than one verdict in the file, whichever row counts."""
    verdicts: dict[str, set[float]] = collections.defaultdict(set)
    for row in _all_rows(folder):
        if row.measured:
            verdicts[row.label].add(row.seconds)
    return sum(len(seconds) > 1 for seconds in verdicts.values())


def _all_rows(folder: Path) -> list[ProblemRow]:
    """Return all rows that were written, including superseded ones."""
    head, *lines = (folder / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    found = []
    for line in lines:
        one = folder / "one-row.jsonl"
        one.write_text(head + line, encoding="utf-8")
        found += read_record(one).rows
        one.unlink()
    return found


def misses(figures: dict[str, Any], all_s: float) -> list[str]:
    """Bars that were not reached, in words."""
    bars = {
        "a problem was not measured": figures["not_measured"] == 0,
        "a problem was not usable": figures["unusable"] == 0,
        "a problem has no row": figures["rows"] == figures["problems"],
        f"the first row took longer than {FIRST_ROW_S:g} s": float(figures["first_row_s"] or "inf") <= FIRST_ROW_S,
        f"all took longer than {all_s:g} s": float(figures["all_s"]) <= all_s,
        f"a call took more than {MEMORY_TIMES:g} times the reference's memory": float(figures["most_memory_ratio"] or 0)
        <= MEMORY_TIMES,
        "a problem was judged again after a kill": figures["judged_twice"] == 0,
    }
    return [text for text, holds in bars.items() if not holds]


if __name__ == "__main__":
    sys.exit(main())
