"""Writes the tables of recipes in docs/training.md from `policy/train/prepare/recipes.py`.

python docs/make_recipes.py            write them
python docs/make_recipes.py --check    only say whether they are up to date
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from triton_agent.policy.train.prepare.credit import REWARD_TEMPERATURE, SCORE_TEMPERATURE
from triton_agent.policy.train.prepare.off_policy import (
    DIVERGENCE_AT_MOST,
    DIVERGENCE_WEIGHT,
    SHARE_NONE,
    SHARE_RANGE,
    TOKEN_VETO,
    WEIGHT_CAP,
)
from triton_agent.policy.train.prepare.recipes import DRPO, NEEDS, RECIPES, Recipe
from triton_agent.policy.train.update.start import LOSS_SLACK

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
    methods = _table(
        ("method", "formula", "source", "computed from", "used by"),
        ((one.name, one.formula, one.source, one.needs, one.where()) for one in METHODS),
    )
    return f"{recipes}\n\n{parts}\n\n{methods}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    name: str
    formula: str
    source: str
    needs: str
    """Records that it is computed from."""
    option: str = ""
    used: Callable[[Recipe], object] | None = None
    """Returns true for recipes that have it."""

    def where(self) -> str:
        found = [f"`{one.name}`" for one in RECIPES.values() if self.used and self.used(one)]
        recipes = "all recipes" if len(found) == len(RECIPES) else ", ".join(found)
        option, comma, rest = self.option.partition(",")
        return " or ".join(filter(None, (recipes, f"`{option}`{comma}{rest}" if option else "")))


TOKENS = "tokens, log-probabilities, sampling settings"
HELD_CLOSE = f"{DIVERGENCE_WEIGHT:g} max(KL - {DIVERGENCE_AT_MOST:g}, 0) KL"
"""Constraint of DRPO on the divergence from the policy that sampled."""
METHODS = (
    Method(
        name="higher upper clip",
        formula="min(r A, clip(r, 1 - a, 1 + b) A), b > a, r = p(now) / p(sampled)",
        source="DAPO",
        needs=TOKENS,
        used=lambda recipe: recipe.clip_high > recipe.clip_low,
    ),
    Method(
        name="mean by a constant length",
        formula="sum over tokens / (answers x longest answer)",
        source="Dr. GRPO, Kevin-32B",
        needs="tokens",
        used=lambda recipe: recipe.reduction == "constant",
    ),
    Method(
        name="leave-one-out baseline",
        formula="G - mean of the others' G",
        source="Dr. Kernel (TRLOO)",
        needs="group, turn number",
        used=lambda recipe: recipe.baseline == "trloo",
    ),
    Method(
        name="plan and code apart",
        formula="alpha A(plan parts) on plan tokens, A(code parts) on code tokens",
        source="TritonRL",
        needs="tokens, text of the answer and the file",
        used=lambda recipe: recipe.plan_parts,
    ),
    Method(
        name="worth of a plan",
        formula="tanh(log p(right code after prompt and plan) - log p(right code after prompt)), per token",
        source="DRER",
        needs="tokens, text, a right answer in the group",
        used=lambda recipe: recipe.reasoning,
    ),
    Method(
        name="shaping by progress",
        formula="R + γφ(after) - φ(before), later turns by (γλ)^k",
        source="Ng et al. 1999; TD(λ)",
        needs="verdict and parent of each attempt",
        used=lambda recipe: recipe.potentials and recipe.td_lambda < 1,
    ),
    Method(
        name="rejection of mismatched answers",
        formula=f"geometric mean of r within a band at the update, no r < {TOKEN_VETO:g}",
        source="Dr. Kernel (MRS)",
        needs=TOKENS,
        used=lambda recipe: recipe.geometric_band,
    ),
    Method(
        name="rejection by device time",
        formula=f"kept with probability clip((share - {SHARE_NONE:g}) / {SHARE_RANGE:g}, 0, 1)",
        source="Dr. Kernel (PRS)",
        needs="profile (GPU)",
        used=lambda recipe: recipe.share_rejection,
    ),
    Method(
        name="decoupled rewards",
        formula=(
            f"sum of w (s - {SCORE_TEMPERATURE:g} logsumexp(s(wrong) / {SCORE_TEMPERATURE:g})),"
            f" w = softmax(ln S / {REWARD_TEMPERATURE:g}) over right answers, s = mean log p; minus {HELD_CLOSE}"
        ),
        source="DRPO",
        needs=f"{TOKENS}, device times against eager (GPU)",
        used=lambda recipe: recipe.baseline == DRPO,
    ),
    Method(
        name="verdicts that change",
        formula="the newest verdict of an attempt counts",
        source="VERIRL (trace-back rescoring)",
        needs="gradings of an attempt, by time",
        used=lambda recipe: True,
    ),
    Method(
        name="proximal policy",
        formula=f"A min(p(before the step) / p(sampled), {WEIGHT_CAP:g}), clipped around p(before the step)",
        source="decoupled PPO",
        needs=TOKENS,
        option="--proximal, the default",
    ),
    Method(
        name="divergence from the first model",
        formula="minus weight x r (q/p - ln(q/p) - 1), q of the first model",
        source="GRPO, AutoTriton",
        needs="tokens",
        option="--kl",
    ),
    Method(
        name="entropy bonus",
        formula="plus weight x mean entropy of the answers' tokens",
        source="PPO",
        needs="tokens",
        option="--entropy-bonus",
    ),
    Method(
        name="dual clip",
        formula="min(r, limit) A if A < 0",
        source="dual-clip PPO",
        needs=TOKENS,
        option="--dual-clip",
    ),
    Method(
        name="batches of tokens",
        formula="sum over N tokens / N; an answer at the end of a batch is continued in the next",
        source="C3PO (Ring-lite)",
        needs="tokens",
        option="--batch-tokens",
    ),
    Method(
        name="start by entropy",
        formula=f"highest entropy of own answers, among checkpoints with a loss within {LOSS_SLACK:g} of the best",
        source="Ring-lite",
        needs="prompts and tokens of answers that passed",
        option="--start-by entropy",
    ),
)


def _credit(recipe: Recipe) -> str:
    baseline = {
        "trloo": "minus the mean of the other trajectories",
        "grpo": "minus the mean, divided by the deviation",
        "dr_grpo": "minus the mean",
        DRPO: (
            f"right: softmax(ln S / {REWARD_TEMPERATURE:g}), "
            f"wrong: -softmax(mean log-probability / {SCORE_TEMPERATURE:g})"
        ),
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
        clip = f"no clip, but {HELD_CLOSE} from the policy that sampled"
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
