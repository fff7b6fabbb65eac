"""Writes the table of measured figures into the README from the tracked CSV files, so that none is typed by hand.

python docs/make_results.py [--check]
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
START, END = "<!-- results: make_results.py -->\n", "<!-- end of results -->\n"
HEAD = "| measured | machine | commit | evaluator | a fresh process each | ratio |\n|---|---|---|---|---|---|\n"


def table() -> str:
    """One row a benchmark file, problem and latest commit: best against best."""
    rows = []
    for path in sorted((ROOT / "benchmarks" / "results").glob("evaluator*.csv")):
        with path.open(encoding="utf-8") as file:
            found = [row for row in csv.DictReader(file) if row["figure"] == "throughput"]
        latest = {row["problem"]: row["measured_at"] for row in sorted(found, key=lambda row: row["measured_at"])}
        for problem, when in latest.items():
            rows.append(_row([row for row in found if row["problem"] == problem and row["measured_at"] == when]))
    return HEAD + "".join(rows)


def _row(rows: list[dict[str, str]]) -> str:
    best = {name: _best(rows, name) for name in ("evaluator", "fresh process")}
    ours, fresh = float(best["evaluator"]["value"]), float(best["fresh process"]["value"])
    any_row = rows[0]
    machine = f"{any_row['cores']} cores, {'no GPU' if any_row['device'] == 'cpu' else any_row['gpu']}"
    figures = [f"{float(row['value']):.2f}/s ({row['workers']} at once)" for row in best.values()]
    cells = [f"verdicts, `{any_row['problem']}`", machine, any_row["commit"], *figures, f"{ours / fresh:.1f}x"]
    return "| " + " | ".join(cells) + " |\n"


def _best(rows: list[dict[str, str]], arrangement: str) -> dict[str, str]:
    return max((row for row in rows if row["arrangement"] == arrangement), key=lambda row: float(row["value"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="The README's table of measured figures, from the CSV files.")
    parser.add_argument("--check", action="store_true", help="only say whether the README is up to date")
    check = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(START)
    wanted = before + START + "\n" + table() + "\n" + END + rest.split(END)[1]
    if check and wanted != text:
        sys.exit("the README's results are out of date: run python docs/make_results.py")
    README.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
