"""Named recipes for rewards and credit; `default` combines what helped most in the others.

A recipe defines the reward of a verdict (`pays`), which tokens are credited with which parts, and how turns become
advantages. All recipes agree on five rules. Without a verdict there is no reward. A hack gets the recipe's worst reward
and is marked. A problem that `check-problem` flagged pays nothing for honest answers. A copy of a kernel in the prompt
or of an earlier answer earns nothing. Speed is paid only as far as the measurement supports it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from triton_agent.policy.train.record import rewards
from triton_agent.policy.train.record.rewards import Facts, Reward
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Evaluation, Status

Parts = dict[str, float | None]
DRPO = "drpo"
"""Baseline of DRPO. It comes with a loss that has no clip, see `update/grpo.py`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A reward and its credit assignment. Numbers are those of the source's authors where they state them, otherwise
    ours.
    """

    name: str
    formula: str
    """Reward of a turn; C is 1 for a right answer, else 0, and S its speed-up over eager."""
    source: str
    """Publication that the recipe follows."""
    pays: Callable[[Evaluation, Facts], Parts]
    """Returns the parts of the reward of an honest candidate on a sound problem."""
    parts: tuple[str, ...]
    """Names of all parts that it may pay."""
    worst: float
    """Reward of a hack; no honest candidate gets less."""
    gamma: float = 1.0
    """Discount of later turns' rewards; 1 counts them in full."""
    baseline: str = "grpo"
    """Baseline of a return: `grpo`, `trloo`, `dr_grpo` or `drpo`; see `credit.py`."""
    scope: str = "group"
    """Turns that the baseline averages: `group` for all turns of all trajectories, `turn` for the turns with the same
    number.
    """
    plan_parts: frozenset[str] | None = None
    """Parts that are credited to plan tokens; None credits all tokens with all parts."""
    code_parts: frozenset[str] | None = None
    alpha: float = 1.0
    """Weight of the plan tokens in the objective."""
    clip_low: float = 0.2
    clip_high: float = 0.2
    reduction: str = "token"
    """How a batch's loss is averaged: over `token`s, over `sequence`s, or by a `constant` length."""
    geometric_band: tuple[float, float] | None = None
    """Range of the geometric-mean likelihood ratio (trained over sampled) within which an answer is trained on at the
    update; None for no limit.
    """
    share_rejection: bool = False
    """Randomly drop right answers whose own kernels take a small share of the device time."""
    balance_groups: bool = False
    """Give groups with many samples no more weight than groups with few."""
    favour_difficult: bool = False
    """Give more weight to groups that seldom succeed."""
    compare_starts: bool = False
    """Compare turns whose prompts contained a kernel that passed only with each other, and all others likewise."""
    novelty: float = 0.0
    """Weight of the part for right answers with a structure that is rare among those of the group."""
    reasoning: float = 0.0
    """Weight of the part for plans that make a right answer likelier."""
    potentials: Mapping[Status, float] = dataclasses.field(default_factory=dict)
    """Progress of each status, which shapes returns. Empty for no shaping."""
    td_lambda: float = 1.0
    """Weight of a turn's observed later turns in a shaped return; the rest is on the progress that it made itself.
    1 makes progress a mere baseline.
    """

    @property
    def has_clip(self) -> bool:
        """True if the loss clips likelihood ratios; the one of DRPO has a constraint instead."""
        return self.baseline != DRPO

    def __post_init__(self) -> None:
        if (self.plan_parts is None) != (self.code_parts is None):
            raise ValueError("either both kinds of token have parts of their own, or neither")
        if not 0.0 <= self.td_lambda <= 1.0:
            raise UsageError(f"td_lambda={self.td_lambda:g}", remedy="a number from 0 to 1")


def grade(recipe: Recipe, evaluation: Evaluation | None, facts: Facts | None = None) -> Reward:
    """Compute the reward of one turn. Without an evaluation there is none, and the turn is masked out."""
    facts = facts or Facts()
    if evaluation is None:
        return Reward.unmeasured(recipe.name, "could not be measured")
    if evaluation.status is Status.CHEATED:
        return Reward.of(recipe.name, {rewards.HACK: recipe.worst}, hack=True, why=f"cheated: {evaluation.finding}")
    passed = evaluation.status is Status.PASSED
    if facts.problem_sound is False:
        return Reward.of(recipe.name, {}, passed=passed, why="the problem was flagged by check-problem")
    parts = recipe.pays(evaluation, facts)
    paid = math.fsum(value for value in parts.values() if value is not None)
    if paid < recipe.worst:
        raise ValueError(f"{recipe.name} pays {paid}, less than a hack gets ({recipe.worst})")
    return Reward.of(recipe.name, parts, passed=passed)


NEEDS: Mapping[str, str] = {
    rewards.RULE: "verdict, text",
    rewards.CORRECT: "verdict",
    rewards.SPEED: "device times against eager (GPU)",
    rewards.GAIN: "device times against eager, of the candidate and of the kernels in the prompt (GPU)",
    rewards.SHARE: "profile (GPU)",
    rewards.MILESTONE: "device times against eager and torch.compile (GPU)",
    rewards.OVERLONG: "`sampling.tokens_at_most`",
    rewards.NOVELTY: "texts of the candidates of the group",
    rewards.REASONING: "tokens, text, a right answer in the group; scored by the model in training",
}
"""Records that each part is computed from."""


def unpaid(recipe: Recipe, paid: Iterable[Reward]) -> list[str]:
    """Return the recipe's parts that have no measured value in any of these rewards."""
    found = {name for reward in paid for name, value in reward.parts.items() if value is not None}
    return [name for name in recipe.parts if name not in found]


def recipe_named(text: str) -> Recipe:
    """Return a recipe by name, with settings that may replace its own, as in `default,baseline=grpo,without=rule`.

    `without` removes a part of the reward. A changed recipe is named by the whole text.
    """
    name, *changes = text.split(",")
    if name not in RECIPES:
        raise UsageError(f"no recipe {name!r}", remedy=f"one of {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    for change in changes:
        setting, _, value = change.partition("=")
        known = getattr(recipe, setting, None)
        replaced: dict[str, Any] = {}
        if setting == "without" and value in recipe.parts:
            recipe = _without(recipe, value)
        elif isinstance(known, bool) and value in ("yes", "no"):
            replaced[setting] = value == "yes"
        elif value in CHOICES.get(setting, ()):
            replaced[setting] = value
        elif isinstance(known, float) and _is_number(value):
            replaced[setting] = float(value)
        else:
            raise UsageError(
                f"recipe {text}: {change} means nothing",
                remedy="SETTING=NUMBER, SETTING=yes or no, without=PART, "
                + ", ".join(f"{name}={' or '.join(words)}" for name, words in CHOICES.items()),
            )
        recipe = dataclasses.replace(recipe, **replaced)
    return dataclasses.replace(recipe, name=text) if changes else recipe


CHOICES: Mapping[str, tuple[str, ...]] = {
    "baseline": ("grpo", "trloo", "dr_grpo"),
    "scope": ("group", "turn"),
    "reduction": ("token", "sequence", "constant"),
}
"""Settings of a recipe that have words as values, and their values."""


def _without(recipe: Recipe, part: str) -> Recipe:
    """Remove a part of the reward."""
    pays, weights = recipe.pays, {rewards.NOVELTY: "novelty", rewards.REASONING: "reasoning"}
    kept = tuple(name for name in recipe.parts if name != part)
    if part in weights:  # the part is paid by comparison with other samples
        return dataclasses.replace(recipe, parts=kept, **{weights[part]: 0.0})  # type: ignore[arg-type]

    def others(evaluation: Evaluation, facts: Facts) -> Parts:
        return {name: value for name, value in pays(evaluation, facts).items() if name != part}

    return dataclasses.replace(recipe, parts=kept, pays=others)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _right(evaluation: Evaluation) -> bool:
    return evaluation.status is Status.PASSED


def _autotriton(evaluation: Evaluation, facts: Facts) -> Parts:
    """Pay 1 for a right answer in Triton. In the paper the rule is a factor; here an answer without Triton does not
    pass anyway.
    """
    return {rewards.CORRECT: 1.0 if _right(evaluation) else 0.0}


def _tritonrl(evaluation: Evaluation, facts: Facts) -> Parts:
    if not _right(evaluation):
        return {rewards.CORRECT: 0.0}
    speed = rewards.linear_speed(rewards.speedup_over(evaluation, "eager"), most=2.0)
    return {rewards.CORRECT: 1.0, rewards.SPEED: speed}


def _kevin(evaluation: Evaluation, facts: Facts) -> Parts:
    if not _right(evaluation):
        return {rewards.CORRECT: 0.0}
    return {rewards.CORRECT: 0.3, rewards.SPEED: rewards.linear_speed(rewards.speedup_over(evaluation, "eager"))}


def _drkernel(evaluation: Evaluation, facts: Facts) -> Parts:
    if not _right(evaluation):
        return {rewards.CORRECT: 0.0}
    speed = rewards.linear_speed(rewards.speedup_over(evaluation, "eager"), most=3.0)
    return {rewards.CORRECT: 1.0, rewards.SPEED: speed, rewards.SHARE: facts.kernel_share}


def _milestones(evaluation: Evaluation, facts: Facts) -> Parts:
    if not _right(evaluation):
        return {rewards.CORRECT: -1.0}
    return {rewards.CORRECT: 1.0, rewards.MILESTONE: _milestones_reached(evaluation)}


def _milestones_reached(evaluation: Evaluation) -> float | None:
    """Return 1 if ahead of eager, 2 if also ahead of torch.compile; None if it was not timed."""
    over_eager = rewards.ahead(rewards.speedup_over(evaluation, "eager"))
    over_compile = rewards.ahead(rewards.speedup_over(evaluation, "compile"))
    if not over_eager:
        return None if over_eager is None else 0.0
    return 2.0 if over_compile else 1.0


def _drpo(evaluation: Evaluation, facts: Facts) -> Parts:
    """Pay 1 and the logarithm of the speed-up for a right answer, at least 0. The weight of an answer as slow as that
    is 5e-5 of an answer as fast as eager.
    """
    if not _right(evaluation):
        return {rewards.CORRECT: 0.0}
    doublings = rewards.log_speed(rewards.speedup_over(evaluation, "eager"), least=-1 / math.log(2), most=math.inf)
    return {rewards.CORRECT: 1.0, rewards.SPEED: None if doublings is None else doublings * math.log(2)}


NOT_TRITON_COST = 0.25
"""Cost of an answer without Triton, which is worse than a kernel that fails and much better than a cheat."""
SPEED_WEIGHT = 0.5
SPEED_MOST = 3.0
"""Most doublings that are paid. Beyond eightfold, a speed-up says more about the reference than about the kernel."""
SPEED_LEAST = -1.0
SHARE_WEIGHT = 0.25
MILESTONE_WEIGHT = 0.25
OVERLONG_WEIGHT = 0.5
NOVELTY_WEIGHT = 0.05
REASONING_WEIGHT = 0.1


def _default(evaluation: Evaluation, facts: Facts) -> Parts:
    """Pay for being right, then for speed; nothing for compiling alone, which others found to be harmful.

    If the prompt contained a kernel that passed, pay only for the gain over it.
    """
    valid = rewards.launches_triton(evaluation, facts.source)
    parts: Parts = {rewards.RULE: 0.0 if valid else -NOT_TRITON_COST}
    if facts.shown_passed:
        doublings: float | None = 0.0
        if _right(evaluation):
            over_eager = rewards.speedup_over(evaluation, "eager")
            doublings = rewards.gain(over_eager, facts.shown_speedup, most=SPEED_MOST)
        parts[rewards.GAIN] = None if doublings is None else SPEED_WEIGHT * doublings
    elif _right(evaluation):
        parts |= {rewards.CORRECT: 1.0, **_default_speed(evaluation, facts)}
    else:
        parts[rewards.CORRECT] = 0.0
    if facts.token_limit:
        parts[rewards.OVERLONG] = OVERLONG_WEIGHT * rewards.overlong(facts.tokens, facts.token_limit)
    return parts


def _default_speed(evaluation: Evaluation, facts: Facts) -> Parts:
    over_eager = rewards.speedup_over(evaluation, "eager")
    doublings = rewards.log_speed(over_eager, least=SPEED_LEAST, most=SPEED_MOST)
    stones = _milestones_reached(evaluation)
    return {
        rewards.SPEED: None if doublings is None else SPEED_WEIGHT * doublings,
        rewards.MILESTONE: None if stones is None else MILESTONE_WEIGHT * stones,
        rewards.SHARE: None if facts.kernel_share is None else SHARE_WEIGHT * facts.kernel_share,
    }


PROGRESS: Mapping[Status, float] = {
    Status.NO_ANSWER: 0.0,
    Status.NOT_TRITON: 0.0,
    Status.CHEATED: 0.0,
    Status.COMPILE_ERROR: 0.05,
    Status.RUNTIME_ERROR: 0.1,
    Status.OUT_OF_MEMORY: 0.1,
    Status.TIMEOUT: 0.1,
    Status.WRONG_SHAPE: 0.15,
    Status.WRONG_DTYPE: 0.15,
    Status.WRONG_VALUES: 0.2,
    Status.PASSED: 0.5,
}
"""Progress of each status: about the return that is to be expected from there. Others found that paying for progress is
harmful. Here it cancels in the sum over an episode, and it counts only among turns whose results differ.
"""
TD_LAMBDA = 0.5
"""Halves the noise in the credit of first turns, compared with 1; 0 would reduce it little further (docs/log.md)."""

EVERYTHING = frozenset(rewards.PARTS)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="default",
            formula=(
                "C + doublings / 2 + milestones / 4 + share / 4; if the prompt contains a kernel that passed, only the"
                " doublings gained over it; less without Triton and for long answers, slightly more for rare structures"
                " of right answers and for plans that help"
            ),
            source="what helped most in the others",
            pays=_default,
            parts=tuple(sorted(EVERYTHING - {rewards.FORMAT, rewards.HACK})),
            worst=-1.0,
            gamma=0.4,
            baseline="trloo",
            scope="turn",
            plan_parts=EVERYTHING,
            code_parts=EVERYTHING - {rewards.REASONING},
            compare_starts=True,
            novelty=NOVELTY_WEIGHT,
            reasoning=REASONING_WEIGHT,
            clip_high=0.28,
            share_rejection=True,
            balance_groups=True,
            favour_difficult=True,
            potentials=PROGRESS,
            td_lambda=TD_LAMBDA,
        ),
        Recipe(
            name="autotriton",
            formula="C",
            source="AutoTriton",
            pays=_autotriton,
            parts=(rewards.CORRECT,),
            worst=0.0,
            reduction="sequence",
        ),
        Recipe(
            name="tritonrl",
            formula="C to the code, C min(S, 2) to the plan",
            source="TritonRL",
            pays=_tritonrl,
            parts=(rewards.CORRECT, rewards.SPEED),
            worst=0.0,
            plan_parts=frozenset({rewards.SPEED}),
            code_parts=frozenset({rewards.CORRECT}),
            alpha=0.1,
        ),
        Recipe(
            name="kevin",
            formula="0.3 C + C S",
            source="Kevin-32B",
            pays=_kevin,
            parts=(rewards.CORRECT, rewards.SPEED),
            worst=0.0,
            gamma=0.4,
            clip_high=0.28,
            reduction="constant",
        ),
        Recipe(
            name="drkernel",
            formula="C (1 + min(S, 3) + share)",
            source="Dr. Kernel",
            pays=_drkernel,
            parts=(rewards.CORRECT, rewards.SPEED, rewards.SHARE),
            worst=0.0,
            baseline="trloo",
            scope="turn",
            clip_high=0.28,  # this and the averaging are those of the authors' published script
            reduction="constant",
            geometric_band=(0.999, 1.001),
            share_rejection=True,
        ),
        Recipe(
            name="milestones",
            formula="-1 if wrong, 1 if right, 2 if faster than eager, 3 if also faster than torch.compile",
            source="CUDA Agent",
            pays=_milestones,
            parts=(rewards.CORRECT, rewards.MILESTONE),
            worst=-1.0,
        ),
        Recipe(
            name=DRPO,
            formula="C (1 + ln S)",
            source="DRTriton, DRPO",
            pays=_drpo,
            parts=(rewards.CORRECT, rewards.SPEED),
            worst=0.0,
            gamma=0.0,
            baseline=DRPO,
            scope="turn",
            reduction="sequence",
            balance_groups=True,
        ),
    )
}
