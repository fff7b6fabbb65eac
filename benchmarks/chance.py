"""Counts right kernels that are refused by chance: many verdicts on honest kernel files, with new inputs each round.

Inputs and parameters are drawn once per evaluator, so every round opens a new evaluator for each problem and judges
all of its files there. Every verdict is appended to a JSON file; run the same command again and it continues where the
file ends. Exit code 1 if any verdict was not the expected one. Verdicts that could not be reached are counted apart:
they say nothing about the kernel.

It does not test that wrong kernels are refused; `python -m tests.scoreboard` does.

    python benchmarks/chance.py --verdicts 1000 --out chance.json
    python benchmarks/chance.py --device cuda --seconds 110 --files tests/habits/attention_rows_whole.py
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.grading import Specimen

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FILES = ("tests/habits", "tests/honest", "tests/kernels")


def main() -> int:
    options = _options()
    sys.path.insert(0, str(ROOT))
    import rows

    record: dict[str, Any] = {"about": {**rows.provenance(), "device": options.device}, "verdicts": []}
    if options.out.exists():
        record = json.loads(options.out.read_text())
    judge_rounds(honest_files(options), options, record)
    return report(record)


def honest_files(options: argparse.Namespace) -> list[Specimen]:
    """Return those of the files that are expected to pass on this device."""
    from tests.grading import corpus, habits, honest

    asked = [(ROOT / name).resolve() for name in options.files]
    places = ("both", "gpu") if options.device == "cuda" else ("both", "cpu")
    return [
        item
        for item in (*habits(), *honest(), *corpus())
        if item.expected == ("passed",) and item.where in places and not item.needs
        if any(item.path == path or path in item.path.parents for path in asked)
    ]


def judge_rounds(files: list[Specimen], options: argparse.Namespace, record: dict[str, Any]) -> None:
    """Judge all files round by round, until there are enough verdicts or the time is up."""
    from tests.grading import grade, spoken

    from triton_agent.tools.processes.zygotes import Nursery
    from triton_agent.tools.settings import EvaluatorSettings

    deadline = time.monotonic() + options.seconds
    settings = EvaluatorSettings(device=options.device, total_timeout_s=300.0)
    done = Counter(verdict["file"] for verdict in record["verdicts"])
    groups: dict[Path, list[Specimen]] = defaultdict(list)
    for item in files:
        groups[item.problem].append(item)
    with tempfile.TemporaryDirectory() as folder, Nursery(f"{folder}/log") as nursery:
        rounds = ((number, members) for number in itertools.count() for members in groups.values())
        for number, members in rounds if files else ():
            left = [item for item in members if done[str(item.path.relative_to(ROOT))] <= number]
            if len(record["verdicts"]) >= options.verdicts or time.monotonic() > deadline:
                return
            for item, outcome in grade(left, settings, jobs=options.at_once, nursery=nursery) if left else ():
                verdict = {"file": str(item.path.relative_to(ROOT)), "round": number, "got": spoken(outcome)}
                if hasattr(outcome, "status"):
                    verdict["closest"] = max((_share(row) for row in outcome.accuracy), default=0.0)
                if not item.meets(outcome):
                    verdict["message"] = str(getattr(outcome, "message", outcome))
                    print(f"{verdict['file']}: {verdict['got']}: {verdict['message']}", flush=True)
                    if hasattr(outcome, "accuracy"):
                        verdict["cases"] = [dataclasses.asdict(row) for row in outcome.accuracy if not row.ok]
                record["verdicts"].append(verdict)
            options.out.write_text(json.dumps(record, indent=1))
            print(f"\r{len(record['verdicts'])} verdicts, round {number + 1}", end="", file=sys.stderr, flush=True)


def _share(row: Any) -> float:
    """Return the largest error as a share of its limit."""
    return float(row.error / row.limit) if row.limit else 0.0


def report(record: dict[str, Any]) -> int:
    """Print the counts; return the exit code."""
    verdicts = record["verdicts"]
    refused = [verdict for verdict in verdicts if "message" in verdict and "/" in verdict["got"]]
    unmeasured = [verdict for verdict in verdicts if "message" in verdict and "/" not in verdict["got"]]
    closest = sorted((verdict["closest"] for verdict in verdicts if verdict["got"] == "passed"), reverse=True)
    summary = {
        "verdicts": len(verdicts),
        "files": len({verdict["file"] for verdict in verdicts}),
        "refused": len(refused),
        "not measured": len(unmeasured),
        "largest share of a limit among those that passed": round(closest[0], 3) if closest else None,
    }
    print("\n" + json.dumps(summary, indent=1))
    return 1 if refused else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdicts", type=int, default=1000, metavar="N", help="stop after this many (default: 1000)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no problem after this long")
    parser.add_argument("--files", nargs="+", default=DEFAULT_FILES, help="files or folders of honest kernels")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--at-once", type=int, default=2, help="candidates judged at the same time")
    parser.add_argument("--out", type=Path, default=Path("chance.json"), help="results; continued if it exists")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
