"""The trainer and the readable implementation on the same rows, before their first step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_agent.policy.train.prepare.prepared import TrainingRow, prepare
from triton_agent.policy.train.prepare.recipes import RECIPES, Recipe
from triton_agent.policy.train.record.trajectories import TrainingSample

RECIPE = dataclasses.replace(RECIPES["default"], plan_parts=None, code_parts=None, balance_groups=False)
RECIPE = dataclasses.replace(RECIPE, favour_difficult=False, potentials={})
"""What the readable implementation has of the default recipe: one advantage for a turn, and groups of equal weight."""
LOSS_WITHIN = 1e-6
"""Largest difference between the losses. They are means of thousands of terms of about 1 in float32, which rounds each
by 6e-8; on one processor the means differed by 1e-8.
"""
GRADIENTS_WITHIN = 1e-5
"""Largest difference between the gradients, relative to their norm. TRL projects the vocabulary in pieces, so sums in
float32 have another order; on one processor the gradients differed by 2e-6.
"""


def trainer(model: Path, rows: Sequence[TrainingRow], output: Path, recipe: Recipe = RECIPE, **settings: Any) -> Any:
    from triton_agent.policy.train.update.grpo import GRPOSettings, LoggedTrainer
    from triton_agent.policy.train.update.session import load

    loaded, tokenizer = load(str(model))
    chosen = GRPOSettings(output=output, cpu=True, batch_size=len(rows), **settings)
    return LoggedTrainer(rows, settings=chosen, recipe=recipe, model=loaded, tokenizer=tokenizer)


def whole_batch(full: Any) -> dict[str, Any]:
    """Return all rows of the trainer as the batch that it makes of them."""
    batch: dict[str, Any] = full._generate_and_score_completions([{"part": at} for at in range(len(full.parts))])
    return batch


def importance_ratios(full: Any) -> Any:
    """Return the ratio of each sampled token: its probability under the trainer's weights over the stored one."""
    batch = whole_batch(full)
    own = (batch["completion_mask"] * batch["tool_mask"]).bool()
    return (full.log_probabilities(batch) - batch["sampled"]).exp()[own]


def logged_turns(samples: Sequence[TrainingSample]) -> list[Any]:
    """Return the samples as the readable implementation takes them.

    A turn of a search is compared with such turns only, and is a trajectory of its own, as no later turn counts for it.
    """
    from triton_agent.policy.train.grpo_minimal import LoggedTurn

    return [
        LoggedTurn(
            group=f"{sample.turn.group} {sample.turn.searched}",
            trajectory=sample.turn.key if sample.turn.searched else sample.turn.key.partition("/")[0],
            number=sample.turn.number,
            prompt_ids=sample.numbers.load().prompt_ids,
            token_ids=sample.numbers.load().token_ids,
            log_probabilities=sample.numbers.load().log_probabilities or (),
            chosen=sample.chosen,
            reward=sample.turn.reward.total or 0.0,
        )
        for sample in samples
    ]


def jolt(*models: Any, size: float = 0.02) -> None:
    """Move all models by the same small random step, so that the importance ratios differ from 1."""
    import torch

    torch.manual_seed(3)
    with torch.no_grad():
        for parameters in zip(*(model.parameters() for model in models)):
            step = torch.randn_like(parameters[0]) * size
            for parameter in parameters:
                parameter.add_(step)


def assert_parity(
    model: Path, samples: Sequence[TrainingSample], output: Path, *, proximal: bool = False, moved: bool = True
) -> None:
    """Check that trainer and readable implementation have the same loss and gradients for the samples.

    With `moved`, the weights have changed since the answers were sampled, and some ratios are clipped.
    """
    from triton_agent.policy.train import grpo_minimal
    from triton_agent.policy.train.update.session import load

    prepared = prepare(samples, RECIPE)
    assert len(prepared.rows) >= 8, "the data must teach something, or this tests nothing"
    full = trainer(model, prepared.rows, output, proximal=proximal, temperature=prepared.temperature)
    twin, _ = load(str(model))
    if moved:
        jolt(full.model, twin)
    full.model.train()
    full.current_gradient_accumulation_steps = 1
    loss = full._compute_loss(full.model, whole_batch(full))

    turns = logged_turns(samples)
    worth = dict(zip((s.turn.key for s in samples), grpo_minimal.advantages(turns, RECIPE.gamma)))
    by_key = {sample.turn.key: turn for sample, turn in zip(samples, turns)}
    kept = [row.key for row in prepared.rows]
    readable = grpo_minimal.make_batch([by_key[key] for key in kept], [worth[key] for key in kept])
    settings = grpo_minimal.Settings(proximal=proximal, temperature=prepared.temperature)
    expected = grpo_minimal.batch_loss(twin.train(), readable, settings)
    assert abs(loss.item() - expected.item()) < LOSS_WITHIN
    assert abs(expected.item()) > 1e-4

    loss.backward()
    expected.backward()
    apart, size = (
        math.sqrt(sum(float((change**2).sum()) for change in changes))
        for changes in zip(*((a.grad - b.grad, b.grad) for a, b in zip(full.model.parameters(), twin.parameters())))
    )
    assert apart < GRADIENTS_WITHIN * size
