"""Writes the tables of recipes in docs/training.md from `policy/train/prepare/recipes.py`.

python docs/make_recipes.py            write them
python docs/make_recipes.py --check    only say whether they are up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from triton_agent.policy.train.prepare.recipes import DRPO, NEEDS, RECIPES, Recipe

PAGE = Path(__file__).parent / "training.md"
START, END = "<!-- made by docs/make_recipes.py -->", "<!-- end -->"


def tables() -> str:
    recipes = _table(
        ("recipe", "source", "reward of a turn", "credit", "loss"),
        ((f"`{one.name}`", one.source, one.formula, _credit(one), _loss(one)) for one in RECIPES.values()),
    )
    users = {part: [f"`{one.name}`" for one in RECIPES.values() if part in one.parts] for part in NEEDS}
    parts = _table(
        ("part", "computed from", "paid by"), ((f"`{part}`", NEEDS[part], ", ".join(users[part])) for part in NEEDS)
    )
    return f"{recipes}\n\n{parts}"


def _credit(recipe: Recipe) -> str:
    baseline = {
        "trloo": "minus the mean of the other trajectories",
        "grpo": "minus the mean, divided by the deviation",
        "dr_grpo": "minus the mean",
        DRPO: "right: softmax(ln S / 0.1), wrong: -softmax(mean log-probability / 10)",
    }[recipe.baseline]
    words = [
        f"discount {recipe.gamma:g}",
        f"{baseline} ({'same turn' if recipe.scope == 'turn' else 'all turns'})",
    ]
    words += ["plan and code credited separately"] if recipe.plan_parts is not None else []
    words += ["repairs and improvements compared separately"] if recipe.compare_starts else []
    words += ["large groups weighted down"] if recipe.balance_groups else []
    words += ["difficult groups favoured"] if recipe.favour_difficult else []
    shaping = f"shaped by progress (lambda {recipe.td_lambda:g})"
    return ", ".join(words + ([shaping] if recipe.potentials else []))


def _loss(recipe: Recipe) -> str:
    clip = f"clip {recipe.clip_low:g} to {recipe.clip_high:g}"
    if recipe.baseline == DRPO:
        clip = "no clip, but 1000 max(KL - 1e-4, 0) KL from the policy that sampled"
    words = [clip, f"mean by {recipe.reduction}"]
    if recipe.geometric_band is not None:
        low, high = recipe.geometric_band
        words.append(f"only answers with a mean ratio from {low:g} to {high:g} at the update")
    return ", ".join(words + (["right answers with a small share dropped at random"] if recipe.share_rejection else []))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [list(head), *map(list, rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(cells[0]), *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of recipes in docs/training.md.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    page = f"{before}{START}\n{tables()}\n{END}{rest.split(END)[1]}"
    if check and page != text:
        sys.exit("the tables of recipes are out of date: run python docs/make_recipes.py")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
