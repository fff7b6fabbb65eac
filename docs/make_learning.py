"""Write docs/learning.md and its plots from the rows of `benchmarks/learn.py`, so that no figure is typed by hand.

python docs/make_learning.py [--check]
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "learning.md"
CSV = ROOT / "benchmarks" / "results" / "learn.csv"
Row = Mapping[str, str]

INTRODUCTION = """# Learning from nothing

Written by `python docs/make_learning.py` from the rows in [benchmarks/results](../benchmarks/results), which hold all
figures, curves, costs and versions. `make learn` runs the chain on a GPU and adds rows; `make learn SCALE=smoke` does
so on a CPU. A chain that was interrupted continues; seconds are given for commands that ran without interruption.

The smoke scale is there to run every command from end to end. Its few problems and minutes of training do not say how
well a policy learns.

The chain uses neither downloaded weights nor a teacher: a new decoder is fine-tuned on kernels that the built-in author
wrote for composed problems (`data make`), then trained by multi-turn GRPO with the evaluator's verdicts as reward. The
pairs of steps in held-out problems, and their sets of operators, do not occur in problems to train on.

| policy | made by |
|---|---|
| untrained | `policy init`: random weights, a tokenizer trained on the data; no answer of it was valid |
| sft | `train sft` on the data; the weights with the lowest validation loss |
| logged | `train grpo` on logged runs of `sft` alone |
| rejection | `train sft` on those answers of the same runs that passed |
| online | `train grpo --online`, with as many episodes as were logged |
| others | online training with one setting changed: exploratory |
| ... greedy | the likeliest answer in place of samples: a gain that is missing here came of surer samples alone |
| ... on a GPU | the same answers; those that passed on the CPU were judged once more on the GPU, and timed there |

An episode has several turns. It is correct if one of its turns passed; `correct@4` is the probability that one of four
episodes is correct, and `correct first turn@1` counts the first turn alone. `fast_1@1` counts episodes with a right
kernel that is faster than the baseline with confidence. `valid`, `compiled` and `hack` are shares of all answers.
Brackets are 95% intervals over problems, too narrow for fewer than about ten; differences are paired by problem.

"""
NAMES = {"smoke": "Smoke: a CPU", "short": "Short: one GPU for half an hour", "gpu": "One GPU"}
NOT_MEASURED = """## One GPU

Not measured yet: the repository holds no rows of this scale. `make learn` makes them.

"""
OUTLOOK = """## Larger models

Every stage is an ordinary command. For a pretrained model, leave out `policy init`, train it with `--lora` or in
several processes, and sample with `--engine vllm`. A pretrained model knows Python and Triton, so it starts above the
fine-tuned policies here and needs no tokenizer made for the data; problems harder than `tiny` are then worth composing.
"""


def page() -> tuple[str, dict[Path, str]]:
    """Return the page and the plots by file."""
    rows = list(csv.DictReader(CSV.open(newline="", encoding="utf-8"))) if CSV.exists() else []
    text, plots = INTRODUCTION, dict[Path, str]()
    for scale, title in NAMES.items():
        own = [row for row in rows if row["scale"] == scale]
        if not own:
            text += NOT_MEASURED if scale == "gpu" else ""
            continue
        latest = {row["seed"]: row["measured_at"] for row in own}  # rows are in the order in which they were added
        text += f"## {title}\n\n"
        for seed, measured_at in sorted(latest.items()):
            text += _section([row for row in own if (row["seed"], row["measured_at"]) == (seed, measured_at)], plots)
    return text + OUTLOOK, plots


def _section(rows: Sequence[Row], plots: dict[Path, str]) -> str:
    """Return tables and plots of one chain."""
    first = rows[0]
    machine = f"{first['cores']} cores of {first['cpu']}" if first["gpu"] == "none" else first["gpu"]
    told = f"Seed {first['seed']}, commit {first['commit']}, {machine}, torch {first['torch']}.\n\n"
    settings = [f"{row['figure']} {float(row['value']):g}" for row in rows if row["kind"] == "setting"]
    told += f"Settings, named as in `benchmarks/learn.py`: {', '.join(settings)}.\n\n" if settings else ""
    data = [row for row in rows if row["kind"] == "data"]
    told += "".join(f"- {row['figure']}: {float(row['value']):,.0f}\n" for row in data) + "\n"
    figures = [row for row in rows if row["kind"] == "figure"]
    told += "Held-out problems:\n\n" + _crossed(figures, lambda row: row["policy"], "policy") + "\n"
    gains = [row for row in rows if row["kind"] == "gain"]
    named = _crossed(gains, lambda row: f"{row['policy']} over {row['over']}", "difference")
    told += "Differences, paired by problem:\n\n" + named + "\n"
    for name, title, wanted in (
        ("sft", "Fine-tuning: loss by step", {"sft": ("loss", "eval_loss")}),
        ("online", "Online: share of right answers in the last turn, and reward, by update", None),
    ):
        curves: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            ours = wanted or {row["policy"]: ("correct", "reward")}
            if row["kind"] == "curve" and row["figure"] in ours.get(row["policy"], ()):
                label = row["figure"] if wanted else f"{row['policy']}: {row['figure']}"
                curves.setdefault(label, []).append((float(row["step"]), float(row["value"])))
        if curves:
            file = f"learning_{first['scale']}_{first['seed']}_{name}.svg"
            plots[PAGE.parent / file] = plot(title, curves)
            told += f"![{title}]({file})\n\n"
    costs = [row for row in rows if row["kind"] == "cost"]
    told += "| command | seconds |\n|---|---|\n"
    told += "".join(f"| {row['policy']} | {float(row['value']):,.0f} |\n" for row in costs) + "\n"
    totals = ("answers", "verdicts reached", "verdicts a second")
    spent = [row for row in rows if row["kind"] == "curve" and (":" in row["figure"] or row["figure"] in totals)]
    for policy in dict.fromkeys(row["policy"] for row in spent):
        parts = [f"{row['figure']} {_total(row)}" for row in spent if row["policy"] == policy]
        told += f"Online training `{policy}`: {', '.join(parts)}.\n\n"
    return told


def _total(row: Row) -> str:
    value = float(row["value"])
    return f"{value:,.0f}" if value >= 100 or value.is_integer() else f"{value:.1f}"


def _crossed(rows: Sequence[Row], name_of: Callable[[Row], str], head: str) -> str:
    """Return a table with a line for each policy and a column for each figure."""
    columns = list(dict.fromkeys(row["figure"] for row in rows))
    cells = {(name_of(row), row["figure"]): _cell(row) for row in rows}
    lines = [f"| {head} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(map(name_of, rows)):
        lines.append(f"| {name} | " + " | ".join(cells.get((name, column), "") for column in columns) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    if not row["low"]:
        return f"{float(row['value']):g}"
    return f"{float(row['value']):.3f} [{float(row['low']):.3f}, {float(row['high']):.3f}]"


WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 56, 32, 28
COLOURS = ("#1f6feb", "#d1670c", "#2da44e", "#8250df", "#bf3989", "#57606a")
DASHES = ("", "6 3", "2 3", "9 3 2 3")


def plot(title: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw curves as an SVG image; colour and dashes tell them apart."""
    points = [point for curve in curves.values() for point in curve]
    right, low, high = max(x for x, _ in points) or 1.0, min(0.0, *(y for _, y in points)), max(y for _, y in points)
    high = high if high > low else low + 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / right * (WIDTH - LEFT - 190)
        return across, HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>']
    for part in range(5):
        value = low + (high - low) * part / 4
        _, y = place(0, value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 190}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for part in range(5):
        x, _ = place(right * part / 4, low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{right * part / 4:.0f}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        style = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        line = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in sorted(curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke-width="2" {style}/>')
        y = TOP + 8 + 18 * number
        parts.append(f'<path d="M{WIDTH - 182} {y}h24" stroke-width="2" {style}/>')
        parts.append(f'<text x="{WIDTH - 152}" y="{y + 4}">{escape(name)}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" fill="#888">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/learning.md and its plots from the rows in learn.csv.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    text, plots = page()
    files = {PAGE: text, **plots}
    stale = [path for path, wanted in files.items() if not path.exists() or path.read_text("utf-8") != wanted]
    if check and stale:
        sys.exit("the page of learning is out of date: run python docs/make_learning.py")
    for path in stale:
        path.write_text(files[path], encoding="utf-8")


if __name__ == "__main__":
    main()
