"""Write docs/results.md and the README's table of results from the tracked CSV files, so that nobody types a figure.

python docs/make_results.py [--check]
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results.md"
RESULTS = ROOT / "benchmarks" / "results"
START, END = "<!-- results: make_results.py -->\n", "<!-- end of results -->\n"
INTRODUCTION = """# Results

Written by `python docs/make_results.py` from the rows in [benchmarks/results](../benchmarks/results), which hold stage
times and versions as well. `make bench` and the other `make bench-...` commands add rows from your machine.

## Verdicts per second

The figure counts everything a verdict takes: starting processes, compiling, cleaning up. Candidates are correct
kernels of small problems. The comparison is one fresh process per candidate that makes the same checks without a
sandbox.

"""
SUMMARY_HEAD = (
    "| what the author may use | machine | commit | solved | over eager | over `torch.compile` |\n"
    "|---|---|---|---|---|---|\n"
)
HEAD = "| measured | machine | commit | evaluator | a fresh process each | ratio |\n|---|---|---|---|---|---|\n"
EXAMPLES_HEAD = (
    "| `optimize` | machine | commit | command took | device time over eager | latency over eager "
    "| device time over `torch.compile` | latency over `torch.compile` |\n|---|---|---|---|---|---|---|---|\n"
)
SUITE_HEAD = (
    "| machine | commit | author | mode | products | solved of tried | faster than eager | geomean "
    "| over `torch.compile` | over the better of both | faster than compile | not 2% slower | speed of a copy "
    "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)
SHIPPED = """## Examples

What `optimize` ships for the files of `examples/`, by `benchmarks/examples.py`. Brackets are 95% intervals.

"""
AUTHOR = """## The suite

The built-in author on the suite's memory-bound and matrix-product problems: one turn of six proposals, device time. A
problem without a solution counts as 1; "faster" counts intervals above 1. With products in TF32 the reference and
`torch.compile` may use it as well. The last column is, for memory-bound problems, the median of the time of a copy of
as many bytes over the time of the kernel.

"""
FIRST_FILES = """## The author's first files

Device time of the first four files that the built-in author writes for each problem of the suite's part `core`, over
that of `torch.compile` in `suite_baselines.csv` (measured earlier on such a card), by `benchmarks/first_files.py` on an
{gpu} at commit {commit}. Own kernels only; no file is judged there, and none chosen by a search.

"""
FIRST_FILES_HEAD = (
    "| family | problems | first file | best of four | best is faster | not 2% slower | least |\n"
    "|---|---|---|---|---|---|---|\n"
)
TRAINING = """## Training at real size

A model of 1.1 billion parameters with random weights, rows of 16,384 tokens, four rows per step, by
`benchmarks/train_size.py`. On several cards it is sharded (`--fsdp`). The losses are those of the first steps. The last
column compares the weights of a training that was killed and resumed with those of one that was not. GPU kernels add in
varying order, so two undisturbed trainings may differ, too.

"""
TRAINING_HEAD = (
    "| training | cards | commit | tokens per second | memory per card | losses | after a kill |\n"
    "|---|---|---|---|---|---|---|\n"
)
WHOLE_BYTES, ADAPTED_BYTES = 16, 2
"""Bytes per parameter: weights, gradients and two moments in float32, or frozen weights in bfloat16."""
LARGER = {"parameters": 8_200_000_000, "cards": 8, "activations": 36 * 4096 / (16 * 2048)}
"""A model of 36 layers of width 4096; activations grow with layers times width, here with 16 times 2048."""
LARGER_TEXT = """On paper, from the rows of most cards, a model of {billions:.1f} billion parameters (36 layers of width
4096) needs on {cards} cards, with rows of the same length:

{told}

Parameters, gradients and moments are shared by the cards. The rest of the measured memory is taken {activations:.1f}
times, as layers times width grow. The time grows with the parameters.
"""
LEARNING = """## Learning beside rejection sampling

A tiny policy is taught the form of an answer and learns on a CPU, by `make bench-learning` from its own logged
answers and by `make bench-online` from new ones. Rejection sampling is fine-tuning on those of as many judged answers
that passed, at the better of two rates. Shares are of new answers that are right; gains are in reward, with 95%
intervals. The newest row of each seed is shown; no setting was chosen on these seeds.

"""
CHOSEN_ON = 100
"""Settings were chosen on seeds up to this one."""
LEARNING_HEAD = (
    "| from | seed | commit | before | after | rejection sampling | gain | gain over rejection sampling "
    "| gain from shuffled verdicts |\n|---|---|---|---|---|---|---|---|---|\n"
)
FIRST_WINS = """## The first win

Seconds from the start of `optimize` until it knows of a kernel that is right and faster than the reference, by
`benchmarks/first_win.py`.

"""
FIRST_WINS_HEAD = "| `optimize` | machine | commit | problem read | first win |\n|---|---|---|---|---|\n"
PRECISIONS = {"same": "as written", "tf32": "in TF32"}
PRODUCTS = """## Matrix products

Matrix products in half precision by the built-in author, nothing around them, by `benchmarks/products.py`.

"""
PRODUCTS_HEAD = (
    "| rows, columns, inner | dtype | machine | commit | own kernel | of cuBLAS's speed |\n|---|---|---|---|---|---|\n"
)
NOT_SLOWER = 0.98
"""Of torch.compile's speed."""


def table() -> str:
    """Return a row for each benchmark and problem at its latest commit, with the best figures of both sides."""
    rows = []
    for path in sorted(RESULTS.glob("evaluator*.csv")):
        with path.open(encoding="utf-8") as file:
            found = [row for row in csv.DictReader(file) if row["figure"] == "throughput"]
        latest = {row["problem"]: row["measured_at"] for row in sorted(found, key=lambda row: row["measured_at"])}
        for problem, when in latest.items():
            rows.append(_row([row for row in found if row["problem"] == problem and row["measured_at"] == when]))
    return HEAD + "".join(rows)


def examples() -> str:
    """Return what `optimize` shipped for each example in its latest measurement, over eager and torch.compile."""
    with (RESULTS / "examples.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    latest = {row["example"]: row["measured_at"] for row in sorted(found, key=lambda row: row["measured_at"])}
    lines = []
    for example, when in sorted(latest.items()):
        rows = [row for row in found if row["example"] == example and row["measured_at"] == when]
        times = {(row["against"].split()[0], row["kind"]): row for row in rows}
        asked = [(against, kind) for against in ("eager", "compile") for kind in ("device", "latency")]
        figures = [_ratio(times[key]) if key in times else "nothing shipped" for key in asked]
        any_row = rows[0]
        cells = [f"`{example}`", any_row["gpu"], any_row["commit"], f"{float(any_row['command_s']):.0f} s", *figures]
        lines.append(_line(cells))
    return EXAMPLES_HEAD + "".join(lines)


def _ratio(row: dict[str, str]) -> str:
    return f"{float(row['speedup']):.2f}x ({float(row['low']):.2f} to {float(row['high']):.2f})"


def suite() -> str:
    """Return the built-in author's results on the problems of the suite that were tried; unsolved counts as 1."""
    lines = []
    for path in sorted((RESULTS / "suite_h200").glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["status"]]
        eager, over = (_speedups(rows, against) for against in ("eager", "compile"))
        means = [_geomean(ratios) for ratios in (eager, over, list(map(min, eager, over)))]
        faster, faster_yet = (
            sum(float(row[f"{against}_device_low"] or 1) > 1 for row in rows) / len(rows)
            for against in ("eager", "compile")
        )
        shares = [faster_yet, sum(ratio > NOT_SLOWER for ratio in over) / len(rows)]
        copied = [float(row["copy_fraction"]) for row in rows if row["dominant"] == "memory" and row["copy_fraction"]]
        solved = sum(row["passed"] not in ("", "0") for row in rows)
        commit = rows[0]["commit"].rpartition("+g")[2]
        any_row = rows[0]
        cells = [any_row["gpu"], commit, any_row["policy_version"], any_row["mode"], PRECISIONS[any_row["precision"]]]
        cells += [f"{solved} of {len(rows)}", f"{faster:.0%}", *(f"{mean:.2f}x" for mean in means)]
        cells += [f"{share:.0%}" for share in (*shares, statistics.median(copied))]
        lines.append(_line(cells))
    return SUITE_HEAD + "".join(lines)


def summary() -> str:
    """Return the README's table: the geometric means of the suite, a line for each mode."""
    lines = []
    for line in suite().removeprefix(SUITE_HEAD).splitlines():
        gpu, commit, _, mode, products, solved, _, eager, compiled, *_ = line.strip("| ").split(" | ")
        what = f"{'own kernels only' if mode == 'own-kernels' else 'library calls allowed'}, products {products}"
        lines.append(_line([what, gpu, commit, solved, eager, compiled]))
    return SUMMARY_HEAD + "".join(lines)


def first_files() -> str:
    """Return how fast the author's first files are by family, and over all."""
    with (RESULTS / "first_files_h200.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["over_compile"]]
    problems: dict[str, dict[str, float]] = {}
    for row in rows:
        problems.setdefault(row["problem"], {})[row["file"]] = float(row["over_compile"])
    families = sorted({name.partition("/")[0] for name in problems})
    lines = []
    for family in (*families, ""):
        found = [files for name, files in problems.items() if name.startswith(family)]
        first, best = [files.get("0", min(files.values())) for files in found], [max(files.values()) for files in found]
        shares = [sum(ratio > least for ratio in best) / len(best) for least in (1.0, NOT_SLOWER)]
        cells = [f"{_geomean(first):.2f}x", f"{_geomean(best):.2f}x", *(f"{share:.0%}" for share in shares)]
        lines.append(_line([family or "all", str(len(found)), *cells, f"{min(best):.2f}x"]))
    return FIRST_FILES.format(gpu=rows[0]["gpu"], commit=rows[0]["commit"]) + FIRST_FILES_HEAD + "".join(lines)


def products() -> str:
    """Return a line for each shape."""
    with (RESULTS / "products.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for row in rows:
        shape = row["shape"] if row["copies"] == "1" else f"{row['copies']} times {row['shape']}"
        share = f"{float(row['share']):.0%} ({float(row['low']):.1%} to {float(row['high']):.1%})"
        cells = [shape, row["dtype"], row["gpu"], row["commit"], f"{float(row['own_ms']) * 1e3:.0f} us", share]
        lines.append(_line(cells))
    return PRODUCTS_HEAD + "".join(lines)


def training() -> str:
    """Return the table of training at real size, and what follows from it for a larger model on more cards."""
    with (RESULTS / "train_size.csv").open(encoding="utf-8") as file:
        newest = {(row["kind"], int(row["processes"])): row for row in csv.DictReader(file)}
    lines = [
        _line(
            [
                f"`{kind}`",
                f"{cards} x {row['gpu']}",
                row["commit"],
                f"{int(row['tokens_per_second']):,}",
                f"{float(row['peak_gb_per_card']):.1f} GB",
                ", ".join(f"{float(loss):.4g}" for loss in row["losses"].split()),
                row["resumed"] or "not tried",
            ]
        )
        for (kind, cards), row in sorted(newest.items())
    ]
    return TRAINING_HEAD + "".join(lines) + "\n" + _larger(newest)


def _larger(rows: dict[tuple[str, int], dict[str, str]]) -> str:
    """Return memory and speed of the larger model, trained whole and as an adapter, from the rows of most cards."""
    told = []
    for kind, bytes_each in (("grpo", WHOLE_BYTES), ("grpo-lora", ADAPTED_BYTES)):
        cards, row = max((cards, row) for (one, cards), row in rows.items() if one == kind)
        parameters = int(row["parameters"])
        beside_gb = float(row["peak_gb_per_card"]) - bytes_each * parameters / cards / 1e9
        needed_gb = bytes_each * LARGER["parameters"] / LARGER["cards"] / 1e9 + beside_gb * LARGER["activations"]
        speed = int(row["tokens_per_second"]) / cards * parameters / LARGER["parameters"] * LARGER["cards"]
        told.append(f"- `{kind}`: {needed_gb:.0f} GB a card, for {speed:,.0f} tokens per second")
    return LARGER_TEXT.format(**LARGER, billions=LARGER["parameters"] / 1e9, told="\n".join(told))


def learning() -> str:
    """Return the table of tiny policies that learn from logged and from new answers."""
    kinds = (
        ("logged answers", "learning.csv", "correct_before", "correct_after", ["correct_rejection"]),
        (
            "new answers",
            "online_learning.csv",
            "correct_taught",
            "correct_online",
            ["correct_rejection_same_rate", "correct_rejection_own_rate"],
        ),
    )
    lines = []
    for kind, file, before, after, rejection in kinds:
        with (RESULTS / file).open(encoding="utf-8") as rows:
            found = [row for row in csv.DictReader(rows) if row["over_rejection"] and int(row["seed"]) > CHOSEN_ON]
        newest = {int(row["seed"]): row for row in found}
        for seed, row in sorted(newest.items()):
            shares = [float(row[before]), float(row[after]), max(float(row[name]) for name in rejection)]
            gains = [_gain(row, name) if name in row else "" for name in ("gain", "over_rejection", "control")]
            lines.append(_line([kind, str(seed), row["commit"], *(f"{share:.0%}" for share in shares), *gains]))
    return LEARNING_HEAD + "".join(lines)


def _gain(row: dict[str, str], name: str) -> str:
    value, low, high = (float(row[key]) for key in (name, f"{name}_low", f"{name}_high"))
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def _line(cells: list[str]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |\n"


def first_wins() -> str:
    """Return the latest time of each example, and the median, where no win is later than any."""
    with (RESULTS / "first_win.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    latest = {row["example"]: row["measured_at"] for row in sorted(found, key=lambda row: row["measured_at"])}
    lines, wins = [], []
    for example, when in sorted(latest.items()):
        rows = {row["milestone"]: row for row in found if (row["example"], row["measured_at"]) == (example, when)}
        read, win = rows["problem read"], rows.get("first win")
        wins.append(float(win["median_s"]) if win else math.inf)
        seconds = f"{wins[-1]:.1f} s" if win else "none"
        lines.append(_line([f"`{example}`", read["gpu"], read["commit"], f"{float(read['median_s']):.1f} s", seconds]))
    lines.append(_line(["the median", "", "", "", f"{statistics.median(wins):.1f} s"]))
    return FIRST_WINS_HEAD + "".join(lines)


def _speedups(rows: list[dict[str, str]], against: str) -> list[float]:
    return [float(row[f"{against}_device_speedup"] or 1) for row in rows]


def _geomean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _row(rows: list[dict[str, str]]) -> str:
    best = {name: _best(rows, name) for name in ("evaluator", "fresh process")}
    ours, fresh = float(best["evaluator"]["value"]), float(best["fresh process"]["value"])
    any_row = rows[0]
    machine = f"{any_row['cores']} cores, {'no GPU' if any_row['device'] == 'cpu' else any_row['gpu']}"
    figures = [f"{float(row['value']):.2f}/s ({row['workers']} at once)" for row in best.values()]
    cells = [f"verdicts, `{any_row['problem']}`", machine, any_row["commit"], *figures, f"{ours / fresh:.1f}x"]
    return _line(cells)


def _best(rows: list[dict[str, str]], arrangement: str) -> dict[str, str]:
    return max((row for row in rows if row["arrangement"] == arrangement), key=lambda row: float(row["value"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of measured figures from the CSV files.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(START)
    readme = before + START + "\n" + summary() + "\n" + END + rest.split(END)[1]
    tables = (
        table(),
        SHIPPED,
        examples(),
        AUTHOR,
        suite(),
        first_files(),
        FIRST_WINS,
        first_wins(),
        PRODUCTS,
        products(),
        TRAINING,
        training(),
        LEARNING,
        learning(),
    )
    page = INTRODUCTION + "\n".join(table.strip("\n") + "\n" for table in tables)
    known = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if check and (readme, page) != (text, known):
        sys.exit("the results are out of date: run python docs/make_results.py")
    README.write_text(readme, encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
