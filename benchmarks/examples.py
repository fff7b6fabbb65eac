"""Runs `optimize` on the examples, from the command line to the shipped file, and reports the time and the speed-up.

Each example is a process of its own, as a user would start it, with the defaults of `optimize` except for turns and
budget. The figures are those of the shipped file with its guard, against eager and `torch.compile`; one row for each
baseline and kind of time, with the seconds of the whole command. Rows in a CSV file; see `rows.py`.

Needs a GPU, without which nothing is timed. Not covered: other problems than the examples.

    python benchmarks/examples.py --example softmax
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "examples"
EXAMPLES: dict[str, tuple[str, ...]] = {
    "gated_mlp": ("gated_mlp.py:GatedMLP", "--init", "1024, 4096", "--input", "f32[4096,1024]"),
    "int8_gate": ("int8_gate.py",),
    "linear_gelu": ("linear_gelu.py",),
    "residual_norm": ("residual_norm.py",),
    "scored_pairs": ("scored_pairs.py",),
    "softmax": ("softmax.py",),
    "token_loss": ("token_loss.py",),
    "window_softmax": ("window_softmax.py",),
}
BAR_S = 120.0


def main() -> None:
    """Run every example asked for; exit code 1 if one ships nothing, is not faster throughout, or takes too long."""
    options = _options()
    # Later than --help, which needs no torch.
    import rows

    missed = []
    for name in options.example or EXAMPLES:
        shared = rows.provenance()
        seconds, outcome = optimized(name, options)
        found = list(_rows(name, seconds, outcome))
        rows.append(options.out, shared, found)
        good = bool(outcome["timings"]) and seconds <= BAR_S and all(float(row["low"]) > 1 for row in found)
        missed += [] if good else [name]
        print(f"{name}: {seconds:.1f} s, {'faster throughout' if good else 'below the bar'}", flush=True)
        for row in found:
            print(f"  {row['against']} ({row['kind']}): {row['speedup']}x, {row['low']} to {row['high']}", flush=True)
    if missed:
        print(f"below the bar: {', '.join(missed)}", file=sys.stderr)
        sys.exit(1)


def optimized(name: str, options: argparse.Namespace) -> tuple[float, dict[str, Any]]:
    """Return seconds of the whole command, and the last line of its `--json`."""
    with tempfile.TemporaryDirectory() as folder:
        argv = command(name, folder, device=options.device, turns=options.turns, budget=options.budget)
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True)
        seconds = time.perf_counter() - began
    last = (done.stdout.strip().splitlines() or ["{}"])[-1]
    outcome = json.loads(last)
    if outcome.get("kind") != "outcome":
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return seconds, outcome


def command(name: str, folder: str, *, device: str, turns: int, budget: str) -> list[str]:
    """Return the words of `optimize --json` on an example, with all its output in the folder."""
    file, *rest = EXAMPLES[name]
    return optimize(folder, str(FOLDER / file), *rest, "--turns", str(turns), "--budget", budget, "--device", device)


def optimize(folder: str, *asked: str) -> list[str]:
    """Return the words of `optimize --json` with these arguments, with all its output in the folder."""
    argv = [sys.executable, "-m", "triton_agent", "optimize", *asked, "--json"]
    return [*argv, "--out", f"{folder}/out", "--store", f"{folder}/runs.db"]


def _rows(name: str, seconds: float, outcome: dict[str, Any]) -> Iterator[dict[str, str]]:
    common = {"example": name, "command_s": f"{seconds:.1f}", "stop_reason": outcome["stop_reason"]}
    nothing = {"against": "nothing shipped", "kind": "", "original_ms": "", "shipped_ms": ""}
    if not outcome["timings"]:
        yield {**common, **nothing, "speedup": "1", "low": "1", "high": "1"}
    for timing in outcome["timings"]:
        ratio = timing["speedup"]
        yield {
            **common,
            "against": timing["baseline"],
            "kind": timing["kind"],
            "original_ms": f"{timing['baseline_ms']['median']:.5g}",
            "shipped_ms": f"{timing['candidate_ms']['median']:.5g}",
            "speedup": f"{ratio['median']:.4g}",
            "low": f"{ratio['low']:.4g}",
            "high": f"{ratio['high']:.4g}",
        }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="`optimize` on the examples: how long, and how fast.")
    parser.add_argument("--example", action="append", choices=tuple(EXAMPLES), help="may be repeated; default: all")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--budget", default="30s", help="of the search; start and shipping come on top")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "examples.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
