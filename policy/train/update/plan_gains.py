"""Measures the worth of plans: how much likelier a right answer becomes for the policy after the plan.

The right answer is the turn's own code if it passed, otherwise the first that passed in its group. Its code is scored
twice after the turn's prompt, with and without the turn's plan before it, per token and in batches.
"""

from __future__ import annotations

import array
import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from triton_agent.policy.train.prepare.credit import TokenRole
from triton_agent.policy.train.prepare.prepared import Rescore
from triton_agent.policy.train.prepare.recipes import Recipe
from triton_agent.policy.train.record import rewards
from triton_agent.policy.train.record.spool import Numbers
from triton_agent.policy.train.record.trajectories import TrainingSample


def plan_gains(samples: Sequence[TrainingSample], rescore: Rescore) -> dict[str, float]:
    """Return the gain in log-likelihood per token at temperature 1 by turn; turns without a plan or a right answer have
    none.
    """
    right: dict[str, array.array[int]] = {}
    for sample in samples:
        if sample.turn.reward.passed and TokenRole.CODE in sample.roles:
            right.setdefault(sample.turn.group, _tokens(sample, TokenRole.CODE))
    asked: list[TrainingSample] = []
    for sample in samples:
        plan = _tokens(sample, TokenRole.PLAN)
        own = sample.turn.reward.passed and TokenRole.CODE in sample.roles
        answer = _tokens(sample, TokenRole.CODE) if own else right.get(sample.turn.group)
        if plan and answer:
            prompt = sample.numbers.load().prompt_ids
            asked += [_scored(sample, prompt + plan, answer), _scored(sample, prompt, answer)]
    means = [statistics.fmean(row) for row in rescore(asked, 1.0)]
    pairs = zip(asked[::2], means[::2], means[1::2])
    return {sample.turn.key: with_plan - without for sample, with_plan, without in pairs}


def paid(samples: Sequence[TrainingSample], recipe: Recipe, gains: Mapping[str, float]) -> list[TrainingSample]:
    """Return the samples with the reasoning part added to the rewards of these turns."""
    found = []
    for sample in samples:
        turn, gain = sample.turn, gains.get(sample.turn.key)
        if gain is not None and not turn.reward.why:
            part = recipe.reasoning * rewards.reasoning_worth(gain)
            turn = dataclasses.replace(turn, reward=turn.reward.plus(rewards.REASONING, part))
        found.append(dataclasses.replace(sample, turn=turn))
    return found


def _tokens(sample: TrainingSample, role: TokenRole) -> array.array[int]:
    return array.array("I", (t for t, own in zip(sample.numbers.load().token_ids, sample.roles) if own == role))


def _scored(sample: TrainingSample, prompt: array.array[int], answer: array.array[int]) -> TrainingSample:
    numbers = Numbers(prompt_ids=prompt, token_ids=answer, log_probabilities=None)
    return dataclasses.replace(sample, numbers=numbers, roles=bytes((TokenRole.CODE,)) * len(answer), scored=False)
