"""Measures the time from the command line to the first verified win over eager, for `optimize` on the examples.

A win is a kernel that was right in every case and whose speed-ups in device time and latency over the eager reference
both have intervals above 1. It is reported as soon as it is known, which is before the verdict if `torch.compile` is
still at work. Each run is a process of its own, as a user would start it, and is ended at its first win. One row for
each example and milestone, in seconds: the median and the extremes of the repeats; rows in a CSV file, see `rows.py`.

Caches are used as they are: on a machine that has not seen an example, the first repeat compiles more than the others.
Needs a GPU, without which nothing is timed.

    python benchmarks/first_win.py --example softmax --repeat 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from examples import EXAMPLES, command

HERE = Path(__file__).resolve().parent
BAR_S = 15.0
AHEAD = "ahead "
"""Beginning of a stage's name if a candidate is known to be right and faster."""
READ, VERDICT, WIN = "problem read", "first verdict", "first win"


def main() -> None:
    """Run every example asked for; exit code 1 if the median of the wins is above the bar, or there is none."""
    options = _options()
    import rows

    medians = []
    for name in options.example or EXAMPLES:
        shared = rows.provenance()
        repeats = [milestones(name, options) for _ in range(options.repeat)]
        found = list(_rows(name, repeats))
        rows.append(options.out, shared, found)
        for row in found:
            spread = f"{row['least_s']} to {row['most_s']}"
            print(f"{name}: {row['milestone']} after {row['median_s']} s ({spread})", flush=True)
        wins = [seconds[WIN] for seconds in repeats if WIN in seconds]
        medians.append(statistics.median(wins) if len(wins) == len(repeats) else float("inf"))
    if statistics.median(medians) > BAR_S:
        print(f"below the bar: the median of the examples is {statistics.median(medians):.1f} s", file=sys.stderr)
        sys.exit(1)


def milestones(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the seconds from the start of the command to each milestone."""
    with tempfile.TemporaryDirectory() as folder:
        argv = command(name, folder, device=options.device, turns=options.turns, budget=options.budget)
        began = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            found = reached(process.stdout, lambda: time.perf_counter() - began)
            process.terminate()
            process.stdout.read()
    return found


def reached(lines: Iterable[str], now_s: Callable[[], float]) -> dict[str, float]:
    """Return when a run's events reached each milestone, up to the first win or the end of the events."""
    found: dict[str, float] = {}
    for line in lines:
        at_s = now_s()
        for milestone in _milestones_of(json.loads(line)):
            found.setdefault(milestone, at_s)
        if WIN in found:
            break
    return found


def _milestones_of(event: dict[str, Any]) -> Iterator[str]:
    if event["kind"] == "run":
        yield READ
    elif event["kind"] == "stage" and event["stage"].startswith(AHEAD):
        yield WIN
    elif event["kind"] == "graded" and event.get("evaluation"):
        yield VERDICT
        against_eager = [item for item in event["evaluation"]["timings"] if item["baseline"].startswith("eager")]
        if against_eager and all(item["speedup"]["low"] > 1 for item in against_eager):
            yield WIN


def _rows(name: str, repeats: list[dict[str, float]]) -> Iterator[dict[str, str]]:
    for milestone in (READ, VERDICT, WIN):
        seconds = [found[milestone] for found in repeats if milestone in found]
        if seconds:
            figures = (statistics.median(seconds), min(seconds), max(seconds))
            median, least, most = (f"{value:.1f}" for value in figures)
            yield {
                "example": name,
                "milestone": milestone,
                "repeats": str(len(seconds)),
                "median_s": median,
                "least_s": least,
                "most_s": most,
            }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Seconds until `optimize` knows of a first win, on the examples.")
    parser.add_argument("--example", action="append", choices=tuple(EXAMPLES), help="may be repeated; default: all")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--budget", default="60s", help="of the search, in which there has to be a win")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "first_win.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
