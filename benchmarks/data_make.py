"""Measures how many problems `triton-agent data make` composes in a minute, and checks the resulting dataset.

The rate is the number of problems in the finished folder over the whole time of the command, including starting
processes, refused candidates, and writing. The processor time is reported as well, since other work on the machine
disturbs it less. Then the folder is read again: files are run at sizes that the evaluator chooses, graphs are
extracted again and compared with each other, and held-out compositions are looked up in the training split. Rows in a
CSV file; see `rows.py`. Exit code 1 if a bar is missed: 2,000 problems a minute, none that fails to run, no duplicate,
no held-out composition in training.

    python benchmarks/data_make.py --count 4000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
BAR_PER_MINUTE = 2_000


def main() -> None:
    """Make a dataset, check it, print and append a row."""
    options = _options()
    from benchmarks import rows

    shared = rows.provenance()
    with tempfile.TemporaryDirectory(prefix="triton-agent-data-") as scratch:
        folder = Path(scratch) / "data"
        argv = [sys.executable, "-m", "triton_agent", "data", "make", str(folder), "--json"]
        argv += ["--count", str(options.count), "--seed", str(options.seed), "--jobs", str(options.jobs)]
        argv += [word for name in options.difficulty for word in ("--difficulty", name)]
        argv += [word for path in options.against for word in ("--against", path)]
        began = time.perf_counter()
        made = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
        wall_s = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        checked = _checked(folder, options.checked)
    told = json.loads(made.stdout)
    row = {
        "difficulties": " ".join(options.difficulty),
        "jobs": options.jobs,
        "problems": sum(told["problems"].values()),
        "candidates": told["tried"],
        "wall_s": round(wall_s, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "problems_per_minute": round(60 * sum(told["problems"].values()) / wall_s),
        **checked,
    }
    for name, value in row.items():
        print(f"{name:24} {value}")
    rows.append(options.out, shared, [row])
    if row["problems_per_minute"] < BAR_PER_MINUTE or any(checked[name] for name in ("failing", "twice", "seen")):
        sys.exit(f"a bar is missed: {BAR_PER_MINUTE} a minute, none failing, none twice, no held-out composition seen")


def _checked(folder: Path, most: int) -> dict[str, Any]:
    """Count faults of the finished folder, reading nothing but its files."""
    from triton_agent.policy.train.data.candidates import HELD_OUT, TRAIN, seen_compositions
    from triton_agent.tools.errors import ProblemError
    from triton_agent.tools.graph.fingerprint import fingerprint
    from triton_agent.tools.graph.recorder import extract
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.reference.reference import load
    from triton_agent.tools.reference.scaling import scaled_down

    found = [
        json.loads(line) for split in (TRAIN, HELD_OUT) for line in (folder / f"{split}.jsonl").read_text().splitlines()
    ]
    chosen = found[:: max(1, len(found) // most)][:most]
    failing, fingerprints = 0, []
    for row in chosen:
        spec = parse_problem(str(folder / "problems" / row["split"] / f"{row['name']}.py"))
        try:
            scaled = scaled_down(spec, 0)
            if scaled is None:
                raise ProblemError("no sizes were found", where=spec.path)
            reference = load(spec, scaled.variant.constants, batch=scaled.variant.batch)
            model, inputs = reference.make_model(0).eval(), reference.make_inputs(0)
            fingerprints.append(fingerprint(extract(model, inputs)))
        except ProblemError as error:
            failing += 1
            print(f"{row['name']}: {error}", file=sys.stderr)
    twice = len(found) - len({row["fingerprint"] for row in found})
    return {
        "checked": len(chosen),
        "failing": failing,
        "other_fingerprints": len(set(fingerprints) - {row["fingerprint"] for row in chosen}),
        "twice": twice + len(fingerprints) - len(set(fingerprints)),
        "seen": len(seen_compositions(found)),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000, help="problems (default: 4000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--difficulty", nargs="+", default=["tiny", "easy", "medium", "hard"], help="mixture (default: all four)"
    )
    parser.add_argument("--against", nargs="*", default=["benchmarks/problems"], help="folders to keep apart from")
    parser.add_argument("--checked", type=int, default=400, help="files that are run again (default: 400)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "data_make.csv", help="file for the row")
    return parser.parse_args()


if __name__ == "__main__":
    main()
