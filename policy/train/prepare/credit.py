"""Computes advantages of tokens from rewards of turns: returns over turns, baselines over groups, weights of groups.

Pure arithmetic on plain numbers. The result depends only on the set of turns, not on their order or the number of
processes, because sums are exact (`math.fsum`). Corrections for off-policy data are in `off_policy.py`.

Attempts form trees. A turn's return is its own reward plus the discounted mean return of its children, which along a
single path is the usual discounted sum. In runs where a search decided which turns were followed, a turn's return is
its own reward alone: later turns were never observed for the turns that the search dropped, and the turns it kept were
kept because of their results. Such turns are compared only with each other.

Returns may be shaped by progress. See `returns`.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from triton_agent.policy.train.prepare.recipes import DRPO, Recipe
from triton_agent.policy.train.record.rewards import CORRECT, NOVELTY, PARTS, Reward

STANDARD_DEVIATION_FLOOR = 1e-4
"""Added to the standard deviation of a group before dividing by it."""
FLAT = 1e-9
"""Returns that differ by less count as equal."""
LACKS = "lacks a measurement that other turns of its group have"
REWARD_TEMPERATURE, SCORE_TEMPERATURE = 0.1, 10.0
"""Lambda and tau of DRPO, as in the authors' published scripts."""


class TokenRole(enum.IntEnum):
    """The role of a token in an answer. The roles of an answer are one byte per token."""

    FEEDBACK = 0
    """Token that the policy did not sample; it has no loss."""
    PLAN = 1
    CODE = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The part of a turn that credit needs."""

    key: str
    """Key of the turn's attempt."""
    group: str
    """Turns of one group are compared with each other: they have the same problem and the same grader."""
    number: int
    parent: str | None
    """Key of the same author's previous turn; None at the start, or if it is unknown. See `chains.own_parents`."""
    reward: Reward
    progress_before: float = 0.0
    """Best progress on the path to the turn, by which the recipe may shape returns. See `chains.progress_before`."""
    progress_after: float = 0.0
    """Best progress on the path including the turn itself."""
    searched: bool = False
    """True if a search chose which turns of the run were followed, so that later turns were not observed for all
    alike.
    """
    improves: bool = False
    """True if the prompt contained a kernel that passed."""
    score: float = 0.0
    """Mean log-probability of its tokens when they were sampled, for DRPO."""
    sampled: bool = True
    """False for a turn without usable tokens, which only counts in the returns of the turns before it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advantage:
    """The factor of each token of a turn in the loss."""

    plan: float
    code: float

    def of(self, roles: bytes) -> list[float]:
        """Return the advantage of each token; 0 for tokens that the policy did not sample."""
        return list(map((0.0, self.plan, self.code).__getitem__, roles))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Advantages of the turns to train on, and counts of the others."""

    advantages: Mapping[str, Advantage]
    """Advantages by the turn's key."""
    left_out: Mapping[str, int]
    """Number of turns that are not trained on, by reason."""
    flat_groups: int
    """Number of groups that were dropped because their returns are all equal."""
    groups: int


# -- returns -----------------------------------------------------------------------------------------------------------


def returns(
    turns: Iterable[Turn],
    gamma: float,
    paid: Callable[[Reward], float | None],
    *,
    shaped: bool = False,
    td_lambda: float = 1.0,
) -> dict[str, float | None]:
    """Compute each turn's return; None if the turn, or all its children, could not be measured.

    `shaped` adds potential-based shaping: each turn is paid `gamma * progress after it - progress before it`, and the
    progress after an episode counts as 0. Later turns count by `(gamma * td_lambda) ** k`. With `td_lambda` 1 the
    potentials in between cancel, and only the progress before the turn is left, a baseline that does not depend on what
    the turn did. Below 1, the rest of the weight is on the progress that the turn itself made. After a turn of a
    search, whose later turns are unknown, all of it is.
    """
    by_key = {turn.key: turn for turn in turns}
    children: dict[str, list[str]] = defaultdict(list)
    for turn in by_key.values():
        if turn.parent in by_key and not turn.searched:
            if by_key[turn.parent].number >= turn.number:
                raise ValueError(f"{turn.key} builds on {turn.parent}, which is not an earlier turn")
            children[turn.parent].append(turn.key)
    observed = td_lambda if shaped else 1.0
    found: dict[str, float | None] = {}
    for turn in sorted(by_key.values(), key=lambda turn: -turn.number):
        reward = paid(turn.reward)
        later = [(gamma ** (by_key[key].number - turn.number), found[key]) for key in children[turn.key]]
        known = [
            factor * ((1.0 - observed) * turn.progress_after + observed * value)
            for factor, value in later
            if value is not None
        ]
        if shaped and turn.searched:
            known = [gamma * turn.progress_after]
        if reward is None or (later and not known and gamma > 0):
            found[turn.key] = None
        else:
            found[turn.key] = reward + (math.fsum(known) / len(known) if known else 0.0)
    if not shaped:
        return found
    return {key: None if value is None else value - by_key[key].progress_before for key, value in found.items()}


# -- baselines ---------------------------------------------------------------------------------------------------------


def compared(values: Sequence[float], baseline: str) -> list[float]:
    """Compare each value with the others of its pool, which has at least two."""
    count = len(values)
    total = math.fsum(values)
    if baseline == "trloo":
        return [value - (total - value) / (count - 1) for value in values]
    centred = [value - total / count for value in values]
    if baseline == "dr_grpo":
        return centred
    if baseline != "grpo":
        raise ValueError(f"no such baseline: {baseline}")
    deviation = math.sqrt(math.fsum(value * value for value in centred) / (count - 1))
    return [value / (deviation + STANDARD_DEVIATION_FLOOR) for value in centred]


def decoupled(turns: Sequence[Turn], values: Sequence[float]) -> list[float]:
    """Return the weights of DRPO: right turns are compared by their speed with right ones only, and no slow one is
    pushed down.

    The right ones get `softmax(value / lambda)`. The wrong ones get `-softmax(score / tau)`, the gradient of
    `-tau * logsumexp(score / tau)`. Both are times the number of turns, since the loss is a mean over them.
    """
    right = [turn.reward.parts.get(CORRECT) or 0.0 for turn in turns]
    up = _softmax([value / REWARD_TEMPERATURE if ok else -math.inf for value, ok in zip(values, right)])
    down = _softmax([-math.inf if ok else turn.score / SCORE_TEMPERATURE for turn, ok in zip(turns, right)])
    return [len(turns) * (a - b) for a, b in zip(up, down)]


def _softmax(values: Sequence[float]) -> list[float]:
    highest = max(values)
    powers = [math.exp(value - highest) for value in values]
    total = math.fsum(powers)
    return [power / total for power in powers]


def _varies(values: Sequence[float]) -> bool:
    return max(values) - min(values) > FLAT


# -- all steps together ------------------------------------------------------------------------------------------------


def assign(turns: Iterable[Turn], recipe: Recipe) -> Credit:
    """Compute advantages by the recipe. All turns of a group must be passed at once, since they are compared."""
    turns, left_out = _with_equal_parts(sorted(turns, key=lambda turn: turn.key)), Counter[str]()
    streams = [_stream_returns(turns, recipe, parts) for parts in (recipe.plan_parts, recipe.code_parts)]
    pools: dict[tuple[object, ...], list[Turn]] = defaultdict(list)
    for turn in filter(lambda turn: turn.sampled, turns):
        if any(stream[turn.key] is None for stream in streams):
            left_out[LACKS if turn.reward.why == LACKS else "not measured"] += 1
        else:
            number = turn.number if recipe.scope == "turn" else 0
            pools[turn.group, number, turn.searched, recipe.compare_starts and turn.improves].append(turn)
    taught, flat = _teaching(pools, _results(turns, recipe), left_out, recipe)
    weights = group_weights([turn for pool in taught for turn in pool], recipe)
    advantages: dict[str, Advantage] = {}
    for pool in taught:
        own = [[_known(stream[turn.key]) for turn in pool] for stream in streams]
        if recipe.baseline == DRPO:
            plan, code = (decoupled(pool, values) for values in own)
        else:
            plan, code = (compared(values, recipe.baseline) for values in own)
        for turn, for_plan, for_code in zip(pool, plan, code):
            weight = weights[turn.group]
            share = 1.0 if recipe.plan_parts is None else recipe.alpha
            advantages[turn.key] = Advantage(plan=weight * share * for_plan, code=weight * for_code)
    flat -= {turn.group for pool in taught for turn in pool}
    groups = len({turn.group for turn in turns if turn.sampled})
    return Credit(advantages=advantages, left_out=dict(left_out), flat_groups=len(flat), groups=groups)


def _stream_returns(turns: Sequence[Turn], recipe: Recipe, parts: frozenset[str] | None) -> dict[str, float | None]:
    def paid(reward: Reward) -> float | None:
        return reward.total if parts is None else reward.stream(parts)

    return returns(turns, recipe.gamma, paid, shaped=bool(recipe.potentials), td_lambda=recipe.td_lambda)


def _results(turns: Sequence[Turn], recipe: Recipe) -> list[dict[str, float | None]]:
    """Return the returns without novelty and shaping. They decide if a pool teaches: a rare structure or progress is no
    result if all results are equal.
    """
    streams = (recipe.plan_parts, recipe.code_parts) if recipe.plan_parts is not None else (frozenset(PARTS),)
    bare = dataclasses.replace(recipe, potentials={})
    return [_stream_returns(turns, bare, (parts or frozenset(PARTS)) - {NOVELTY}) for parts in streams]


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("an unknown return cannot be compared")
    return value


def _with_equal_parts(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with rewards of equal parts, since turns of a group are comparable only by what was measured
    for all of them.

    A part that most turns of a group lack is dropped for all of them: profiles of the fastest candidates alone would
    otherwise decide who is trained on. If only a few lack a part, these have no reward.
    """
    measured: Counter[tuple[str, str]] = Counter()
    for turn in turns:
        for name, paid in turn.reward.parts.items():
            measured[turn.group, name] += 1 if paid is not None else -1
    return [
        _with_parts(turn, {name for name in turn.reward.parts if measured[turn.group, name] >= 0}) for turn in turns
    ]


def _with_parts(turn: Turn, names: set[str]) -> Turn:
    """Return the turn with these parts of its reward, or without a reward if one of them was not measured."""
    reward = turn.reward
    parts = {name: paid for name, paid in reward.parts.items() if name in names}
    if None in parts.values():
        return dataclasses.replace(turn, reward=Reward.unmeasured(reward.recipe, LACKS))
    if len(parts) == len(reward.parts):
        return turn
    total = math.fsum(paid for paid in parts.values() if paid is not None)
    return dataclasses.replace(turn, reward=dataclasses.replace(reward, parts=parts, total=total))


def _teaching(
    pools: Mapping[tuple[object, ...], list[Turn]],
    streams: Sequence[Mapping[str, float | None]],
    left_out: Counter[str],
    recipe: Recipe,
) -> tuple[list[list[Turn]], set[str]]:
    """Return the pools whose returns differ, and the groups of the other pools."""
    taught, flat = [], set()
    for pool in pools.values():
        if len(pool) < 2:
            left_out["no other turn to compare with"] += len(pool)
        elif recipe.baseline == DRPO and len({bool(turn.reward.parts.get(CORRECT)) for turn in pool}) == 1:
            left_out["all turns of the group were right, or all were wrong"] += len(pool)
            flat.add(pool[0].group)
        elif recipe.baseline != DRPO and not any(_varies([_known(s[turn.key]) for turn in pool]) for s in streams):
            left_out["all turns of the group had equal returns"] += len(pool)
            flat.add(pool[0].group)
        else:
            taught.append(pool)
    return taught, flat


def group_weights(turns: Sequence[Turn], recipe: Recipe) -> dict[str, float]:
    """Return a weight for each group, 1 on average over the turns so that the size of a step stays constant."""
    members: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        members[turn.group].append(turn)
    raw = {}
    for group, own in members.items():
        passed = sum(turn.reward.passed for turn in own) / len(own)
        raw[group] = (1.0 / len(own) if recipe.balance_groups else 1.0) * (
            2.0 - passed if recipe.favour_difficult else 1.0
        )
    scale = len(turns) / math.fsum(raw[turn.group] for turn in turns) if turns else 1.0
    return {group: weight * scale for group, weight in raw.items()}
