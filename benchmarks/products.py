"""Compares bare matrix products in half precision by the built-in author with cuBLAS.

Eager runs cuBLAS for a bare product, so a verdict's speed-up over eager is the fraction of cuBLAS's speed that a kernel
reaches. Each shape is a run of `optimize` as a user would start it, with own kernels only; of its proposals the one
with the least device time counts. One row for each shape, with the interval of that fraction; rows in a CSV file, see
`rows.py`.

Needs a GPU, without which nothing is timed.

    python benchmarks/products.py --shape 4096x4096x4096
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples import optimize

HERE = Path(__file__).resolve().parent
BAR = 0.85
SHAPES = {
    "4096x4096x4096": ("bfloat16", 1),
    "8192x4096x1024": ("float16", 1),
    "2048x8192x8192": ("bfloat16", 1),
    "16384x1024x4096": ("float16", 1),
    "512x4096x4096": ("bfloat16", 1),
    "1024x1024x512": ("float16", 32),
}
"""Rows, columns and inner dimension; dtype, and number of products in the batch."""
PROBLEM = """
import torch
import torch.nn as nn

COPIES, ROWS, COLUMNS, INNER = {copies}, {rows}, {columns}, {inner}


class Model(nn.Module):
    def forward(self, x, y):
        return x @ y.transpose(-1, -2)


def get_inputs():
    x, y = torch.randn(COPIES, ROWS, INNER), torch.randn(COPIES, COLUMNS, INNER)
    return [{value} for value in (x, y)]


def get_init_inputs():
    return []
"""


def main() -> None:
    """Run every shape asked for; exit code 1 if the median fraction is below the bar."""
    options = _options()
    # Later than --help, which needs no torch.
    import rows

    shares = []
    for shape in options.shape or SHAPES:
        shared = rows.provenance()
        found = list(_rows(shape, options))
        rows.append(options.out, shared, found)
        shares += [float(row["share"]) for row in found]
        for row in found:
            print(f"{shape} {row['dtype']}: {row['share']} of cuBLAS, {row['low']} to {row['high']}", flush=True)
    if not shares or statistics.median(shares) < BAR:
        print(f"below the bar: the median of {len(shares)} shapes is not {BAR:g} of cuBLAS", file=sys.stderr)
        sys.exit(1)


def _rows(shape: str, options: argparse.Namespace) -> Iterator[dict[str, str]]:
    dtype, copies = SHAPES[shape]
    timings = [
        item
        for item in _timed(problem_of(shape), options)
        if item["kind"] == "device" and item["baseline"].startswith("eager")
    ]
    if not timings:
        raise SystemExit(f"{shape}: nothing passed and was timed")
    best = min(timings, key=lambda item: item["candidate_ms"]["median"])
    yield {
        "shape": shape,
        "copies": str(copies),
        "dtype": dtype,
        "cublas_ms": f"{best['baseline_ms']['median']:.5g}",
        "own_ms": f"{best['candidate_ms']['median']:.5g}",
        "share": f"{best['speedup']['median']:.4g}",
        "low": f"{best['speedup']['low']:.4g}",
        "high": f"{best['speedup']['high']:.4g}",
    }


def problem_of(shape: str) -> str:
    """Return the text of the problem file."""
    dtype, copies = SHAPES[shape]
    rows, columns, inner = (int(size) for size in shape.split("x"))
    value = f"value.to(torch.{dtype})" if copies > 1 else f"value[0].to(torch.{dtype})"
    return PROBLEM.format(copies=copies, rows=rows, columns=columns, inner=inner, value=value)


def _timed(text: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return all timings of every proposal that passed."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "product.py"
        problem.write_text(text)
        asked = ["--turns", str(options.turns), "--parallel", str(options.parallel), "--device", options.device]
        argv = optimize(folder, str(problem), "--own-kernels", *asked)
        done = subprocess.run(argv, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    graded = [event["evaluation"] for event in events if event["kind"] == "graded" and event.get("evaluation")]
    if not graded:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr[-2000:]}")
    return [timing for evaluation in graded if evaluation["status"] == "passed" for timing in evaluation["timings"]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Half-precision products by the built-in author, against cuBLAS.")
    parser.add_argument("--shape", action="append", choices=tuple(SHAPES), help="may be repeated; default: all")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=6)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "products.csv", help="the CSV file for rows")
    return parser.parse_args()


if __name__ == "__main__":
    main()
